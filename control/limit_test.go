package control_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"muniment/bench/waittest"
	"muniment/control/route"
	"muniment/control/store"
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

// longAnswers is a service for visitors whose one operation reads much and answers 8 MiB.
type longAnswers struct{}

func (longAnswers) Routes(a route.API) {
	type visitorKey struct{}
	route.AddRaw(a, route.Operation{
		ID: "read-much", Method: http.MethodGet, Path: "/api/sandbox/read-much", Heavy: true, Access: route.Own{
			Let: func(ctx huma.Context) (context.Context, error) {
				return context.WithValue(ctx.Context(), visitorKey{}, ctx.Header("X-Visitor")), nil
			},
			Tenant: func(ctx context.Context) string { return ctx.Value(visitorKey{}).(string) },
		},
	}, func(context.Context, *struct{}) (*struct{ Body string }, error) {
		return &struct{ Body string }{strings.Repeat("x", 8<<20)}, nil
	})
}

// TestSlowVisitors: visitors who don't read what they have asked for don't keep others from reading much.
func TestSlowVisitors(t *testing.T) {
	h := newFixture(t)
	cfg := h.config()
	cfg.Services = append(cfg.Services, longAnswers{})
	server := httptest.NewServer(mustControl(t, cfg).Handler())
	t.Cleanup(server.Close)
	ask := func(visitor int) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/sandbox/read-much", nil)
		require.NoError(t, err)
		req.Header.Set("X-Visitor", fmt.Sprint("tnt_", visitor))
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	for visitor := range 12 { // twice as many as may read at a time
		for range 3 { // and one more than each
			require.Equal(t, 200, ask(visitor).StatusCode)
		}
	}
	text, err := io.ReadAll(ask(0).Body)
	require.NoError(t, err)
	require.Greater(t, len(text), 8<<20)
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

// TestChangesTakeTurns: behind a burst of one tenant's changes another's waits for one of them, and a suspension for none.
func TestChangesTakeTurns(t *testing.T) {
	h := newFixture(t)
	busyID, busy := h.tenant()
	_, other := h.tenant()
	suspended := h.right(busy, h.basis(busy))
	h.basis(other)
	var last int64
	err := h.db.Read().QueryRowContext(t.Context(), `SELECT MAX(seq) FROM outbox`).Scan(&last)
	require.NoError(t, err)

	begun, end := make(chan struct{}), make(chan struct{})
	var requests sync.WaitGroup
	requests.Go(func() {
		_ = h.db.Change(t.Context(), func(*store.Tx) error { close(begun); <-end; return nil })
	})
	<-begun
	ask := func(key, path, body string) {
		before := h.db.WaitingChanges()
		requests.Go(func() {
			if a := h.call(key, "POST", path, body); a.status != 200 {
				t.Error(a.status)
			}
		})
		waittest.Until(t, func() bool { return h.db.WaitingChanges() == before+1 })
	}
	for range 20 {
		ask(busy, "/v1/bases", `{"kind":"CONTRACT","title":"x"}`)
	}
	ask(other, "/v1/bases", `{"kind":"CONTRACT","title":"x"}`)
	ask(busy, "/v1/rights/"+suspended+"/suspend", `{}`)
	close(end)
	requests.Wait()

	type emitted struct{ tenantID, event string }
	events, err := store.List(t.Context(), h.db.Read(), "events", func(row store.Row) (e emitted, err error) {
		return e, row.Scan(&e.tenantID, &e.event)
	}, `SELECT tenant_id, event FROM outbox WHERE seq > $1 ORDER BY seq`, last)
	require.NoError(t, err)
	require.Len(t, events, 22)
	require.Contains(t, events[0].event, "right.suspended")
	require.Equal(t, busyID, events[1].tenantID)
	require.NotEqual(t, busyID, events[2].tenantID)
}
