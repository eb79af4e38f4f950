package control_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
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

// longAnswers is a service for visitors whose one operation reads much and answers as many bytes as it is asked for.
type longAnswers struct{ *sandbox.Service }

func (s longAnswers) Routes(a route.API) {
	route.AddRaw(a, s.Open(route.Operation{ID: "read-much", Method: http.MethodGet, Path: "/read-much", Heavy: true}), func(_ context.Context, in *struct {
		Bytes int `query:"bytes"`
	}) (*struct{ Body []byte }, error) {
		return &struct{ Body []byte }{make([]byte, in.Bytes)}, nil
	})
}

// TestSlowVisitors: visitors who don't read what they have asked for take neither a place from others nor more memory
// than their addresses have, and short answers go on.
func TestSlowVisitors(t *testing.T) {
	h := newFixture(t)
	p := openPlayground(t, h, sandbox.Config{Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	h.services = append(h.services, longAnswers{h.sandbox})
	handler := h.control().Handler()
	ask := func(v *visitor, bytes int) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), "GET", fmt.Sprint("/api/playground/read-much?bytes=", bytes), nil)
		r.Header.Set("Cookie", "svc_sandbox_tenant="+v.cookie)
		r.Header.Set("X-Forwarded-For", v.from)
		return r
	}
	status := func(v *visitor, bytes int) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, ask(v, bytes))
		return w.Code
	}
	goOn := make(chan struct{})
	var reading sync.WaitGroup
	stop := func(v *visitor, bytes int) {
		r := &reader{ResponseRecorder: httptest.NewRecorder(), begun: make(chan int, 1), goOn: goOn}
		reading.Go(func() { handler.ServeHTTP(r, ask(v, bytes)) })
		require.Equal(t, bytes, <-r.begun)
	}
	const short = 64 << 10
	var visitors []*visitor
	for n := range 9 {
		v, _ := p.visit()
		v.from = fmt.Sprint("192.0.2.", n)
		visitors = append(visitors, v)
	}
	first, last := visitors[0], visitors[8]
	for range 65 { // as many as all of them may have in flight, and one more
		stop(first, short)
	}
	for range 8 {
		stop(first, 1<<20)
	}
	require.Equal(t, 429, status(first, short+1))
	require.Equal(t, 429, status(&visitor{cookie: last.cookie, from: first.from}, short+1), "another tenant, from that address")
	require.Equal(t, 200, status(first, short))
	require.Equal(t, 200, status(&visitor{cookie: first.cookie, from: last.from}, 9<<20), "from another address, and longer than what one has")
	for _, v := range visitors[1:8] {
		stop(v, 9<<20)
	}
	require.Equal(t, 429, status(last, short+1), "of all addresses")
	require.Equal(t, 200, status(last, short))
	close(goOn)
	reading.Wait()
	require.Equal(t, 200, status(first, short+1))
	require.Equal(t, 200, status(last, short+1))
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
	rightID := h.right(greedy, h.basis(greedy))
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
		hold(greedy, "/v1/slow-and-heavy", 4)
		refused(second, "/v1/slow-and-heavy")
		hold(other, "/v1/slow-and-heavy", 1)
		hold(second, "/v1/slow", 60)
		refused(greedy, "/v1/slow")
		refused(greedy, "/v1/slow-and-heavy")
		refused(second, "/v1/tenant")
		h.call(greedy, "POST", "/v1/rights/"+rightID+"/revoke", `{}`).ok() // a stop has places of its own
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

// light are the operations on the log, the warehouse and on searched rows that are not Heavy, each for a reason.
var light = map[string]string{
	"list-events":             "a page, found by marks",
	"list-receipts":           "a page, found by marks; a file is Heavy",
	"get-receipt":             "one event",
	"prove-receipt":           "one event, and a path of hashes",
	"list-proof-packs":        "a page",
	"get-proof-pack":          "one row",
	"get-checkpoint":          "one row",
	"prove-consistency":       "a path of hashes",
	"list-erasures":           "a page",
	"get-erasure":             "one row",
	"create-dsar-job":         "a job collects",
	"list-dsar-jobs":          "a page",
	"get-dsar-job":            "one row",
	"cancel-dsar-job":         "one row",
	"run-dsar-job":            "a job collects",
	"get-dsar-bundle":         "one row",
	"list-disputes":           "a page",
	"investigate-dispute":     "one row",
	"respond-to-dispute":      "one row",
	"resolve-dispute":         "one row",
	"create-webhook":          "one row",
	"list-webhooks":           "a page",
	"get-webhook":             "one row",
	"change-webhook":          "one row",
	"delete-webhook":          "one row, and those of its queue",
	"rotate-webhook-secret":   "one row",
	"test-webhook":            "one row",
	"list-webhook-deliveries": "a page",
	"resend-webhook-delivery": "one row",
	"create-mapping":          "one row",
	"list-mappings":           "a page, and a count by an index",
	"retire-mapping":          "one row",
	"list-held-rows":          "a page by an index of each filter",
	"list-rejected-plays":     "a page",
	"dismiss-rejected-plays":  "rows by their ids",
}

// TestHeavyIsDeclared: each operation on what a tenant may have much of is Heavy, or known not to be.
func TestHeavyIsDeclared(t *testing.T) {
	_, registered, _ := openService(t)
	unused := maps.Clone(light)
	for path, item := range registered.Paths {
		for _, h := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if h == nil {
				continue
			}
			op := route.Of(h)
			_, scoped := op.Access.(route.Scope)
			if !scoped || op.Hidden || !slices.Contains([]string{"Events", "Receipts", "Metering", "Proof packs", "Compliance", "Disputes", "Webhooks", "Mappings"}, op.Tag) {
				continue
			}
			delete(unused, op.ID)
			require.NotEqual(t, op.Heavy, light[op.ID] != "", "%s %s", op.ID, path)
		}
	}
	require.Empty(t, unused)
}
