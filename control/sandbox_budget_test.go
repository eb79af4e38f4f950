package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/node"
	"muniment/control/sandbox"
)

const (
	takenAll = "the tenant has taken all the room that a visitor gets"
	allTaken = "they take all of its room"
)

// writesUntilRefused issues rights with long scopes, of which each takes some 85 KB, and
// returns how many there was room for, and what was answered then.
func (v *visitor) writesUntilRefused(basis any) (written int, refused string) {
	v.t.Helper()
	body := fmt.Sprintf(`{"basisId":%q,"substrate":"AUDIO","scope":%q,"effectiveFrom":"2026-06-01T00:00:00Z"}`, basis, strings.Repeat("x", 16_000))
	for ; ; written++ {
		require.Less(v.t, written, 100, "nothing bounds a visitor")
		a := v.send("POST", "/rights/issue", body)
		if a.status != 200 {
			require.Equal(v.t, "60", a.header.Get("Retry-After"))
			return written, told(v.t, a, 503, sandbox.HandlerError)
		}
	}
}

// TestSandboxShareOfATenant: one visitor can't take the room of all.
func TestSandboxShareOfATenant(t *testing.T) {
	p := openPlayground(t, newHouse(t), sandbox.Config{Bytes: 64 * 400_000, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
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

// TestSandboxBudget: all visitors together take so much and no more, whatever process they
// come to and however often those start. For more, idle tenants go, and what they left in
// the log counts as long as it is there.
func TestSandboxBudget(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	var dropped []string
	open := func() *playground {
		return openPlayground(t, newHouseOn(t, dir, node.Config{}, func() time.Time { return now }), sandbox.Config{
			Bytes: 64 * 200_000, Idle: 1000 * time.Hour, LogKeep: 48 * time.Hour, Limits: sandbox.Limits{Burst: 10_000, Sustained: 10_000},
			DropPacks: func(id string) error { dropped = append(dropped, id); return errors.New("it is told to the log alone") },
		})
	}
	p := open()
	var all []*visitor
	refused := ""
	for refused == "" {
		require.Less(t, len(all), 100, "nothing bounds visitors")
		now = now.Add(time.Millisecond)
		v := &visitor{playground: p}
		a := v.send("POST", "/tenant", "")
		if a.status != 200 {
			refused = told(t, a, 503, sandbox.HandlerError)
			break
		}
		all = append(all, v)
		bases := list(t, v.does("GET", "/inspect", ""), "bases")
		if _, why := v.writesUntilRefused(bases[0]["id"]); !strings.Contains(why, takenAll) {
			refused = why
		}
	}
	require.Contains(t, refused, allTaken)
	require.InDelta(t, 50, len(all), 20)
	late := &visitor{playground: open()}
	require.Contains(t, late.isRefused(503, sandbox.HandlerError, "POST", "/tenant", ""), allTaken, "after a start as well")
	require.Empty(t, dropped)

	now = now.Add(2 * time.Hour)
	late.does("POST", "/tenant", "")
	require.NotEmpty(t, dropped)
	all[0].isRefused(410, sandbox.TenantEvicted, "GET", "/tenant", "")
	before := len(dropped)
	for range 9 { // each drops one or more in turn, and all leave something in the log
		(&visitor{playground: late.playground}).does("POST", "/tenant", "")
	}
	require.Greater(t, len(dropped), before)
	all[len(all)-1].does("GET", "/tenant", "")
	taken := func() (bytes int64) {
		require.NoError(t, p.db.Read().QueryRow(`SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM sandbox_left`).Scan(&bytes))
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

// TestSandboxStopsFirst: while the disk has little room left, visitors write nothing, and
// everybody else goes on.
func TestSandboxStopsFirst(t *testing.T) {
	free := int64(1000)
	p := openPlayground(t, newHouse(t), sandbox.Config{MinFree: 1000, Free: func() (int64, error) { return free, nil }, Limits: sandbox.Limits{Burst: 1000, Sustained: 1000}})
	v, tenant := p.visit()
	free = 999
	const nearly = "the disk is nearly full"
	for path, body := range map[string]string{
		"/run-demo": "", "/rights/revoke": fmt.Sprintf(`{"rightId":%q}`, list(t, tenant, "rights")[0]["id"]),
		"/challenges/open": fmt.Sprintf(`{"rightId":%q,"reason":"ours"}`, list(t, tenant, "rights")[0]["id"]),
	} {
		a := v.send("POST", path, body)
		require.Contains(t, told(t, a, 503, sandbox.HandlerError), nearly)
		require.Equal(t, "60", a.header.Get("Retry-After"))
	}
	require.Contains(t, (&visitor{playground: p}).isRefused(503, sandbox.HandlerError, "POST", "/tenant", ""), nearly)
	v.does("GET", "/inspect", "")
	_, key := p.tenant()
	p.basis(key)
	v.does("POST", "/reset", "")
	free = 1000
	v.does("POST", "/tenant", "")
}

// TestSandboxCountsWhoIsGone: a reset under a run of the demo hides nothing of it.
func TestSandboxCountsWhoIsGone(t *testing.T) {
	var v *visitor
	delivered := 0
	p := openPlayground(t, newHouse(t), sandbox.Config{
		Limits: sandbox.Limits{Burst: 1000, Sustained: 1000},
		Deliver: func(context.Context, string, string, []byte) (int, []byte, error) {
			if delivered++; delivered == 1 {
				(&visitor{playground: v.playground, cookie: v.cookie}).does("POST", "/reset", "")
			}
			return 200, []byte(`{"data":{"receipt":{},"signature":{},"metering":{}}}`), nil
		},
	})
	v, _ = p.visit()
	v.send("POST", "/run-demo", `{"eventCount":100}`)
	require.Equal(t, 100, delivered)
	var left int64
	require.NoError(t, p.db.Read().QueryRow(`SELECT CAST(SUM(bytes) AS BIGINT) FROM sandbox_left`).Scan(&left))
	require.Greater(t, left, int64(100*1500))
}
