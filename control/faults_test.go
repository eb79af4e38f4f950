package control_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/node"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// reopen makes the fixture's control anew, with another clock or logger.
func (h *fixture) reopen(change func(*control.Config)) {
	h.t.Helper()
	cfg := h.config()
	change(&cfg)
	var err error
	h.made, err = control.New(cfg)
	require.NoError(h.t, err)
}

// requests reads how many requests control has counted, by operation and status.
func requests(t *testing.T, from prometheus.Gatherer) map[string]int {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	counted := map[string]int{}
	for _, f := range families {
		if f.GetName() != "muniment_control_request_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			counted[labels["operation"]+" "+labels["status"]] += int(m.GetHistogram().GetSampleCount())
		}
	}
	return counted
}

// TestRefusalsAreCountedNotLogged: strangers can't fill the log by what is refused.
func TestRefusalsAreCountedNotLogged(t *testing.T) {
	p := openPlayground(t, newFixture(t), sandbox.Config{MaxTenants: 1, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	registry := prometheus.NewRegistry()
	p.reopen(func(cfg *control.Config) { cfg.Registerer = registry })
	v, _ := p.visit()
	stale := &visitor{playground: p, cookie: v.cookie}
	v.does("POST", "/reset", "")
	busy, _ := p.visit()
	p.logged.Reset()

	anonymous := &visitor{playground: p}
	anonymous.isRefused(404, sandbox.NoTenant, "GET", "/tenant", "")
	anonymous.isRefused(404, sandbox.HandlerError, "GET", "/nothing", "")
	anonymous.isRefused(405, sandbox.HandlerError, "DELETE", "/tenant", "")
	anonymous.isRefused(503, sandbox.HandlerError, "POST", "/tenant", "")
	stale.isRefused(410, sandbox.TenantEvicted, "GET", "/inspect", "")
	busy.isRefused(400, sandbox.InvalidBody, "POST", "/rights/revoke", "{")
	busy.isRefused(422, sandbox.MissingFields, "POST", "/rights/revoke", "{}")
	busy.isRefused(404, sandbox.HandlerError, "POST", "/rights/revoke", `{"rightId":"rgh_1"}`)
	p.call("", "GET", "/v1/tenant", "").refused(401, api.AuthRequired)
	p.call("", "GET", "/trouble/away", "").refused(503, api.InternalError)
	for p.call("", "GET", "/api/sandbox/runtime-keys", "").status == http.StatusOK { // until the limit
	}
	anonymous.isRefused(429, sandbox.RateLimited, "GET", "/tenant", "")
	require.Empty(t, p.logged.String())

	counted := requests(t, registry)
	for refused, n := range map[string]int{
		"sandbox-get-tenant 404": 1, "sandbox-get-tenant 429": 1, "sandbox-provision 503": 1, "sandbox-inspect 410": 1,
		"sandbox-revoke-right 400": 1, "sandbox-revoke-right 422": 1, "sandbox-revoke-right 404": 1, "revoke-right 404": 1,
		"get-tenant 401": 1, "trouble-trouble-away 503": 1, "unmatched 404": 1, "unmatched 405": 1,
	} {
		require.Equal(t, n, counted[refused], "%s of %v", refused, counted)
	}
}

// TestFaultsAreLoggedOnceASecond: of each operation, however often it fails.
func TestFaultsAreLoggedOnceASecond(t *testing.T) {
	now := time.Now()
	h := newFixture(t)
	registry := prometheus.NewRegistry()
	h.reopen(func(cfg *control.Config) { cfg.Now, cfg.Registerer = func() time.Time { return now }, registry })
	lines := func() []string {
		defer h.logged.Reset()
		return strings.Split(strings.TrimSpace(h.logged.String()), "\n")
	}
	for range 50 {
		require.Equal(t, 500, h.call("", "GET", "/trouble/fails", "").status)
		require.Equal(t, 500, h.call("", "GET", "/trouble/panics", "").status)
		h.call("", "GET", "/trouble/unreachable", "").refused(503, api.InternalError)
	}
	first := lines()
	require.Len(t, first, 3, "one of each operation")
	require.Contains(t, first[0], "disk of host db7 is full")
	require.Contains(t, first[0], "operation=trouble-trouble-fails")
	require.Contains(t, first[1], "index out of range")
	require.Contains(t, first[2], "connection refused", "of an engine that is away")
	now = now.Add(999 * time.Millisecond)
	h.call("", "GET", "/trouble/fails", "")
	require.Equal(t, []string{""}, lines())
	now = now.Add(time.Millisecond)
	h.call("", "GET", "/trouble/fails", "")
	later := lines()
	require.Len(t, later, 1)
	require.Contains(t, later[0], "suppressed=50")
	require.Equal(t, 52, requests(t, registry)["trouble-trouble-fails 500"], "all are counted")
	require.Equal(t, 50, requests(t, registry)["trouble-trouble-panics 500"])
}

// TestSandboxFaultsAreLogged: what an envelope of its own answers with 500 is a fault, too.
func TestSandboxFaultsAreLogged(t *testing.T) {
	p := newPlayground(t)
	require.NoError(t, p.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `ALTER TABLE sandbox_tenants RENAME TO away`)
		return err
	}))
	(&visitor{playground: p}).isRefused(500, sandbox.HandlerError, "POST", "/tenant", "")
	require.Contains(t, p.logged.String(), "operation=sandbox-provision")
	require.Contains(t, p.logged.String(), "sandbox_tenants")
}

