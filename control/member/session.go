package member

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

const (
	// idleAge is how long a session lasts without a request, and sessionAge how long at most.
	idleAge    = 8 * time.Hour
	sessionAge = 24 * time.Hour
	// confirmedAge is how long ago the actor may have proved who it is for what asks again.
	confirmedAge = 10 * time.Minute
	// mostSessions is how many sessions an actor has at most.
	mostSessions = 20
	// seenEvery is how exactly the last request of a session is noted.
	seenEvery = time.Minute
)

// Session is a session as of one request.
type Session struct {
	TenantID string
	// Actor is who acts, as events name it: {key, key_…} or {member, mbr_…}.
	Actor sealer.Ref
	// Name is what a page calls the actor: the label of the key, or the name of the member, else the address. Role is the
	// member's; empty for a key.
	Name string
	Role Role
	// Caller has the scopes that the actor has now. Operations get it by control.Call.
	Caller auth.Principal
	// Zone is the tenant's time zone, in which pages show and take times.
	Zone *time.Location
	// SignedInAt is when it began, and ExpiresAt when it ends even if it is used.
	SignedInAt, ExpiresAt store.Instant
}

// Allows says whether the session holds a scope now.
func (s Session) Allows(scope api.Scope) bool { return s.Caller.Scopes.Allows(scope) }

// IsUnconfirmed says whether an error is that of Confirmed: the page then asks to sign in again.
func IsUnconfirmed(err error) bool { return errors.Is(err, auth.ErrUnconfirmed) }

// Confirmed returns an error unless the actor has proved who it is within the last 10 minutes: by signing in, or, at a
// provider that did not ask again, before that. Making and rotating a key,
// changing members, and erasing a person ask for it: their operations refuse the Caller of another session.
func (s Session) Confirmed() error {
	if s.Caller.Unconfirmed {
		return auth.ErrUnconfirmed
	}
	return nil
}

// Errors of requests without a session. The first is that of a browser that has not signed in, or has signed out.
var (
	errNone  error = &api.Error{Code: api.AuthRequired, Message: "you are not signed in"}
	errEnded error = &api.Error{Code: api.AuthInvalid, Message: "the session has ended: sign in again"}
)

// Session returns the session of a request. Errors for the caller are AUTH_REQUIRED if there is none, and
// AUTH_INVALID if it has ended, or if its actor may not act any more. It is the caller's to have the
// request pass Check.
func (s *Service) Session(r *http.Request) (Session, error) {
	token := s.browsers.token(r)
	if token == "" {
		return Session{}, errNone
	}
	ctx, now := r.Context(), s.db.Now()
	row, err := findSession(ctx, s.db.Read(), token)
	if err != nil {
		return Session{}, err
	}
	if row == nil || !row.lasts(now) {
		return Session{}, errEnded
	}
	session, err := s.actor(ctx, row.tenantID, row.actorID, now)
	if err != nil {
		return Session{}, err
	}
	if session.Zone, err = tenant.Zone(ctx, s.db.Read(), row.tenantID); err != nil {
		return Session{}, err
	}
	if now.Sub(row.seenAt.Time) >= seenEvery {
		if err := s.db.Transact(ctx, func(tx *sql.Tx) error { return noteSeen(ctx, tx, token, now) }); err != nil {
			// It ends earlier than it should, at worst.
			s.cfg.Logger.WarnContext(ctx, "cannot note the use of a session", "err", err)
		}
	}
	session.SignedInAt, session.ExpiresAt = row.signedInAt, store.At(row.signedInAt.Add(sessionAge))
	session.Caller.Unconfirmed = now.Sub(row.confirmedAt.Time) > confirmedAge
	return session, nil
}

// Names are what the tenant calls its members, by id: the newest 500 of them, those without a name and those who were erased left
// out. It is what pages show to members where one has acted, and has no addresses. There are none for a session by a key: its holder
// is no member, and reads members by their operations, if it may.
func (s *Service) Names(ctx context.Context, session Session) (map[string]string, error) {
	if session.Role == "" {
		return nil, nil
	}
	const most = 500
	page, _, err := list(ctx, s.db.Read(), session.TenantID, "", store.Slice{Limit: most})
	names := map[string]string{}
	for _, m := range page {
		if m.Name != "" && !m.erased() {
			names[m.ID] = m.Name
		}
	}
	return names, err
}

