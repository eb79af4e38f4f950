package control_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
)

const isFull = "the sandbox is full"

// demosUntilRefused runs demos of 100 deliveries, which are 101 events, with a new tenant for each, and
// returns how many ran and the refusal.
func (v *visitor) demosUntilRefused() (runs int, refused answer) {
	v.t.Helper()
	for {
		a := v.send("POST", "/tenant", "")
		if a.status == 200 {
			if a = v.send("POST", "/run-demo", `{"eventCount":100}`); a.status != 429 && a.status != 503 {
				runs++
			}
			v.does("POST", "/reset", "")
		}
		if a.status == 429 || a.status == 503 {
			return runs, a
		}
		require.Less(v.t, runs, 100, "visitors are not limited")
	}
}

// TestSandboxBudget: the events of all visitors together are limited, over all processes and restarts,
// until the log deletes them. No tenant is dropped for them, which would free nothing.
func TestSandboxBudget(t *testing.T) {
	now := time.Now().Truncate(time.Hour)
	dir := t.TempDir()
	open := func() *playground {
		return openPlayground(t, newFixtureOn(t, dir, node.Config{}, func() time.Time { return now }), sandbox.Config{
			Events: 64 * 130, Idle: 1000 * time.Hour, LogKeep: 48 * time.Hour, Limits: sandbox.Limits{Burst: 10_000, Sustained: 10_000}, Deliver: delivers,
		})
	}
	p := open()
	idle := &visitor{playground: p, from: "198.51.100.1"}
	idle.does("POST", "/tenant", "")
	visitors, refused := 0, answer{}
	for ; refused.status != 503; visitors++ {
		require.Less(t, visitors, 100, "visitors are not limited")
		now = now.Add(time.Second)
		_, refused = (&visitor{playground: p, from: fmt.Sprintf("192.0.2.%d", visitors)}).demosUntilRefused()
	}
	require.InDelta(t, 70, visitors, 3)
	require.Contains(t, refusal(t, refused, 503, sandbox.HandlerError), isFull)
	now = now.Truncate(time.Hour).Add(2 * time.Hour)
	late := &visitor{playground: open(), from: "198.51.100.2"}
	for late.send("POST", "/tenant", "").status == 200 { // there may be events left for a tenant, and not for a demo
		late.does("POST", "/reset", "")
	}
	for range 3 {
		a := late.send("POST", "/tenant", "")
		require.Contains(t, refusal(t, a, 503, sandbox.HandlerError), isFull)
		requireRetryAfter(t, 47*3600, a.header.Get("Retry-After"))
	}
	idle.does("GET", "/tenant", "")

	counted := func() (events int64) {
		require.NoError(t, p.db.Read().QueryRow(`SELECT CAST(COALESCE(SUM(events), 0) AS BIGINT) FROM sandbox_events`).Scan(&events))
		return events
	}
	now = now.Add(47*time.Hour - time.Millisecond)
	require.NoError(t, p.sandbox.Evict(t.Context()))
	require.Greater(t, counted(), int64(64*128))
	late.isRefused(503, sandbox.HandlerError, "POST", "/tenant", "")
	now = now.Add(time.Millisecond)
	require.NoError(t, p.sandbox.Evict(t.Context()))
	require.Less(t, counted(), int64(100), "those of the hours after it")
	late.does("POST", "/tenant", "")
}

