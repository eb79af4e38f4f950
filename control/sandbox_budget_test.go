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

const (
	takenAll = "the tenant has used all the space that a visitor has"
	isFull   = "the sandbox is full"
)

// writesUntilRefused issues rights with long scopes, each of about 85 KB, and returns how many fitted
// and the message of the refusal.
func (v *visitor) writesUntilRefused(basis any) (written int, refused string) {
	v.t.Helper()
	body := fmt.Sprintf(`{"basisId":%q,"substrate":"AUDIO","scope":%q,"effectiveFrom":"2026-06-01T00:00:00Z"}`, basis, strings.Repeat("x", 16_000))
	for ; ; written++ {
		require.Less(v.t, written, 100, "a visitor is not limited")
		a := v.send("POST", "/rights/issue", body)
		if a.status != 200 {
			refused := refusal(v.t, a, 503, sandbox.HandlerError)
			require.Equal(v.t, strings.Contains(refused, takenAll), a.header.Get("Retry-After") == "", "waiting does not help the tenant alone")
			return written, refused
		}
	}
}

// TestSandboxBudgetOfATenant: one visitor can't use all the space.
func TestSandboxBudgetOfATenant(t *testing.T) {
	p := openPlayground(t, newFixture(t), sandbox.Config{Bytes: 64 * 400_000, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	v, tenant := p.visit()
	right := list(t, tenant, "rights")[0]
	n, refused := v.writesUntilRefused(right["basisId"])
	require.Contains(t, refused, takenAll)
	require.InDelta(t, 4, n, 1)
	id := fmt.Sprintf(`{"rightId":%q}`, right["id"])
	for _, path := range []string{"/rights/suspend", "/rights/revoke"} {
		require.Contains(t, v.isRefused(503, sandbox.HandlerError, "POST", path, id), takenAll)
	}
	require.Contains(t, v.isRefused(503, sandbox.HandlerError, "POST", "/run-demo", ""), takenAll)
	v.does("GET", "/inspect", "")
	v.does("POST", "/constraint-demo", `{"scenario":"automotive-speed"}`)
	require.Contains(t, v.send("POST", "/tenant", "").text, `"rebound":true`)

	other, tenant := p.visit()
	again, _ := other.writesUntilRefused(list(t, tenant, "rights")[0]["basisId"])
	require.Equal(t, n, again)
	v.does("POST", "/reset", "")
	v.does("POST", "/tenant", "")
	v.does("GET", "/tenant", "")
}

// TestSandboxBudget: the space of all visitors together is limited, over all processes and restarts.
// Idle tenants are dropped to make space, and what they have in the log counts until the log deletes
// it.
func TestSandboxBudget(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	var dropped []string
	open := func() *playground {
		return openPlayground(t, newFixtureOn(t, dir, node.Config{}, func() time.Time { return now }), sandbox.Config{
			Bytes: 64 * 200_000, Idle: 1000 * time.Hour, LogKeep: 48 * time.Hour, Limits: sandbox.Limits{Burst: 10_000, Sustained: 10_000},
			DropPacks: func(_ context.Context, _ *store.Tx, id string) error { dropped = append(dropped, id); return nil },
		})
	}
	p := open()
	var all []*visitor
	refused := ""
	for refused == "" {
		require.Less(t, len(all), 100, "visitors are not limited")
		now = now.Add(time.Millisecond)
		v := &visitor{playground: p, from: fmt.Sprintf("192.0.2.%d", len(all))}
		a := v.send("POST", "/tenant", "")
		if a.status != 200 {
			refused = refusal(t, a, 503, sandbox.HandlerError)
			break
		}
		all = append(all, v)
		bases := list(t, v.does("GET", "/inspect", ""), "bases")
		if _, why := v.writesUntilRefused(bases[0]["id"]); !strings.Contains(why, takenAll) {
			refused = why
		}
	}
	require.Contains(t, refused, isFull)
	require.InDelta(t, 50, len(all), 20)
	late := &visitor{playground: open(), from: "198.51.100.1"}
	require.Contains(t, late.isRefused(503, sandbox.HandlerError, "POST", "/tenant", ""), isFull, "after a restart, too")
	require.Empty(t, dropped)

	now = now.Add(2 * time.Hour)
	late.does("POST", "/tenant", "")
	require.NotEmpty(t, dropped)
	all[0].isRefused(410, sandbox.TenantEvicted, "GET", "/tenant", "")
	before := len(dropped)
	for range 9 { // each drops one or more, and all leave something in the log
		(&visitor{playground: late.playground}).does("POST", "/tenant", "")
	}
	require.Greater(t, len(dropped), before)
	all[len(all)-1].does("GET", "/tenant", "")
	taken := func() (bytes int64) {
		require.NoError(t, p.db.Read().QueryRow(`SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM sandbox_log`).Scan(&bytes))
		return bytes
	}
	require.Positive(t, taken())
	now = now.Add(47 * time.Hour)
	require.NoError(t, p.sandbox.Evict(t.Context()))
	require.Positive(t, taken())
	now = now.Add(3 * time.Hour)
	require.NoError(t, p.sandbox.Evict(t.Context()))
	require.Zero(t, taken())
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
	require.NoError(t, p.db.Read().QueryRow(`SELECT CAST(SUM(bytes) AS BIGINT) FROM sandbox_log`).Scan(&left))
	require.Greater(t, left, int64(100*1500))
}

// delivers issues a receipt for each delivery.
func delivers(context.Context, string, string, []byte) ([]byte, error) {
	return []byte(`{"data":{"receipt":{},"signature":{},"metering":{}}}`), nil
}

// fillsTheLog runs demos of 154,624 bytes in the log each, with a reset whenever the tenant is full,
// until the log has no space left for the visitor.
func (v *visitor) fillsTheLog() (runs int, refused answer) {
	v.t.Helper()
	for {
		a := v.send("POST", "/tenant", "")
		if a.status == 200 {
			a = v.send("POST", "/run-demo", `{"eventCount":100}`)
			if a.status != 429 && a.status != 503 {
				runs++
			}
			v.does("POST", "/reset", "")
		}
		if a.status == 429 || a.status == 503 {
			return runs, a
		}
		require.Less(v.t, runs, 20, "an address is not limited")
	}
}

// TestSandboxBudgetOfAnAddress: a client that creates tenant after tenant uses one address's part of
// the log, and does not close the sandbox to others.
func TestSandboxBudgetOfAnAddress(t *testing.T) {
	now := time.Now().Truncate(time.Hour).Add(10 * time.Minute)
	p := openPlayground(t, newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now }), sandbox.Config{
		Bytes: 64 * 720_000, LogKeep: 48 * time.Hour, Limits: sandbox.Limits{Burst: 10_000, Sustained: 10_000}, Deliver: delivers,
	})
	v := &visitor{playground: p, from: "2001:db8:1:2::3"}
	n, a := v.fillsTheLog()
	require.Contains(t, refusal(t, a, 429, sandbox.RateLimited), "this IP address has used all the space in the log")
	require.Equal(t, 4, n)
	left := func(v *visitor) string {
		a := v.send("POST", "/run-demo", `{"eventCount":100}`)
		refusal(t, a, 429, sandbox.RateLimited)
		return a.header.Get("Retry-After")
	}
	now = now.Add(time.Hour)
	v.does("POST", "/tenant", "")
	requireRetryAfter(t, 48*3600-10*60, left(v)) // until the log has deleted the hour in which it began
	neighbour := &visitor{playground: p, from: "2001:db8:1:2:4:5:6:7"}
	neighbour.does("POST", "/tenant", "")
	left(neighbour)
	v.does("GET", "/inspect", "")
	n, _ = (&visitor{playground: p, from: "2001:db8:1:3::3"}).fillsTheLog()
	require.Equal(t, 4, n)

	known, err := store.List(t.Context(), p.db.Read(), "the addresses", store.Text, `SELECT DISTINCT address FROM sandbox_log`)
	require.NoError(t, err)
	require.Len(t, known, 2)
	require.NotContains(t, strings.Join(known, " "), "2001")

	now = now.Add(48*time.Hour - 10*time.Minute - time.Millisecond)
	left(v)
	now = now.Add(time.Millisecond)
	v.send("POST", "/reset", "")
	n, _ = v.fillsTheLog()
	require.Equal(t, 4, n)
}

