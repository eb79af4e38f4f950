package systemtest

import (
	"bytes"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/access"
)

// Applicant applies for a key, and is who runs the service, too.
type Applicant struct {
	T         *testing.T
	URL, Data string
	Box       *Mailbox // whose mails have to be confirmed; nil: there is no mail server
}

func (a Applicant) Post(path, body string) string {
	a.T.Helper()
	return Call(a.T, a.URL, "", Operation{Method: "POST", Path: "/api/access" + path, Body: body}, "X-Forwarded-For", AnyAddress()).Body
}

// Approved has an address apply and confirm, and approves that.
func (a Applicant) Approved(email string) (id string) {
	a.T.Helper()
	require.Contains(a.T, a.Post("/apply", fmt.Sprintf(`{"email":%q,"organisation":"Example Ltd","use":"Trying it out"}`, email)), "RECEIVED")
	waittest.Until(a.T, func() bool {
		for _, one := range a.List() {
			if one.Email == email {
				id = one.ID
			}
		}
		return id != ""
	}, "the application is there")
	if a.Box != nil {
		require.Contains(a.T, a.Post("/confirm", fmt.Sprintf(`{"token":%q}`, a.Box.Token(a.T, email, "", "confirm"))), "CONFIRMED")
	}
	require.Contains(a.T, Command(a.T, "access", "approve", "--data", a.Data, id), id+" is approved")
	return id
}

func (a Applicant) List() []access.Listed {
	a.T.Helper()
	return Parse[struct{ Applications []access.Listed }](a.T, Command(a.T, "access", "list", "--data", a.Data, "--json")).Applications
}

// Written is the token of a mail in the outbox.
func (a Applicant) Written(id string) (token string) {
	a.T.Helper()
	waittest.Until(a.T, func() bool {
		text, err := os.ReadFile(filepath.Join(a.Data, "outbox", id+".eml"))
		if found := activationToken.FindSubmatch(text); err == nil && found != nil {
			token = string(found[1])
		}
		return token != ""
	}, "the mail is written")
	return token
}

var activationToken = regexp.MustCompile(`/playground#activate=([\w-]{43})\s`)

// SignInToken is the token of the link to the tenant's console that the outbox has for a member, other than those that it had
// before.
func SignInToken(t *testing.T, data, memberID string, before ...string) (token string) {
	t.Helper()
	waittest.Until(t, func() bool {
		text, err := os.ReadFile(filepath.Join(data, "outbox", memberID+".eml"))
		if found := signInToken.FindSubmatch(text); err == nil && found != nil && !slices.Contains(before, string(found[1])) {
			token = string(found[1])
		}
		return token != ""
	}, "the mail is written")
	return token
}

var signInToken = regexp.MustCompile(`/console/sign-in\?token=([\w-]{43})\s`)

// Mailbox is a mail server that takes everything.
type Mailbox struct {
	mu      sync.Mutex
	letters []string
}

// OpenMailbox starts it, and returns its address.
func OpenMailbox(t *testing.T) (*Mailbox, string) {
	t.Helper()
	m := new(Mailbox)
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return delivering{m}, nil }))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = listener.Close() // Serve may not have begun, and would miss Close
		_ = server.Close()
		<-ended
	})
	return m, listener.Addr().String()
}

type delivering struct{ *Mailbox }

func (delivering) Mail(string, *smtp.MailOptions) error { return nil }
func (delivering) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (delivering) Reset()                               {}
func (delivering) Logout() error                        { return nil }

func (d delivering) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.letters = append(d.letters, string(text))
	return err
}

// Token is that of a mail to an address whose link is of a kind, confirm or activate.
func (m *Mailbox) Token(t *testing.T, to, link, kind string) (token string) {
	t.Helper()
	waittest.Until(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, text := range m.letters {
			letter, err := mail.ReadMessage(bytes.NewBufferString(text))
			require.NoError(t, err)
			body, err := io.ReadAll(quotedprintable.NewReader(letter.Body))
			require.NoError(t, err)
			_, rest, found := strings.Cut(string(body), link+"/playground#"+kind+"=")
			if found && letter.Header.Get("To") == "<"+to+">" {
				token = strings.Fields(rest)[0]
			}
		}
		return token != ""
	}, "the mail is there")
	return token
}
