package member

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

const (
	// idleAge is how long a session lasts without a request, and sessionAge how long at most.
	idleAge    = 8 * time.Hour
	sessionAge = 24 * time.Hour
	// confirmedAge is how old a session may be for what asks again.
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
	// Caller has the scopes that the actor has now. Operations get it by control.Call.
	Caller auth.Principal
	// SignedInAt is when it began, and ExpiresAt when it ends even if it is used.
	SignedInAt, ExpiresAt store.Instant

	now time.Time
}

// Allows says whether the session holds a scope now.
func (s Session) Allows(scope api.Scope) bool { return s.Caller.Scopes.Allows(scope) }

// errConfirm is the answer to what a session may do only shortly after its actor has signed in.
var errConfirm error = &api.Error{Code: api.AuthRequired, Message: "for this you need to have signed in within the last 10 minutes: sign in again, and repeat it"}

// IsUnconfirmed says whether an error is that of Confirmed: the page then asks to sign in again.
func IsUnconfirmed(err error) bool { return errors.Is(err, errConfirm) }

// Confirmed returns an error unless the actor has signed in within the last 10 minutes. Making and rotating a key,
// changing members, and erasing a person ask for it.
func (s Session) Confirmed() error {
	if s.now.Sub(s.SignedInAt.Time) > confirmedAge {
		return errConfirm
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
	token := s.door.token(r)
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
	caller, err := s.caller(ctx, row.tenantID, row.actorID, now)
	if err != nil {
		return Session{}, err
	}
	if now.Sub(row.seenAt.Time) >= seenEvery {
		if err := s.db.Transact(ctx, func(tx *sql.Tx) error { return noteSeen(ctx, tx, token, now) }); err != nil {
			// It ends earlier than it should, at worst.
			s.cfg.Logger.WarnContext(ctx, "cannot note the use of a session", "err", err)
		}
	}
	return Session{
		TenantID: row.tenantID, Actor: store.ByKey(row.actorID), Caller: caller,
		SignedInAt: row.signedInAt, ExpiresAt: store.At(row.signedInAt.Add(sessionAge)), now: now,
	}, nil
}

// caller is an actor as it may act now; AUTH_INVALID if it may not.
func (s *Service) caller(ctx context.Context, tenantID, actorID string, now time.Time) (auth.Principal, error) {
	key, err := store.Newest(ctx, s.db, api.Keys, actorID)
	if err != nil {
		return auth.Principal{}, fmt.Errorf("cannot read the key of a session: %w", err)
	}
	if key == nil || key.TenantID != tenantID || !auth.Live(key, now) {
		return auth.Principal{}, errEnded
	}
	return auth.Principal{Key: key}, nil
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
	return s.signIn(r, caller.TenantID, caller.ID)
}

// signIn makes a session, and ends the one of the request.
func (s *Service) signIn(r *http.Request, tenantID, actorID string) (*http.Cookie, error) {
	if err := s.db.Reserved(); err != nil {
		return nil, err
	}
	ctx, token := r.Context(), newToken()
	now := store.At(s.db.Now())
	err := s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := deleteSession(ctx, tx, s.door.token(r)); err != nil {
			return err
		}
		if err := makeRoom(ctx, tx, actorID); err != nil {
			return err
		}
		return insertSession(ctx, tx, token, sessionRow{tenantID: tenantID, actorID: actorID, signedInAt: now, seenAt: now})
	})
	if err != nil {
		return nil, err
	}
	return s.door.filled(token), nil
}

// SignOut ends the session of a request, if there is one. The caller sends the cookie, which deletes the browser's.
func (s *Service) SignOut(r *http.Request) (*http.Cookie, error) {
	if err := s.Check(r); err != nil {
		return nil, err
	}
	token := s.door.token(r)
	if token != "" {
		if err := s.db.Transact(r.Context(), func(tx *sql.Tx) error { return deleteSession(r.Context(), tx, token) }); err != nil {
			return nil, err
		}
	}
	return s.door.filled(""), nil
}

// Forget deletes the sessions that have ended. Any number of processes may run it.
func (s *Service) Forget(ctx context.Context) error {
	return s.db.Transact(ctx, func(tx *sql.Tx) error { return forgetSessions(ctx, tx, s.db.Now()) })
}
