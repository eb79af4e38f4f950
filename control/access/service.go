package access

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"muniment.example/control/mailer"
	"muniment.example/control/member"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Config of the service. DB, PublicURL, Mails and Failed are required.
type Config struct {
	DB *store.DB
	// PublicURL is where callers reach the API, without a slash at its end: links in mails lead there.
	PublicURL string
	// Mails sends the mails.
	Mails *mailer.Mails
	// Limits of each caller's address; a limit that is 0 is 10 requests within 10 seconds, 30 within
	// an hour.
	Limits sandbox.Limits
	// Shared counts them in the database, together with other processes.
	Shared bool
	// Failed makes the error of a job with a code; final gives the job up.
	Failed func(code string, final bool, err error) error
	// Now is the clock of the limits, which should be a monotonic one. Default time.Now.
	Now func() time.Time
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// The limits of a caller's address: who applies sends two requests.
const (
	defaultBurst     = 10
	defaultSustained = 30
)

// Service is safe for concurrent use.
type Service struct {
	cfg     Config
	db      *store.DB
	callers *sandbox.Callers
	// unscrubbed is set from an erasure until the files of the database hold nothing of it.
	unscrubbed atomic.Bool
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.PublicURL == "" || cfg.Failed == nil || cfg.Mails == nil {
		return nil, errors.New("cannot open access to the sandbox: DB, PublicURL, Failed or Mails is missing")
	}
	cfg.Limits.Burst = cmp.Or(cfg.Limits.Burst, defaultBurst)
	cfg.Limits.Sustained = cmp.Or(cfg.Limits.Sustained, defaultSustained)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	callers := sandbox.NewCallers(sandbox.CallersConfig{DB: cfg.DB, Limits: cfg.Limits, Shared: cfg.Shared, Window: "access ", Now: cfg.Now})
	return &Service{cfg: cfg, db: cfg.DB, callers: callers}, nil
}

// AdmitJob decides what becomes of the requests that strangers have sent.
const AdmitJob = "access.admit"

// apply takes a stranger's request. It does the same work whatever is known of the address.
func (s *Service) apply(ctx context.Context, f Form) error {
	f, err := f.normal()
	if err != nil {
		return err
	}
	if err := s.db.Reserved(); err != nil {
		return err
	}
	now, inserted := s.db.Now(), false
	err = s.db.Transact(ctx, func(tx *sql.Tx) (err error) {
		if inserted, err = insertRequest(ctx, tx, request{api.NewID(prefixApplication, now), f, store.At(now)}); err != nil {
			return err
		}
		return s.db.Jobs.EnqueueIn(ctx, tx, store.NewJob{Kind: AdmitJob, TenantID: api.SystemTenant, Key: "all", Payload: struct{}{}})
	})
	if err == nil && !inserted {
		err = errTooMany()
	}
	return err
}

// admitBatch is how many requests one change decides on; other changes wait for it.
const admitBatch = 20

// Admit does the job of the kind AdmitJob: each request becomes an application, unless its address
// has an open one, or as many as an address may have. Processes that do it at once find different
// requests, as changes run one at a time.
func (s *Service) Admit(ctx context.Context, _ *store.Job) error {
	for more := true; more; {
		var admitted []string
		err := s.db.Change(ctx, func(tx *store.Tx) error {
			admitted, more = nil, false
			batch, err := listRequests(ctx, tx, admitBatch)
			if err != nil {
				return err
			}
			for _, r := range batch {
				state, err := s.admit(ctx, tx, r)
				if err != nil {
					return fmt.Errorf("cannot admit the request %s: %w", r.id, err)
				}
				if state == Received {
					admitted = append(admitted, r.id)
				}
			}
			more = len(batch) == admitBatch
			return nil
		})
		if err != nil {
			return err
		}
		for _, id := range admitted {
			s.logWaiting(ctx, id)
		}
	}
	return nil
}

// admit makes an application of a request, and queues the mail to confirm it; or drops it.
func (s *Service) admit(ctx context.Context, tx *store.Tx, r request) (state State, err error) {
	if err := deleteRequest(ctx, tx, r.id); err != nil {
		return "", err
	}
	all, open, err := countOf(ctx, tx, r.Email, tx.Now())
	if err != nil || open > 0 || all >= mostOfAddress {
		return "", err
	}
	a := Application{
		ID: r.id, TenantID: api.SystemTenant, Email: r.Email, Organisation: r.Organisation, Use: r.Use,
		State: Received, Mail: Mail{State: MailNone}, CreatedAt: r.createdAt, UpdatedAt: store.At(tx.Now()),
	}
	if s.cfg.Mails.Server == nil {
		return a.State, applications.Create(ctx, tx, eventApplied, &a, store.BySystem(), nil)
	}
	if err := makeRoom(ctx, tx); err != nil {
		return "", err
	}
	a.State = Unconfirmed
	if err := applications.Create(ctx, tx, eventApplied, &a, store.BySystem(), nil); err != nil {
		return "", err
	}
	return a.State, queueMail(ctx, tx, &a)
}

// makeRoom deletes the oldest unconfirmed applications if one more would be too many.
func makeRoom(ctx context.Context, tx *store.Tx) error {
	n, err := countIn(ctx, tx, Unconfirmed, Received)
	if err != nil || n < mostWaiting {
		return err
	}
	oldest, err := listUnconfirmed(ctx, tx, tx.Now(), n-mostWaiting+1)
	if err != nil {
		return err
	}
	for _, a := range oldest {
		action := Drop
		if a.stateAt(store.At(tx.Now())) == Expired {
			action = Expire
		}
		if _, err := applications.Move(ctx, tx, store.Move[Application, Action]{TenantID: api.SystemTenant, ID: a.ID, Action: action, By: store.BySystem()}); err != nil {
			return err
		}
		if err := deleteApplication(ctx, tx, a.ID); err != nil {
			return err
		}
	}
	return nil
}

// logWaiting informs operators of an application that waits for them.
func (s *Service) logWaiting(ctx context.Context, id string) {
	s.cfg.Logger.InfoContext(ctx, "an application for a key of the sandbox waits: see muniment access list", "applicationId", id)
}

// errTooMany is the answer while as many applications as may wait for an operator.
func errTooMany() error {
	return api.Unavailable(api.Overloaded, "too many applications are waiting: try again later", time.Hour)
}

// confirm has the application of a token wait for an operator.
func (s *Service) confirm(ctx context.Context, token string) error {
	var confirmed string
	err := s.redeem(ctx, token, Unconfirmed, func(tx *store.Tx, a *Application) error {
		waiting, err := countIn(ctx, tx, Received, Received)
		if err != nil {
			return err
		}
		if waiting >= mostWaiting {
			return errTooMany()
		}
		confirmed = a.ID
		_, err = applications.Move(ctx, tx, store.Move[Application, Action]{TenantID: api.SystemTenant, ID: a.ID, Action: Confirm, By: store.BySystem()})
		return err
	})
	if err == nil {
		s.logWaiting(ctx, confirmed)
	}
	return err
}

// findAs is find for a decision that was made on seeing the application in a state: STATE_CONFLICT if
// it is in another one by now, as another operator may have decided. Empty: in whatever state.
func findAs(ctx context.Context, tx *store.Tx, id string, seen State) (*Application, error) {
	a, err := find(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if is := a.stateAt(store.At(tx.Now())); seen != "" && is != seen {
		return nil, api.Conflict(fmt.Sprintf("application is already %s, and was %s when you decided: look at it again", is, seen))
	}
	return a, nil
}

// approve approves an application and queues its mail. One that is approved gets another mail, and
// the links of those before end. seen is as in findAs.
func (s *Service) approve(ctx context.Context, id string, seen State) (moved Application, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		was, err := findAs(ctx, tx, id, seen)
		if err != nil {
			return err
		}
		move := store.Move[Application, Action]{TenantID: api.SystemTenant, ID: id, Action: Approve, By: store.ByOperator(), Edit: func(next *Application) error {
			next.Approvals++
			return nil
		}}
		if was.State == Approved {
			move.Action = Resend
		}
		if moved, err = applications.Move(ctx, tx, move); err != nil {
			return err
		}
		if err := deleteTokens(ctx, tx, id); err != nil {
			return err
		}
		return queueMail(ctx, tx, &moved)
	})
	return moved, err
}