// actor is an actor as it may act now; AUTH_INVALID if it may not.
func (s *Service) actor(ctx context.Context, tenantID, actorID string, now time.Time) (Session, error) {
	session := Session{TenantID: tenantID, Actor: store.ByKey(actorID)}
	if api.IsID(api.PrefixMember, actorID) {
		caller, m, err := s.callerOf(ctx, tenantID, actorID)
		if err == nil {
			session.Caller, session.Name, session.Role = caller, cmp.Or(m.Name, m.Email), m.Role
		}
		return session, err
	}
	key, err := store.Newest(ctx, s.db, api.Keys, actorID)
	switch {
	case err != nil:
		return session, fmt.Errorf("cannot read the key of a session: %w", err)
	case key == nil || key.TenantID != tenantID || !auth.Live(key, now):
		return session, errEnded
	}
	session.Caller, session.Name = auth.Principal{Key: key}, key.Label
	return session, nil
}

// keys reads API keys from the database: a revoked key is refused at once.
type keys struct{ db *store.DB }

func (k keys) Key(ctx context.Context, keyID string) (*api.Key, error) {
	return store.Newest(ctx, k.db, api.Keys, keyID)
}

// SignInByKey exchanges an API key for a session, which ends the one of the request. The key is not kept. The errors
// are those of auth.OfKey. The caller sends the cookie to the browser.
func (s *Service) SignInByKey(r *http.Request, key string) (*http.Cookie, error) {
	if err := s.Check(r); err != nil {
		return nil, err
	}
	caller, err := auth.OfKey(r.Context(), strings.TrimSpace(key), keys{s.db}, s.db.Now())
	if err != nil {
		return nil, err
	}
	return s.signIn(r, caller.TenantID, caller.ID, s.db.Now())
}

// signIn makes a session of an actor, who proved who it is at confirmed, and ends the one of the request.
func (s *Service) signIn(r *http.Request, tenantID, actorID string, confirmed time.Time) (*http.Cookie, error) {
	if err := s.db.Reserved(); err != nil {
		return nil, err
	}
	ctx, token := r.Context(), api.NewSecret()
	now := store.At(s.db.Now())
	err := s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := deleteSession(ctx, tx, s.browsers.token(r)); err != nil {
			return err
		}
		if err := makeRoom(ctx, tx, actorID); err != nil {
			return err
		}
		return insertSession(ctx, tx, token, sessionRow{tenantID: tenantID, actorID: actorID, signedInAt: now, confirmedAt: store.At(confirmed), seenAt: now})
	})
	if err != nil {
		return nil, err
	}
	return s.browsers.filled(token), nil
}

// SignOut ends the session of a request, if there is one. The caller sends the cookie, which deletes the browser's.
func (s *Service) SignOut(r *http.Request) (*http.Cookie, error) {
	if err := s.Check(r); err != nil {
		return nil, err
	}
	token := s.browsers.token(r)
	if token != "" {
		if err := s.db.Transact(r.Context(), func(tx *sql.Tx) error { return deleteSession(r.Context(), tx, token) }); err != nil {
			return nil, err
		}
	}
	return s.browsers.filled(""), nil
}

// Forget deletes the sessions that have ended, links that work no more, what nobody has chosen of, their mails in the outbox, and windows of callers in which
// nothing counts any more. Any number of processes may run it.
func (s *Service) Forget(ctx context.Context) error {
	if err := s.callers.Forget(ctx); err != nil {
		return err
	}
	err := s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := forgetLinks(ctx, tx, s.db.Now()); err != nil {
			return err
		}
		if err := forgetChoices(ctx, tx, s.db.Now()); err != nil {
			return err
		}
		return forgetSessions(ctx, tx, s.db.Now())
	})
	if err != nil {
		return err
	}
	return s.cleanOutbox(ctx)
}
