package control_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"muniment/bench/waittest"
	"muniment/control/route"
	"muniment/gateway/api"
)

// slow is a service whose operations answer when the test lets them.
type slow struct{ begun, answer chan struct{} }

func (s *slow) Routes(a route.API) {
	for path, heavy := range map[string]bool{"/v1/slow": false, "/v1/slow-and-heavy": true} {
		route.AddRaw(a, route.Operation{
			ID: "wait" + path[4:], Method: http.MethodGet, Path: path, Access: route.Scope(api.RightsRead), Heavy: heavy,
		}, func(context.Context, *struct{}) (*struct{}, error) {
			s.begun <- struct{}{}
			<-s.answer
			return nil, nil
		})
	}
}

// TestTenantLimit fills a tenant's limit of requests in flight, with two keys: it is refused more,
// others are not, and what is answered leaves its place.
func TestTenantLimit(t *testing.T) {
	h := newFixture(t)
	s := &slow{make(chan struct{}), make(chan struct{})}
	cfg := h.config()
	cfg.Services = append(cfg.Services, s)
	h.made = mustControl(t, cfg)
	_, greedy := h.tenant()
	second := get[string](t, h.call(greedy, "POST", "/v1/api-keys", `{"label":"second","scopes":["rights:read"]}`).ok(), "apiKey")
	_, other := h.tenant()

	var waiting sync.WaitGroup
	hold := func(key, path string, n int) {
		for range n {
			waiting.Go(func() { h.call(key, "GET", path, "") })
			<-s.begun
		}
	}
	end := func(n int) {
		for range n {
			s.answer <- struct{}{}
		}
	}
	refused := func(key, path string) {
		t.Helper()
		a := h.call(key, "GET", path, "")
		a.refused(429, api.RateLimited)
		requireRetryAfter(t, 1, a.header.Get("Retry-After"))
	}
	for range 2 {
		hold(greedy, "/v1/slow-and-heavy", 8)
		refused(second, "/v1/slow-and-heavy")
		hold(other, "/v1/slow-and-heavy", 1)
		hold(second, "/v1/slow", 56)
		refused(greedy, "/v1/slow")
		refused(greedy, "/v1/slow-and-heavy")
		refused(second, "/v1/tenant")
		h.call(other, "GET", "/v1/tenant", "").ok()
		h.call("", "GET", "/.well-known/muniment/keys.json", "")
		end(65)
		waiting.Wait()
	}
	waittest.Until(t, func() bool { return h.call(greedy, "GET", "/v1/tenant", "").status == 200 })
}