// TestRequestsAreLoggedForDebug: each in one line, without what is secret or the visitor's own.
func TestRequestsAreLoggedForDebug(t *testing.T) {
	p := newPlayground(t)
	tenantID, key := p.tenant()
	v, visited := p.visit()
	p.call(key, "GET", "/v1/rights?limit=7", "").ok()
	require.NotContains(t, p.logged.String(), "msg=request", "only at debug level")
	logged := new(bytes.Buffer)
	p.reopen(func(cfg *control.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	documentOf(t, p.control().Handler()) // now, so that no call below does
	for _, c := range []struct {
		do   func()
		line string
	}{
		{func() { p.call(key, "GET", "/v1/rights/rgh_1", "", "X-Request-Id", "mine-1") },
			`requestId=mine-1 method=GET route=/v1/rights/{rightId} status=404 tenantId=` + tenantID},
		{func() { p.call(key, "GET", "/v1/rights?basisId=of-the-query", "", "X-Request-Id", "mine-1") },
			`requestId=mine-1 method=GET route=/v1/rights status=200 tenantId=` + tenantID},
		{func() { p.call("mun_test_x", "GET", "/v1/rights", "", "X-Request-Id", "mine-2") }, `requestId=mine-2 method=GET route=/v1/rights status=401 tenantId=""`},
		{func() { p.call("", "GET", "/v1/of-the-path", "", "X-Request-Id", "mine-3") }, `requestId=mine-3 method=GET route=unmatched status=404 tenantId=""`},
		{func() { p.call("", "GET", "/trouble/panics", "", "X-Request-Id", "mine-4") }, `requestId=mine-4 method=GET route=/trouble/panics status=500 tenantId=""`},
		{func() { v.send("GET", "/tenant", "", "X-Request-Id", "mine-5") },
			fmt.Sprintf(`requestId=mine-5 method=GET route=/api/sandbox/tenant status=200 tenantId=%s`, visited["tenantId"])},
	} {
		logged.Reset()
		c.do()
		var lines []string
		for line := range strings.Lines(logged.String()) {
			if strings.Contains(line, "msg=request ") {
				lines = append(lines, line)
			}
		}
		require.Len(t, lines, 1, "of %s", c.line)
		require.Regexp(t, `level=DEBUG msg=request `+strings.NewReplacer("{", `\{`, "}", `\}`).Replace(c.line)+` duration=\S+\n$`, lines[0])
		for _, secret := range []string{key, v.cookie, "of-the-query", "of-the-path", "mun_test_x"} {
			require.NotContains(t, logged.String(), secret)
		}
	}
}

// TestSandboxWithoutSpaceLogsOnceAMinute: a visitor of a full sandbox in which a tenant can't be
// dropped may come as often as he likes.
func TestSandboxWithoutSpaceLogsOnceAMinute(t *testing.T) {
	now := time.Now()
	logged := new(bytes.Buffer)
	p := openPlayground(t, newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now }), sandbox.Config{
		MaxTenants: 1, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}, Logger: slog.New(slog.NewTextHandler(logged, nil)),
	})
	_, tenant := p.visit()
	p.hold(tenant)
	now = now.Add(time.Hour + time.Minute)
	for _, lines := range []int{1, 1, 1, 2} {
		(&visitor{playground: p}).isRefused(503, sandbox.HandlerError, "POST", "/tenant", "")
		require.Equal(t, lines, strings.Count(logged.String(), "cannot drop an idle tenant"))
		now = now.Add(20 * time.Second)
	}
}

// TestCallerWhoWaitsNoLonger: a page of this process that stops waiting for a read is no fault of the service.
func TestCallerWhoWaitsNoLonger(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	caller, err := store.Newest(t.Context(), h.db, api.Keys, get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId"))
	require.NoError(t, err)
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	status, text, err := h.control().Call(ctx, auth.Principal{Key: caller}, "GET", "/v1/rights", nil)
	require.NoError(t, err)
	require.Equal(t, 503, status, string(text))
	require.Contains(t, string(text), "OVERLOADED")
	require.NotContains(t, h.logged.String(), "a request failed")
}
