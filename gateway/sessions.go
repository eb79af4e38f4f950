package gateway

import (
	"bytes"
	"crypto/sha256"
	"sync"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
)

// mostSessions is how many sessions of the console a node knows.
const mostSessions = 4096

// sessions knows whose the sessions of the console are that control has answered lately, by a hash of their cookies. So
// a member has its tenant's places, and who forges a cookie has none and costs no look-up. A session that has ended
// only has a place until control says so: it is control that lets it in. One that is not known, as after a start of the
// node, has the place of an address until its first answer. Safe for concurrent use.
type sessions struct {
	mu sync.Mutex
	of map[[sha256.Size]byte]string // tenants
}

// tenant is whose session a request has, as far as that is known; empty if it is not.
func (s *sessions) tenant(h *fasthttp.RequestHeader) string {
	cookie, found := sessionCookie(h)
	if !found {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[sha256.Sum256(cookie)]
}

// learn notes what control has said about the session of a request.
func (s *sessions) learn(h *fasthttp.RequestHeader, tenant string) {
	cookie, found := sessionCookie(h)
	if !found || tenant == "" {
		return
	}
	sum := sha256.Sum256(cookie)
	s.mu.Lock()
	defer s.mu.Unlock()
	if tenant == api.NoSession {
		delete(s.of, sum)
		return
	}
	if s.of == nil {
		s.of = map[[sha256.Size]byte]string{}
	}
	for other := range s.of { // which one is left to chance
		if len(s.of) < mostSessions {
			break
		}
		delete(s.of, other)
	}
	s.of[sum] = tenant
}

// sessionCookie is the value of the console's cookie; of several none counts, here and at control.
func sessionCookie(h *fasthttp.RequestHeader) (value []byte, found bool) {
	for name, v := range h.Cookies() {
		if bytes.Contains(name, []byte(api.CookieSession)) {
			if found {
				return nil, false
			}
			value, found = v, true
		}
	}
	return value, found
}