// TestSandboxLogEvictsNoTenant: no tenant is dropped for space that only the log can free.
func TestSandboxLogEvictsNoTenant(t *testing.T) {
	now := time.Now().Truncate(time.Hour)
	const bytes = 64 * 720_000
	p := openPlayground(t, newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return now }), sandbox.Config{
		Bytes: bytes, LogKeep: 48 * time.Hour, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000},
	})
	idle, _ := p.visit()
	logged := func(bytes int64) {
		require.NoError(t, p.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO sandbox_log (address, hour, bytes) VALUES ('of others', $1, $2)
				ON CONFLICT (address, hour) DO UPDATE SET bytes = excluded.bytes`, store.At(now.Truncate(time.Hour)), bytes)
			return err
		}))
	}
	now = now.Add(2 * time.Hour)
	logged(bytes)
	late := &visitor{playground: p}
	for range 3 {
		a := late.send("POST", "/tenant", "")
		require.Contains(t, refusal(t, a, 503, sandbox.HandlerError), isFull)
		requireRetryAfter(t, 49*3600, a.header.Get("Retry-After"))
	}
	var tenants int
	require.NoError(t, p.db.Read().QueryRow(`SELECT COUNT(*) FROM sandbox_tenants`).Scan(&tenants))
	require.Equal(t, 1, tenants)
	logged(bytes - 100_000)
	late.does("POST", "/tenant", "")
	idle.isRefused(410, sandbox.TenantEvicted, "GET", "/tenant", "")
}
