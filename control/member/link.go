package member

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"time"

	"muniment.example/control/mailer"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

const (
	// AdmitJob decides what becomes of the addresses for which links were requested.
	AdmitJob = "member.admit"
	// MailJob sends a mail to a member.
	MailJob = "member.mail"
	// MailAttempts is how often sending a mail is tried at most: for about a quarter of an hour, after which its
	// request is forgotten by whoever made it.
	MailAttempts = 8
	// SignInPath is the page that a link leads to, with the token as the parameter token. Loading it changes nothing.
	SignInPath = Path + "/sign-in"
)

const (
	// linkAge is how long a link works.
	linkAge = 15 * time.Minute
	// mostOpenLinks is how many links of a member work at a time.
	mostOpenLinks = 3
	// mostRequests is how many requests wait for AdmitJob.
	mostRequests = 10_000
	// admitBatch is how many requests one transaction decides on.
	admitBatch = 100
	prefixLink = api.Prefix("lnk_")
)

// mailing is the payload of a MailJob.
type mailing struct {
	MemberID string `json:"memberId"`
	// Link says that the mail has a link; otherwise it is an invitation, which has none.
	Link bool `json:"link"`
}

// RequestLink has a link to sign in mailed to an address, if it is a member's. Answer and work are the same whatever is
// known of the address: the request is stored and a job queued, and nothing else is read. The caller's own
// address may make 10 requests in 10 seconds, and 60 in an hour.
func (s *Service) RequestLink(r *http.Request, email string) error {
	if err := s.admit(r); err != nil {
		return err
	}
	sent := strings.TrimSpace(email)
	if email = strings.ToLower(sent); !mailer.IsAddress(sent) || !mailer.IsAddress(email) {
		return api.InvalidField("email", "must be one e-mail address, as name@example.org")
	}
	if err := s.db.Reserved(); err != nil {
		return err
	}
	ctx, now, inserted := r.Context(), s.db.Now(), false
	err := s.db.Transact(ctx, func(tx *sql.Tx) (err error) {
		if inserted, err = insertRequest(ctx, tx, api.NewID(prefixLink, now), email, store.At(now)); err != nil {
			return err
		}
		return s.db.Jobs.EnqueueIn(ctx, tx, store.NewJob{Kind: AdmitJob, TenantID: api.SystemTenant, Key: "all", Payload: struct{}{}})
	})
	if err == nil && !inserted {
		err = api.Unavailable(api.Overloaded, "too many people want to sign in at this moment; no mail was sent", time.Minute)
	}
	return err
}

// admit refuses requests that do not pass Check, and those beyond the limits of their address.
func (s *Service) admit(r *http.Request) error {
	if err := s.Check(r); err != nil {
		return err
	}
	return s.callers.Count(r)
}

