package operator

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"muniment.example/gateway/api"
)

const (
	// linkAge is how long a link is good.
	linkAge = 5 * time.Minute
	// sessionAge is how long a session lasts.
	sessionAge = time.Hour
)

// sessions are the links that were not used yet, and the sessions.
type sessions struct {
	now  func() time.Time
	name string // of the cookie

	mu    sync.Mutex
	links secrets
	open  secrets
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, name: "muniment_console_" + api.NewSecret()[:8], links: secrets{}, open: secrets{}}
}

// link makes the token of a link.
func (s *sessions) link() (token string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links.add(s.now(), linkAge)
}

// begin exchanges the token of a link for a session. Of any number of callers with one token one
// gets a session.
func (s *sessions) begin(token string) (session string, until time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.links.find(s.now(), token); !ok {
		return "", time.Time{}, false
	}
	s.links.remove(token)
	session, until = s.open.add(s.now(), sessionAge)
	return session, until, true
}

// until returns when a session expires; ok is false if there is no such session.
func (s *sessions) until(session string) (until time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open.find(s.now(), session)
}

// end ends a session.
func (s *sessions) end(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.remove(session)
}

// secrets are SHA-256 of secrets, with the time at which each expires. To find one takes as long
// whether it is nearly right or not: what is compared are hashes.
type secrets map[[sha256.Size]byte]time.Time

func (s secrets) add(now time.Time, age time.Duration) (secret string, until time.Time) {
	maps.DeleteFunc(s, func(_ [sha256.Size]byte, until time.Time) bool { return !now.Before(until) })
	secret, until = api.NewSecret(), now.Add(age)
	s[sha256.Sum256([]byte(secret))] = until
	return secret, until
}

func (s secrets) find(now time.Time, secret string) (until time.Time, ok bool) {
	until, ok = s[sha256.Sum256([]byte(secret))]
	return until, ok && now.Before(until)
}

func (s secrets) remove(secret string) { delete(s, sha256.Sum256([]byte(secret))) }
