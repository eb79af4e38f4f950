package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"muniment.example/bench/waittest"
)

// TestLimitedTenants: whoever is refused or delayed is named to operators, with the limit.
func TestLimitedTenants(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	serve := withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/busy" {
			rw.WriteHeader(http.StatusTooManyRequests)
			return
		}
		entered <- struct{}{}
		<-leave
	})
	w := newWorld(t, func(c *settings) {
		serve(c)
		c.MaxTenantInFlight, c.MaxStreams, c.BusyInterval = 1, 4, time.Microsecond
	})
	w.warm()

	release := w.log.Halt()
	defer release()
	replies := make(chan reply, 3)
	go func() { replies <- w.post(w.body()) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 1 })
	require.Equal(t, 429, w.post(w.body()).status)
	require.Equal(t, 429, w.post(w.body()).status)
	release()
	require.Equal(t, 200, (<-replies).status)
	require.Equal(t, 200, w.raw(request(w.otherToken, fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1}`, w.foreign))).status)
	require.Equal(t, 200, w.post(w.body()).status, "it is delayed") // by today's clock a moment after the refusal

	go func() { replies <- w.raw(of(w.otherToken, "PUT", "/v1/slow")) }()
	<-entered
	require.Equal(t, 1.0, w.metric("muniment_gateway_places_in_use", "tenants"))
	require.Equal(t, 0.0, w.metric("muniment_gateway_places_in_use", "strangers"))
	require.Equal(t, 516.0, w.metric("muniment_gateway_places_limit", "tenants"))
	require.Equal(t, 4.0, w.metric("muniment_gateway_places_limit", "strangers"))
	require.Equal(t, 429, w.raw(of(w.otherToken, "PUT", "/v1/slow")).status)
	close(leave)
	require.Equal(t, 200, (<-replies).status)
	require.Equal(t, 0.0, w.metric("muniment_gateway_places_in_use", "tenants"))
	require.Equal(t, 429, w.raw(of(w.otherToken, "GET", "/v1/busy")).status)
	require.Equal(t, 429, w.raw(of("", "GET", "/v1/busy")).status, "of nobody")

	require.Equal(t, LimitedTenants{Since: today, Tenants: []LimitedTenant{
		{TenantID: "tnt_a", Deliveries: 2, Delayed: 1}, {TenantID: "tnt_b", Requests: 1, Control: 1},
	}}, w.gateway.Limited())
}

// TestNobodyIsBlamedForOthers: a tenant that is refused because others have all places is not among those who met a limit.
func TestNobodyIsBlamedForOthers(t *testing.T) {
	l := newLimited(func() time.Time { return today })
	p := &proxy{cfg: &Config{MaxForwards: 10}, limited: l, tenants: newCallers(2, 1, "busy")}
	for _, tenant := range []string{"tnt_a", "tnt_b"} {
		require.Equal(t, admitted, p.tenants.places.take(tenant, true))
	}
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod(http.MethodPut)
	for _, tenant := range []string{"tnt_c", "tnt_a"} {
		require.Equal(t, error(p.tenants.busy), p.forward(&ctx, place{p.tenants, tenant, tenant}, nil))
	}
	require.Equal(t, []LimitedTenant{{TenantID: "tnt_a", Requests: 1}}, l.shown().Tenants)
}

// TestLimitedBatches: a tenant above its part of the slots, and one above its part of the memory.
func TestLimitedBatches(t *testing.T) {
	l := newLimited(func() time.Time { return today })
	b := newBatches(&Config{MaxBatchBytes: 100, MaxInFlight: 100, Processors: 1}, l)
	of := &tenantLimit{tenant: "tnt_a", slots: make(chan struct{}, 1)}
	_, err := b.acquire(t.Context(), of, 0)
	require.ErrorIs(t, err, errTenantBatches)
	a := allowance{node: &b, tenant: of}
	require.NoError(t, a.take(50))
	require.ErrorIs(t, a.take(1), errTenantBatches)
	require.ErrorIs(t, a.take(50), errBatchesFull)
	require.Equal(t, []LimitedTenant{{TenantID: "tnt_a", Batches: 2}}, l.shown().Tenants)
}

// TestLimitedTenantsAreBounded: however many tenants are refused, the memory is that of mostLimited, and a tenant that
// has a part of the refusals is found among them.
func TestLimitedTenantsAreBounded(t *testing.T) {
	now := today
	l := newLimited(func() time.Time { return now })
	const strangers, every = 20_000, 50
	for n := range strangers {
		l.add(fmt.Sprint("tnt_", n), limitRequests)
		if n%every == 0 {
			l.add("tnt_greedy", limitDeliveries)
		}
	}
	require.Equal(t, mostLimited, len(l.current))
	shown := l.shown().Tenants
	require.Len(t, shown, mostShown)
	require.Equal(t, LimitedTenant{TenantID: "tnt_greedy", Deliveries: strangers / every}, shown[0])
	require.Equal(t, uint64(1), shown[1].Requests, "what is certain is told apart from what may have been")
	require.NotZero(t, shown[1].Missed)
	most := uint64(strangers/mostLimited + strangers/every/mostLimited + 1)
	require.LessOrEqual(t, shown[1].Missed, most)

	now = now.Add(limitedFor)
	for range 2 {
		l.add("tnt_other", limitBatches)
	}
	shown = l.shown().Tenants
	require.Equal(t, LimitedTenant{TenantID: "tnt_greedy", Deliveries: strangers / every}, shown[0])
	other := shown[1]
	require.Equal(t, LimitedTenant{TenantID: "tnt_other", Batches: 2, Missed: other.Missed}, other, "it may have been one of those who had no room before")
	require.NotZero(t, other.Missed)
	require.LessOrEqual(t, other.Missed, most)
	for n := range 2 * mostLimited {
		l.add(fmt.Sprint("tnt_new_", n), limitBatches)
	}
	require.NotZero(t, l.shown().Tenants[0].Missed, "the greedy one may have been among those, too")
}

// TestLimitedTenantsAreForgotten after 5 to 10 minutes, whether others are refused or not.
func TestLimitedTenantsAreForgotten(t *testing.T) {
	now := today
	l := newLimited(func() time.Time { return now })
	since := func(at time.Time, tenants ...string) {
		t.Helper()
		shown := l.shown()
		require.Equal(t, at, shown.Since)
		names := []string{}
		for _, s := range shown.Tenants {
			names = append(names, s.TenantID)
		}
		require.ElementsMatch(t, tenants, names)
	}
	since(today)
	l.add("tnt_a", limitDeliveries)
	since(today, "tnt_a")
	now = today.Add(limitedFor)
	l.add("tnt_b", limitDeliveries)
	l.add("tnt_a", limitDeliveries)
	since(today, "tnt_a", "tnt_b")
	require.Equal(t, uint64(2), l.shown().Tenants[0].Deliveries)
	now = today.Add(2 * limitedFor)
	since(today.Add(limitedFor), "tnt_a", "tnt_b")
	now = today.Add(4 * limitedFor)
	since(now)
	l.add("tnt_c", limitDeliveries)
	now = today // the clock was set back
	since(now)
}

// TestTenantsOfAdmin: an operator with the token sees them, and nobody else.
func TestTenantsOfAdmin(t *testing.T) {
	w := newWorld(t, nil)
	w.gateway.limited.add("tnt_a", limitDelay)
	h := Admin{Gatherer: prometheus.NewRegistry(), Token: "secret", Tenants: map[string]TenantsPart{"limited": w.gateway.LimitedPart}}.Handler()
	ask := func(authorization string) (int, string) {
		rw, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/debug/tenants", nil)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		h.ServeHTTP(rw, r)
		return rw.Code, strings.TrimSpace(rw.Body.String())
	}
	status, body := ask("")
	require.Equal(t, 401, status)
	require.NotContains(t, body, "tnt_a")
	status, _ = ask("Bearer other")
	require.Equal(t, 401, status)
	status, body = ask("Bearer secret")
	require.Equal(t, 200, status)
	require.Equal(t, `{"limited":{"since":"`+today.Format(time.RFC3339Nano)+`","tenants":[{"tenantId":"tnt_a","deliveries":0,"batches":0,"requests":0,"control":0,"delayed":1}]}}`, body)
	status, _ = get(t, Admin{Gatherer: prometheus.NewRegistry()}.Handler(), "/debug/tenants")
	require.Equal(t, 404, status, "a process that has none")
}
