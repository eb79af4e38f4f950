// Package member says who may sign in to a tenant's console, as what, and for how long.
//
// # Sessions
//
// A caller signs in by an API key, which is exchanged for a session and not stored. A session acts as its actor: it
// has the scopes that the actor has at each request, not those of when it began. So a session of a key that is revoked
// or has expired has ended. A session ends after 8 hours without a request, and 24 hours after it began, whatever
// happens. Signing in always makes a new session and ends the one that the browser had, so nobody can prepare a session
// for somebody else. Signing in again is also how a session is confirmed: what asks again (Session.Confirmed) takes
// sessions that are at most 10 minutes old. An actor has at most 20 sessions: one more ends the oldest.
//
// Of a session the database has the SHA-256 of its token, in rows that belong to no person and are in no event. All
// processes of control have the same sessions. When a process is killed while a caller signs in, the caller has a
// session or signs in again. On a full disk nobody signs in, and sessions go on.
//
// # The cookie
//
// The token travels in a cookie that no script reads and that other sites' requests do not carry, but for links
// (HttpOnly, SameSite=Lax). How the cookie is made depends on the public URL alone. With https it is
// Secure and __Host-: no other host and no plain connection can set it. With http, a console opens only to browsers on
// this machine, under an address of this machine; the cookie then has another name, with the port in it, as browsers
// send cookies to every port of a host. All other requests are refused with a sentence (Service.Check).
//
// Requests that change something are refused if a browser sends them for a page of another origin
// (http.CrossOriginProtection). After signing in a browser is sent only to paths of the console (Next).
package member

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"muniment.example/control/store"
)

// Config of the service. DB and PublicURL are required.
type Config struct {
	DB *store.DB
	// PublicURL is where browsers reach the console, http or https, without a slash at its end.
	PublicURL string
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// Service is safe for concurrent use.
type Service struct {
	cfg  Config
	db   *store.DB
	door *door
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil {
		return nil, errors.New("cannot open the members: DB is missing")
	}
	door, err := newDoor(cfg.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("cannot open the members: %w", err)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Service{cfg: cfg, db: cfg.DB, door: door}, nil
}

// newToken makes 256 random bits that nobody guesses.
func newToken() string {
	var random [32]byte
	rand.Read(random[:]) // never fails: crypto/rand crashes the process instead
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// hashOf is what is stored of a token.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
