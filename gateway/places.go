package gateway

import (
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
	"muniment/gateway/auth"
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

// take admits one more request of an owner; release must follow if it did.
func (s *places) take(of string) bool { return s.takeBelow(of, s.most, s.mostOfOne) }

// takeRead is take for a request that changes nothing. A quarter of the places, and of each owner's, is for
// changes: long answers that somebody reads slowly must not prevent a revocation.
func (s *places) takeRead(of string) bool {
	return s.takeBelow(of, s.most-s.most/4, s.mostOfOne-s.mostOfOne/4)
}

func (s *places) takeBelow(of string, most, mostOfOne int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= most || s.held[of] >= mostOfOne {
		return false
	}
	s.all++
	s.held[of]++
	return true
}

func (s *places) release(of string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.held[of]--; s.held[of] == 0 {
		delete(s.held, of)
	}
}

// callers is a kind of callers of control, with places that no other kind can take.
type callers struct {
	*places
	busy *api.Error // refuses what is beyond them
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
}

// placeOf is the place of who has a key. The sandbox's tenants are strangers' and share the places of its visitors.
func (p *proxy) placeOf(principal auth.Principal) place {
	if principal.Sandbox {
		return place{p.visitors, principal.TenantID}
	}
	return place{p.tenants, principal.TenantID}
}

// reads says whether requests of a method change nothing.
func reads(method []byte) bool {
	switch string(method) {
	case fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodOptions:
		return true
	}
	return false
}

// take returns the error of a request that must not be forwarded.
func (at place) take(method []byte) error {
	take := at.callers.take
	if reads(method) {
		take = at.callers.takeRead
	}
	if !take(at.of) {
		return at.callers.busy
	}
	return nil
}

func (at place) release() { at.callers.release(at.of) }