// TestSandboxStopsFirst: while the disk has little space left, visitors can write nothing, and all
// other callers can.
func TestSandboxStopsFirst(t *testing.T) {
	free := int64(1000)
	p := openPlayground(t, newFixture(t), sandbox.Config{MinFree: 1000, Free: func() (int64, error) { return free, nil }, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	v, tenant := p.visit()
	free = 999
	const nearly = "the disk is nearly full"
	for path, body := range map[string]string{
		"/run-demo": "", "/rights/revoke": fmt.Sprintf(`{"rightId":%q}`, list(t, tenant, "rights")[0]["id"]),
		"/challenges/open": fmt.Sprintf(`{"rightId":%q,"reason":"ours"}`, list(t, tenant, "rights")[0]["id"]),
	} {
		a := v.send("POST", path, body)
		require.Contains(t, refusal(t, a, 503, sandbox.HandlerError), nearly)
		requireRetryAfter(t, 60, a.header.Get("Retry-After"))
	}
	require.Contains(t, (&visitor{playground: p}).isRefused(503, sandbox.HandlerError, "POST", "/tenant", ""), nearly)
	v.does("GET", "/inspect", "")
	_, key := p.tenant()
	p.basis(key)
	v.does("POST", "/reset", "")
	free = 1000
	v.does("POST", "/tenant", "")
}

// TestSandboxCountsWhoIsGone: a run of the demo counts even if the tenant is reset meanwhile.
func TestSandboxCountsWhoIsGone(t *testing.T) {
	var v *visitor
	delivered := 0
	p := openPlayground(t, newFixture(t), sandbox.Config{
		Limits: sandbox.Limits{Burst: 1000, Sustained: 1000},
		Deliver: func(ctx context.Context, tenantID, keyID string, body []byte) ([]byte, error) {
			if delivered++; delivered == 1 {
				(&visitor{playground: v.playground, cookie: v.cookie}).does("POST", "/reset", "")
			}
			return delivers(ctx, tenantID, keyID, body)
		},
	})
	v, _ = p.visit()
	v.send("POST", "/run-demo", `{"eventCount":100}`)
	require.Equal(t, 100, delivered)
	var left int64
	require.NoError(t, p.db.Read().QueryRow(`SELECT CAST(SUM(events) AS BIGINT) FROM sandbox_events`).Scan(&left))
	require.Equal(t, int64(12+101), left)
}

// delivers issues a receipt for each delivery.
func delivers(context.Context, string, string, []byte) ([]byte, error) {
	return []byte(`{"data":{"receipt":{},"signature":{},"metering":{}}}`), nil
}

// TestSandboxBudgetOfAnAddress: a client that creates tenant after tenant causes one address's part of
// the events, and does not close the sandbox to others.
func TestSandboxBudgetOfAnAddress(t *testing.T) {
	now := time.Now().Truncate(time.Hour).Add(10 * time.Minute)
	p := openPlayground(t, newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now }), sandbox.Config{
		Events: 64 * 500, LogKeep: 48 * time.Hour, Limits: sandbox.Limits{Burst: 10_000, Sustained: 10_000}, Deliver: delivers,
	})
	v := &visitor{playground: p, from: "2001:db8:1:2::3"}
	n, a := v.demosUntilRefused()
	require.Contains(t, refusal(t, a, 429, sandbox.RateLimited), "this IP address has caused all the events")
	require.Equal(t, 4, n)
	left := func(v *visitor) string {
		a := v.send("POST", "/run-demo", `{"eventCount":100}`)
		refusal(t, a, 429, sandbox.RateLimited)
		return a.header.Get("Retry-After")
	}
	now = now.Add(time.Hour)
	tenant := v.does("POST", "/tenant", "")
	requireRetryAfter(t, 48*3600-10*60, left(v)) // until the log has deleted the hour in which it began
	neighbour := &visitor{playground: p, from: "2001:db8:1:2:4:5:6:7"}
	neighbour.does("POST", "/tenant", "")
	left(neighbour)
	id := fmt.Sprintf(`{"rightId":%q}`, list(t, tenant, "rights")[0]["id"])
	for path := "/rights/suspend"; v.send("POST", path, id).status == 200; {
		path = map[string]string{"/rights/suspend": "/rights/revoke", "/rights/revoke": "/rights/revoke"}[path]
	}
	v.isRefused(429, sandbox.RateLimited, "POST", "/rights/revoke", id)
	v.does("GET", "/inspect", "")
	v.does("POST", "/constraint-demo", `{"scenario":"automotive-speed"}`)
	require.Contains(t, v.send("POST", "/tenant", "").text, `"rebound":true`)
	n, _ = (&visitor{playground: p, from: "2001:db8:1:3::3"}).demosUntilRefused()
	require.Equal(t, 4, n)

	known, err := store.List(t.Context(), p.db.Read(), "the addresses", store.Text, `SELECT DISTINCT address FROM sandbox_events`)
	require.NoError(t, err)
	require.Len(t, known, 2)
	require.NotContains(t, strings.Join(known, " "), "2001")

	now = now.Add(48*time.Hour - 10*time.Minute - time.Millisecond)
	left(v)
	now = now.Add(time.Millisecond)
	v.does("POST", "/reset", "")
	n, _ = v.demosUntilRefused()
	require.Equal(t, 4, n)
}

// TestLongChangesCountAsWhatTheyTake: a visitor whose every change has the longest scope takes no more
// space than one who makes short ones.
func TestLongChangesCountAsWhatTheyTake(t *testing.T) {
	p := openPlayground(t, newFixture(t), sandbox.Config{Events: 64 * 60, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}, Deliver: delivers})
	v, _ := p.visit()
	basis := list(t, v.does("GET", "/inspect", ""), "bases")[0]["id"]
	counted := func() (events int) {
		require.NoError(t, p.db.Read().QueryRow(`SELECT CAST(SUM(events) AS BIGINT) FROM sandbox_events`).Scan(&events))
		return events
	}
	issue := func(scope string) answer {
		return v.send("POST", "/rights/issue", fmt.Sprintf(`{"basisId":%q,"substrate":"DOOH","effectiveFrom":"2026-11-21T04:00:00Z","scope":%s}`, basis, scope))
	}
	before := counted()
	require.Equal(t, 200, issue(`"all screens"`).status)
	require.Equal(t, 1, counted()-before)
	longest := `{"x-note":"` + strings.Repeat("x", 16_000) + `"}`
	a := issue(longest)
	require.Equal(t, 200, a.status, a.text)
	require.InDelta(t, 85/4, counted()-before-1, 2)
	for range 3 {
		a = issue(longest)
	}
	require.Contains(t, refusal(t, a, 429, sandbox.RateLimited), "all the events")
}