// Admit does the job of the kind AdmitJob: each request becomes a mail to each member with the address.
func (s *Service) Admit(ctx context.Context, _ *store.Job) error {
	for more := true; more; {
		err := s.db.Transact(ctx, func(tx *sql.Tx) error {
			batch, err := listRequests(ctx, tx, s.db.SkipLocked())
			if err != nil {
				return err
			}
			more = len(batch) == admitBatch
			for _, q := range batch {
				if err := deleteRequest(ctx, tx, q.id); err != nil {
					return err
				}
				all, err := ofAddress(ctx, tx, q.email)
				if err != nil {
					return err
				}
				for _, m := range all {
					job := store.NewJob{Kind: MailJob, TenantID: api.SystemTenant, Lane: m.ID, Key: m.ID, Payload: mailing{m.ID, true}}
					if err := s.db.Jobs.EnqueueIn(ctx, tx, job); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("cannot look at the requests for links: %w", err)
		}
	}
	return nil
}

// SendMail does the job of the kind MailJob. Each attempt makes a token of its own before it sends, in place of that of the
// attempt before: one whose process is killed may have reached the member.
func (s *Service) SendMail(ctx context.Context, job *store.Job) error {
	var what mailing
	if err := job.Read(&what); err != nil {
		return err
	}
	token, expires := api.NewSecret(), store.At(s.db.Now().Add(linkAge))
	var to *Member
	full := false
	err := s.db.Transact(ctx, func(tx *sql.Tx) error {
		to, full = nil, false
		if err := job.Hold(ctx, tx); err != nil {
			return err
		}
		m, err := findAny(ctx, tx, what.MemberID)
		if store.IsNone(err) || err == nil && (m.State == Removed || m.erased()) {
			return nil // removed or erased meanwhile
		}
		if err == nil && what.Link {
			var made bool
			if made, err = insertLink(ctx, tx, job.ID, token, m, expires, s.db.Now()); !made {
				full = err == nil
				return err
			}
		}
		to = m
		return err
	})
	if full {
		s.cfg.Logger.InfoContext(ctx, "a link was not mailed: as many links of the member as may work at a time do", "memberId", what.MemberID)
	}
	if err != nil || to == nil {
		return err
	}
	letter := s.invitation(to)
	if what.Link {
		letter = s.letter(to, token, expires)
	}
	if failed := s.cfg.Mails.Send(ctx, to.ID, letter); failed != nil {
		s.cfg.Logger.WarnContext(ctx, "a mail to a member was not sent", "memberId", to.ID, "err", failed)
		return s.cfg.Failed(failed.Code, failed.Final, failed)
	}
	return nil
}

// letter is the mail with a link.
func (s *Service) letter(to *Member, token string, expires store.Instant) mailer.Mail {
	return mailer.Mail{To: to.Email, Subject: "Sign in to the Muniment console of " + to.OrgID, Text: "Somebody wants to sign in to the Muniment console of " + to.OrgID + " with this address.\r\n\r\n" +
		"If that is you, open this link and press the button. It works once, until " + expires.Format("2 January 2006, 15:04") + " UTC:\r\n\r\n" +
		s.cfg.PublicURL + SignInPath + "?token=" + token + "\r\n\r\n" +
		"Anyone who has the link can sign in as you: don't forward this mail. If it is not\r\nyou, ignore it: nothing happens unless the link is used.\r\n"}
}

// invitation is the mail to a new member. It has nothing that gives access.
func (s *Service) invitation(to *Member) mailer.Mail {
	return mailer.Mail{To: to.Email, Subject: "You can sign in to the Muniment console of " + to.OrgID, Text: "You were made a member of " + to.OrgID + ", with the role " + string(to.Role) + ".\r\n\r\n" +
		"To sign in, open this page and enter this address; a mail then brings a link:\r\n\r\n" + s.cfg.PublicURL + SignInPath + "\r\n\r\n" +
		"If you did not expect this, ignore it.\r\n"}
}

// errLink is the answer to every token that is not good, whatever is known of it.
var errLink error = &api.Error{Code: api.AuthInvalid, Message: "this link was used, has expired or is not complete: have another one mailed to you"}

// OfLink is the member whom a link would sign in; nil if it signs nobody in. It changes nothing.
func (s *Service) OfLink(ctx context.Context, token string) (*Member, error) {
	id, err := memberOf(ctx, s.db.Read(), token, s.db.Now())
	if err != nil || id == nil {
		return nil, err
	}
	m, err := findAny(ctx, s.db.Read(), *id)
	if store.IsNone(err) || err == nil && (m.State == Removed || m.erased()) {
		return nil, nil // removed or erased meanwhile
	}
	return m, err
}

// SignInByLink exchanges the token of a link for a session, which ends the one of the request, and all other links of
// the member. Of any number of callers with one token, one gets a session. A token that is not good is AUTH_INVALID, and
// one answer whatever is wrong with it.
func (s *Service) SignInByLink(r *http.Request, token string) (*http.Cookie, error) {
	if err := s.admit(r); err != nil {
		return nil, err
	}
	ctx := r.Context()
	// It reads first: guesses must not keep changes waiting.
	id, err := memberOf(ctx, s.db.Read(), token, s.db.Now())
	if err == nil && id == nil {
		err = errLink
	}
	if err != nil {
		return nil, err
	}
	var m Member
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		id, err := memberOf(ctx, tx, token, tx.Now())
		if err == nil && id == nil {
			err = errLink
		}
		if err != nil {
			return err
		}
		if err := deleteLinks(ctx, tx, *id); err != nil {
			return err
		}
		was, err := findAny(ctx, tx, *id)
		if store.IsNone(err) || err == nil && (was.State == Removed || was.erased()) {
			return errLink
		}
		if err != nil || was.State == Active {
			m = *was
			return err
		}
		m, err = members.Move(ctx, tx, store.Move[Member, action]{TenantID: was.TenantID, ID: was.ID, Action: join, By: store.ByKey(was.ID)})
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.signIn(r, m.TenantID, m.ID, s.db.Now())
}