// refuse refuses an application, and ends its links if it was approved. seen is as in findAs.
func (s *Service) refuse(ctx context.Context, id string, seen State) (moved Application, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		if _, err := findAs(ctx, tx, id, seen); err != nil {
			return err
		}
		if moved, err = applications.Move(ctx, tx, store.Move[Application, Action]{TenantID: api.SystemTenant, ID: id, Action: Refuse, By: store.ByOperator()}); err != nil {
			return err
		}
		return deleteTokens(ctx, tx, id)
	})
	return moved, err
}

// refuseAtOnce is how many applications one change refuses; other changes wait for it.
const refuseAtOnce = 100

// refuseAll refuses the applications that nobody has approved, of an address or of all addresses of a
// host, and made before a time; empty or zero: of any. It returns how many. After an error those that were refused
// stay so, and a second call refuses the others.
func (s *Service) refuseAll(ctx context.Context, from string, before store.Instant) (refused int, err error) {
	after := ""
	for {
		some, err := listUndecided(ctx, s.db.Read(), after, refuseAtOnce)
		if err != nil || len(some) == 0 {
			return refused, err
		}
		after = some[len(some)-1].ID
		some = slices.DeleteFunc(some, func(a Application) bool {
			_, host, _ := strings.Cut(a.Email, "@")
			return from != "" && from != a.Email && from != host || !before.IsZero() && !a.CreatedAt.Before(before.Time)
		})
		if len(some) == 0 {
			continue
		}
		done := 0
		err = s.db.Change(ctx, func(tx *store.Tx) error {
			done = 0
			for _, seen := range some {
				a, err := find(ctx, tx, seen.ID)
				if store.IsNone(err) {
					continue
				}
				if err != nil {
					return err
				}
				if is := a.stateAt(store.At(tx.Now())); is != Unconfirmed && is != Received {
					continue // decided on meanwhile, or over
				}
				if _, err := applications.Move(ctx, tx, store.Move[Application, Action]{TenantID: api.SystemTenant, ID: a.ID, Action: Refuse, By: store.ByOperator()}); err != nil {
					return err
				}
				if err := deleteTokens(ctx, tx, a.ID); err != nil {
					return err
				}
				done++
			}
			return nil
		})
		if err != nil {
			return refused, err
		}
		refused += done
	}
}

