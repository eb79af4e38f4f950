package gateway

import (
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// places limit how many requests of each owner, and of all, are in hand at a time. They are safe for
// concurrent use.
type places struct {
	most, mostOfOne int

	mu   sync.Mutex
	held map[string]int // by owner
	all  int
}

func newPlaces(most, mostOfOne int) *places {
	return &places{most: most, mostOfOne: max(1, mostOfOne), held: map[string]int{}}
}

// admission is what became of a request for a place.
type admission uint8

const (
	admitted   admission = iota
	allTaken             // by all owners together
	ownerTaken           // all that one owner may have
)

// take admits one more request of an owner; release must follow if it did. A quarter of the places, and of each
// owner's, is for requests that change something: long answers that somebody reads slowly must not prevent a revocation.
func (s *places) take(of string, changes bool) admission { return s.takeMany(of, 1, changes) }

func (s *places) takeMany(of string, n int, changes bool) admission {
	most, mostOfOne := s.most, s.mostOfOne
	if !changes {
		most, mostOfOne = most-most/4, mostOfOne-mostOfOne/4
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.held[of]+n > mostOfOne:
		return ownerTaken
	case s.all+n > most:
		return allTaken
	}
	s.all += n
	s.held[of] += n
	return admitted
}

func (s *places) release(of string) { s.releaseMany(of, 1) }

func (s *places) releaseMany(of string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all -= n
	if s.held[of] -= n; s.held[of] <= 0 {
		delete(s.held, of)
	}
}

// callers is a kind of callers of control, with places that no other kind can take.
type callers struct {
	places *places
	busy   *api.Error // refuses what is beyond them
}

func newCallers(most, mostOfOne int, message string) *callers {
	return &callers{newPlaces(most, mostOfOne), &api.Error{Code: api.RateLimited, Message: message, RetryAfter: time.Second}}
}

// place is a caller's place at control. A request has it from before it is forwarded until its answer is in
// the gateway's memory or, if it is a long one, until the client has read it: so a request is
// refused before control has done anything, and what control has answered always has its place.
type place struct {
	callers *callers
	of      string // the owner: a tenant, or an address
	tenant  string // the same, if it is a tenant
}

// placeOf is the place of who has a key. The sandbox's tenants are strangers' and share the places of its visitors.
func (p *proxy) placeOf(principal auth.Principal) place {
	if principal.Sandbox {
		return place{p.visitors, principal.TenantID, principal.TenantID}
	}
	return place{p.tenants, principal.TenantID, principal.TenantID}
}

// changes says whether requests of a method may change something.
func changes(method []byte) bool {
	switch string(method) {
	case fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodOptions:
		return false
	}
	return true
}

// take returns the error of a request that must not be forwarded. own says that the caller has all its places.
func (at place) take(method []byte) (own bool, err error) {
	a := at.callers.places.take(at.of, changes(method))
	if a != admitted {
		err = at.callers.busy
	}
	return a == ownerTaken, err
}

// inUse is how many there are of all.
func (s *places) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (at place) release() { at.callers.places.release(at.of) }
