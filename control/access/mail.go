package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"muniment.example/control/store"
	"muniment.example/sealer/keyfile"
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
	if _, err := netmail.ParseAddress(from); err != nil || !isPlain(from, "") {
		return errors.New("must be an e-mail address, as muniment@example.org or Muniment <muniment@example.org>")
	}
	return nil
}

const (
	// mailTime is how long each step of a conversation with a mail server may take.
	mailTime = 15 * time.Second
	// mailFile ends the names of mails in the outbox.
	mailFile = ".eml"
	// unsent is the sender of mails in the outbox, which has none.
	unsent = "muniment@localhost"
)

// MailJob sends the mail of an approval.
const MailJob = "access.mail"

// MailAttempts is how often sending a mail is tried at most: for about four hours.
const MailAttempts = 40

// mailing is the payload of a MailJob. Approval is 0 for the mail to confirm.
type mailing struct {
	ApplicationID string `json:"applicationId"`
	Approval      int64  `json:"approval"`
}

// state is that of the applications to which the mail is sent.
func (m mailing) state() State {
	if m.Approval == 0 {
		return Unconfirmed
	}
	return Approved
}

// Codes of mails that were not sent.
const (
	mailUnavailable = "MAIL_SERVER_UNAVAILABLE"
	mailRefused     = "MAIL_REFUSED"
	outboxFailed    = "OUTBOX_FAILED"
)

// mailError is why a mail was not sent. It never holds what a mail server has written beside its
// codes, as that may name the applicant.
type mailError struct {
	code, detail string
	final        bool
}

func (e *mailError) Error() string { return "the mail was not sent: " + e.detail }

// SendMail does the job of the kind MailJob. It sends nothing for an approval that was followed by
// another one, or for an application that is in another state by now.
func (s *Service) SendMail(ctx context.Context, job *store.Job) error {
	var m mailing
	if err := job.Read(&m); err != nil {
		return err
	}
	token, now := newToken(), s.db.Now()
	expires, mail := store.At(now.Add(tokenAge)), Mail{State: MailQueued, Attempts: int64(job.Attempts), At: store.At(now)}
	var to string
	err := s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := job.Hold(ctx, tx); err != nil {
			return err
		}
		if claimed, err := claimMail(ctx, tx, m, mail); err != nil || !claimed {
			return err
		}
		a, err := find(ctx, tx, m.ApplicationID)
		if err != nil || a.stateAt(store.At(now)) != m.state() {
			return err
		}
		to = a.Email
		return insertToken(ctx, tx, token, a.ID, expires)
	})
	if err != nil || to == "" {
		return err
	}
	failed := s.send(ctx, m, to, token, expires.Time)
	mail.At = store.At(s.db.Now())
	switch {
	case failed != nil:
		mail.Code, mail.Detail = failed.code, failed.detail
	case s.cfg.Server == nil:
		mail.State = MailWritten
	default:
		mail.State = MailSent
	}
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := job.Hold(ctx, tx); err != nil {
			return err
		}
		_, err := noteMail(ctx, tx, m, mail)
		return err
	})
	if err == nil && failed != nil {
		err = s.cfg.Failed(failed.code, failed.final, failed)
	}
	return err
}

// GiveUpMail notes, in the change that fails the job, that its mail is not sent.
func (s *Service) GiveUpMail(ctx context.Context, tx *store.Tx, job *store.Job, code string) error {
	var m mailing
	if err := job.Read(&m); err != nil {
		return err
	}
	a, err := find(ctx, tx, m.ApplicationID)
	if store.IsNone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	a.Mail.State, a.Mail.Code, a.Mail.At = MailFailed, code, store.At(tx.Now())
	_, err = noteMail(ctx, tx, m, a.Mail)
	return err
}

// send sends a mail, or writes it to the outbox.
func (s *Service) send(ctx context.Context, m mailing, to, token string, expires time.Time) *mailError {
	from, encoding := unsent, mail.NoEncoding // the operator reads the file and opens the link
	if s.cfg.Server != nil {
		from, encoding = s.cfg.Server.From, mail.EncodingQP // any server takes it
	}
	message, err := compose(encoding, from, to, s.cfg.PublicURL+"/playground#", m.text(), token, expires)
	if err != nil {
		return &mailError{mailRefused, "the address can't be written to", true}
	}
	if s.cfg.Server != nil {
		return s.cfg.Server.send(ctx, message)
	}
	var text bytes.Buffer
	if _, err = message.WriteTo(&text); err == nil {
		err = keyfile.Write(filepath.Join(s.cfg.Outbox, m.ApplicationID+mailFile), text.Bytes(), 0o600)
	}
	if err != nil {
		return &mailError{outboxFailed, err.Error(), false}
	}
	return nil
}

// mailText is what a mail says around its link. fragment begins the link's fragment, and %s is until when it works.
type mailText struct{ subject, fragment, before, after string }

func (m mailing) text() mailText {
	if m.Approval == 0 {
		return mailText{
			"Confirm your application for the Muniment sandbox", "confirm=",
			"Somebody has applied for a key of the Muniment sandbox with this address.\r\n\r\nIf that was you, open this link and press the button, until %s:",
			"If you have not applied, ignore this mail: without the button nothing comes\r\nof the application.",
		}
	}
	return mailText{
		"Your key for the Muniment sandbox", "activate=",
		"Your application for a key of the Muniment sandbox was approved.\r\n\r\nOpen this link to activate the key. It works once, until %s:",
		"The key is shown once, so keep it in a safe place. Anyone who has the link\r\ncan activate the key: don't forward this mail.\r\n\r\n" +
			"If you have not applied, ignore this mail: nothing happens unless the link is used.",
	}
}

// compose writes the mail. Its text is ours alone.
func compose(encoding mail.Encoding, from, to, page string, l mailText, token string, expires time.Time) (*mail.Msg, error) {
	message := mail.NewMsg(mail.WithEncoding(encoding), mail.WithNoDefaultUserAgent())
	if err := message.From(from); err != nil {
		return nil, err
	}
	if err := message.To(to); err != nil {
		return nil, err
	}
	message.Subject(l.subject)
	message.SetDate()
	message.SetMessageID()
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.SetBodyString(mail.TypeTextPlain, fmt.Sprintf(l.before, expires.UTC().Format("2 January 2006, 15:04")+" UTC")+"\r\n\r\n"+page+l.fragment+token+"\r\n\r\n"+l.after+"\r\n")
	return message, nil
}

// send has the server take a message.
func (c *Server) send(ctx context.Context, message *mail.Msg) *mailError {
	client, err := c.client()
	if err != nil {
		return &mailError{mailUnavailable, "the mail server can't be used as it is configured: " + err.Error(), false}
	}
	if err := client.DialWithContext(ctx); err != nil { // before anything of the applicant is said
		return &mailError{mailUnavailable, clip("cannot use the mail server: " + err.Error()), false}
	}
	err = client.Send(message)
	_ = client.Close() // a server that has taken the mail has taken it, however it says goodbye
	if err == nil || message.IsDelivered() {
		return nil
	}
	refused, ok := errors.AsType[*mail.SendError](err)
	if !ok || refused.ErrorCode() == 0 {
		return &mailError{mailUnavailable, "the mail server broke off", false}
	}
	codes := strings.TrimSpace(strconv.Itoa(refused.ErrorCode()) + " " + refused.EnhancedStatusCode())
	return &mailError{mailRefused, "the mail server answered " + codes, !refused.IsTemp()}
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
