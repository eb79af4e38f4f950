package access

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muniment.example/control/mailer"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
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

// SendMail does the job of the kind MailJob. It sends nothing for an approval that was followed by
// another one, or for an application that is in another state by now.
func (s *Service) SendMail(ctx context.Context, job *store.Job) error {
	var m mailing
	if err := job.Read(&m); err != nil {
		return err
	}
	token, now := api.NewSecret(), s.db.Now()
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
		mail.Code, mail.Detail = failed.Code, failed.Detail
	case s.cfg.Mails.Server == nil:
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
		err = s.cfg.Failed(failed.Code, failed.Final, failed)
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
func (s *Service) send(ctx context.Context, m mailing, to, token string, expires time.Time) *mailer.Error {
	return s.cfg.Mails.Send(ctx, m.ApplicationID, mailer.Mail{To: to, Subject: m.text().subject, Text: m.text().with(s.cfg.PublicURL+"/playground#", token, expires)})
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
		"Your application for a key of the Muniment sandbox was approved.\r\n\r\nOpen this link and press the button to activate the key. It works once, until %s:",
		"The key is shown once, so keep it in a safe place. Anyone who has the link\r\ncan activate the key: don't forward this mail.\r\n\r\n" +
			"If you have not applied, ignore this mail: without the button nothing happens.",
	}
}

// with is the text with its link. It is ours alone.
func (l mailText) with(page, token string, expires time.Time) string {
	return fmt.Sprintf(l.before, expires.UTC().Format("2 January 2006, 15:04")+" UTC") + "\r\n\r\n" + page + l.fragment + token + "\r\n\r\n" + l.after + "\r\n"
}