// errToken is the answer to every token that is not good, whatever is known of it.
var errToken error = &api.Error{Code: api.ResourceNotFound, Message: "the token is not known, was used, or has expired: ask for another mail, or apply again"}

// activate exchanges a token for the key of a new tenant.
func (s *Service) activate(ctx context.Context, token string) (made tenant.Created, err error) {
	err = s.redeem(ctx, token, Approved, func(tx *store.Tx, a *Application) (err error) {
		org := strings.ToLower(api.NewID("sandbox_", tx.Now()))
		if made, err = tenant.Make(ctx, tx, tenant.Request{Org: org, Email: a.Email, Label: "activated", Sandbox: true, Activated: true}); err != nil {
			return err
		}
		if err := member.First(ctx, tx, made, a.Email, auth.EnvTest, store.BySystem()); err != nil {
			return err
		}
		_, err = applications.Move(ctx, tx, store.Move[Application, Action]{TenantID: api.SystemTenant, ID: a.ID, Action: Activate, By: store.BySystem(), Edit: func(next *Application) error {
			next.ActivatedTenantID = &made.TenantID
			return nil
		}})
		return err
	})
	return made, err
}

// redeem does what a token of an application in a state is good for, and ends it, in one change.
func (s *Service) redeem(ctx context.Context, token string, in State, do func(tx *store.Tx, a *Application) error) error {
	// It reads first: guesses must not keep changes waiting.
	id, err := applicationOf(ctx, s.db.Read(), token, s.db.Now())
	if err != nil {
		return err
	}
	if id == nil {
		return errToken
	}
	return s.db.Change(ctx, func(tx *store.Tx) error {
		id, err := applicationOf(ctx, tx, token, tx.Now())
		if err != nil {
			return err
		}
		if id == nil {
			return errToken
		}
		a, err := find(ctx, tx, *id)
		if err != nil {
			return err
		}
		if a.stateAt(store.At(tx.Now())) != in {
			return errToken
		}
		if err := deleteTokens(ctx, tx, a.ID); err != nil {
			return err
		}
		return do(tx, a)
	})
}
