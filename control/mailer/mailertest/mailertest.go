// Package mailertest has a mail server for tests.
package mailertest

import (
	"bytes"
	"crypto/tls"
	"io"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// Server is an SMTP server that keeps what it takes.
type Server struct {
	t       *testing.T
	Address string

	mu       sync.Mutex
	Letters  []Letter
	Answers  []error // to the next recipients, nil takes one
	Password string  // of the user muniment; empty: nobody has to authenticate
}

// Letter is a mail as the server took it.
type Letter struct {
	From, To, Text string
	Encrypted      bool
}

// New starts a server; without a certificate it speaks no TLS, and implicit begins with it.
func New(t *testing.T, certificate *tls.Certificate, implicit bool) *Server {
	m := &Server{t: t}
	server := smtp.NewServer(m)
	server.Domain, server.AllowInsecureAuth = "localhost", true
	server.ErrorLog = quiet{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.Address = listener.Addr().String()
	if certificate != nil {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	}
	if implicit {
		listener = tls.NewListener(listener, server.TLSConfig)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-ended
	})
	return m
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// NewSession implements smtp.Backend.
func (m *Server) NewSession(c *smtp.Conn) (smtp.Session, error) {
	_, encrypted := c.TLSConnectionState()
	return &session{Server: m, letter: Letter{Encrypted: encrypted}, known: m.Password == ""}, nil
}

type session struct {
	*Server
	letter Letter
	known  bool
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "muniment" || password != s.Password {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "no such user " + user}
		}
		s.known = true
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if !s.known {
		return smtp.ErrAuthRequired
	}
	s.letter.From = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.Answers) > 0 {
		err, s.Answers = s.Answers[0], s.Answers[1:]
	}
	s.letter.To = to
	return err
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letter.Text = string(text)
	s.Letters = append(s.Letters, s.letter)
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// Took is the only letter that was taken since.
func (m *Server) Took() Letter {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Len(m.t, m.Letters, 1)
	taken := m.Letters[0]
	m.Letters = nil
	return taken
}

// Read parses a letter, and returns it with its text.
func (l Letter) Read(t *testing.T) (letter *mail.Message, text string) {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewBufferString(l.Text))
	require.NoError(t, err)
	require.Equal(t, "quoted-printable", m.Header.Get("Content-Transfer-Encoding"))
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	require.NoError(t, err)
	return m, string(body)
}
