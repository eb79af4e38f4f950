package mailer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	netmail "net/mail"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
)

// Server is a mail server that takes the mails by SMTP. Address and From are required.
type Server struct {
	// Address is host:port, and From the sender of the mails: an address, with or without a name.
	Address, From string
	// User and Password authenticate; none if User is empty. Password is read for each mail.
	User     string
	Password func() (string, error)
	// TLS is when TLS begins.
	TLS TLSMode
	// Trust returns the configuration of each connection with TLS to a host.
	Trust func(host string) *tls.Config
}

// TLSMode is when TLS begins on a connection to a mail server.
type TLSMode string

// The modes. StartTLS refuses a server that has no STARTTLS.
const (
	StartTLS    TLSMode = "starttls"
	ImplicitTLS TLSMode = "implicit"
	NoTLS       TLSMode = "none"
)

// CheckSender says what is wrong with the sender of mails.
func CheckSender(from string) error {
	if _, err := netmail.ParseAddress(from); err != nil || !IsPlain(from, "") {
		return errors.New("must be an e-mail address, as muniment@example.org or Muniment <muniment@example.org>")
	}
	return nil
}

// mailTime is how long each step of a conversation with a mail server may take.
const mailTime = 15 * time.Second

// send has the server take a message.
func (c *Server) send(ctx context.Context, message *mail.Msg) *Error {
	client, err := c.client()
	if err != nil {
		return &Error{unavailable, "the mail server can't be used as it is configured: " + err.Error(), false}
	}
	if err := client.DialWithContext(ctx); err != nil { // before anything of the recipient is said
		return &Error{unavailable, clip("cannot use the mail server: " + err.Error()), false}
	}
	err = client.Send(message)
	_ = client.Close() // a server that has taken the mail has taken it, however it says goodbye
	if err == nil || message.IsDelivered() {
		return nil
	}
	refused, ok := errors.AsType[*mail.SendError](err)
	if !ok || refused.ErrorCode() == 0 {
		return &Error{unavailable, "the mail server broke off", false}
	}
	codes := strings.TrimSpace(strconv.Itoa(refused.ErrorCode()) + " " + refused.EnhancedStatusCode())
	return &Error{refusedMail, "the mail server answered " + codes, !refused.IsTemp()}
}

func (c *Server) client() (*mail.Client, error) {
	host, text, err := net.SplitHostPort(c.Address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	options := []mail.Option{mail.WithPort(port), mail.WithTimeout(mailTime)}
	if c.TLS != NoTLS {
		options = append(options, mail.WithTLSConfig(c.Trust(host)))
	}
	switch c.TLS {
	case NoTLS:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	case ImplicitTLS:
		options = append(options, mail.WithSSL())
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if c.User != "" {
		password, err := c.Password()
		if err != nil {
			return nil, err
		}
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(c.User), mail.WithPassword(password))
	}
	return mail.NewClient(host, options...)
}

// maxDetail bounds what is noted of a failure, in bytes.
const maxDetail = 200

func clip(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, ""))
	if len(text) > maxDetail {
		return strings.ToValidUTF8(text[:maxDetail], "") + "..."
	}
	return text
}
