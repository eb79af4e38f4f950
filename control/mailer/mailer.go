// Package mailer sends mails: by SMTP, or, where no mail server is configured, to files of a folder, the outbox, whose
// operator passes them on. It keeps nothing, retries nothing and logs nothing; who calls it does that in a job. Errors
// say what a mail server answered by its codes alone: its texts may name the recipient.
package mailer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/wneessen/go-mail"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/keyfile"
)

// Mails sends mails. Server or Outbox is required.
type Mails struct {
	// Server takes the mails; nil: they are written to the outbox.
	Server *Server
	// Outbox is the folder of mails that are written to files.
	Outbox string
}

// Mail is a text to one address. What a stranger has written has no place in it: nobody may have us send it to others.
type Mail struct{ To, Subject, Text string }

const (
	// File ends the names of mails in the outbox.
	File = ".eml"
	// unsent is the sender of mails in the outbox, which has none.
	unsent = "muniment@localhost"
)

// Codes of mails that were not sent.
const (
	unavailable  = "MAIL_SERVER_UNAVAILABLE"
	refusedMail  = "MAIL_REFUSED"
	outboxFailed = "OUTBOX_FAILED"
)

// Error is why a mail was not sent. Final says that sending it again is of no use.
type Error struct {
	Code, Detail string
	Final        bool
}

func (e *Error) Error() string { return "the mail was not sent: " + e.Detail }

// Send sends a mail, or writes it to the outbox under a name, over an earlier one of that name. A mail that a server
// has taken may not have reached anybody; one of an Error that is not Final may have, so it may arrive twice.
func (m *Mails) Send(ctx context.Context, name string, letter Mail) *Error {
	from, encoding := unsent, mail.NoEncoding // the operator reads the file and opens the link
	if m.Server != nil {
		from, encoding = m.Server.From, mail.EncodingQP // any server takes it
	}
	message, err := compose(encoding, from, letter)
	if err != nil {
		return &Error{refusedMail, "the address can't be written to", true}
	}
	if m.Server != nil {
		return m.Server.send(ctx, message)
	}
	var text bytes.Buffer
	if _, err = message.WriteTo(&text); err == nil {
		err = keyfile.Write(filepath.Join(m.Outbox, name+File), text.Bytes(), 0o600)
	}
	if err != nil {
		return &Error{outboxFailed, err.Error(), false}
	}
	return nil
}

// Clean removes the mails in the outbox that are named by an id of the prefix, but for those that are needed still. It leaves
// other files alone.
func (m *Mails) Clean(prefix api.Prefix, needed func(id string) (bool, error)) error {
	if m.Outbox == "" {
		return nil
	}
	files, err := os.ReadDir(m.Outbox)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot look through the outbox: %w", err)
	}
	for _, file := range files {
		id, isMail := strings.CutSuffix(file.Name(), File)
		if !isMail || !api.IsID(prefix, id) {
			continue
		}
		stays, err := needed(id)
		if err != nil {
			return err
		}
		if stays {
			continue
		}
		if err := os.Remove(filepath.Join(m.Outbox, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove a mail from the outbox: %w", err)
		}
	}
	return nil
}

func compose(encoding mail.Encoding, from string, letter Mail) (*mail.Msg, error) {
	message := mail.NewMsg(mail.WithEncoding(encoding), mail.WithNoDefaultUserAgent())
	if err := message.From(from); err != nil {
		return nil, err
	}
	if err := message.To(letter.To); err != nil {
		return nil, err
	}
	message.Subject(letter.Subject)
	message.SetDate()
	message.SetMessageID()
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.SetBodyString(mail.TypeTextPlain, letter.Text)
	return message, nil
}

// MaxAddress is the longest address, in bytes, and maxLocal what of it may be before the @.
const MaxAddress, maxLocal = 254, 64

// IsAddress says whether a text is the address of one mailbox and nothing else. Quoted names and
// literal IP addresses, which hardly anybody has, are none.
func IsAddress(text string) bool {
	local, domain, _ := strings.Cut(text, "@")
	if len(text) > MaxAddress || len(local) > maxLocal || domain == "" || !IsPlain(text, "") || strings.ContainsAny(text, " \"()<>,;:\\[]") {
		return false
	}
	parsed, err := netmail.ParseAddress(text)
	return err == nil && parsed.Name == "" && parsed.Address == text
}

// IsPlain says whether a text has no control characters but those that are allowed, and none that
// change the direction of the text around it, which would have an operator read something else.
func IsPlain(text, allowed string) bool {
	return store.Storable(text) && !strings.ContainsFunc(text, func(c rune) bool {
		return (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || unicode.Is(unicode.Zl, c) || unicode.Is(unicode.Zp, c)) && !strings.ContainsRune(allowed, c)
	})
}
