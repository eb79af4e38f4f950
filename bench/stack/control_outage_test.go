package stack

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
	"muniment/bench/system/systemtest"
	"muniment/bench/waittest"
)

// TestControlOutageOnTheStack kills control under a gateway that serves, for longer than the
// bound: from then on all deliveries are refused, and the gateway is not ready. When
// control is back, the same process goes on.
func TestControlOutageOnTheStack(t *testing.T) {
	t.Parallel()
	s := newScaled(t)
	s.Migrate(t)
	p := s.Start(t)
	client := system.Client{API: p.Api, Key: systemtest.CreateTenant(t, s.Data).APIKey}
	rightID := systemtest.IssueRights(t, client)["DOOH"]
	front, err := system.NewBalancer(systemtest.HostPort(p.Api))
	require.NoError(t, err)
	defer front.Close()
	door, err := system.NewBalancer(systemtest.HostPort(p.Nodes))
	require.NoError(t, err)
	defer door.Close()
	edge := systemtest.Launch(t, "gateway", "--kafka", s.Kafka, "--topic", s.Topic, "--data", t.TempDir(), "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0", "--control", front.Addr(), "--nodes", "http://"+door.Addr(), "--invitation", p.Invite(t, s), "--bound", systemtest.Bound.String())
	edge.AwaitReady(t, http.StatusOK)
	callers := systemtest.StartCallers(t, 4, edge.Api, client.Key, rightID)
	enough := func(at time.Time, kind string) {
		t.Helper()
		waittest.Until(t, func() bool { return callers.Since(at)[kind] >= 500 }, "%v", callers.Since(at))
	}
	// A gateway that is stopped for the lease bound refuses until its next feed request.
	requireOnly := func(at time.Time, kinds ...string) {
		t.Helper()
		require.Subset(t, kinds, slices.Collect(maps.Keys(callers.Since(at))), "what else was answered")
	}
	enough(time.Time{}, "200")
	requireOnly(time.Time{}, "200", "503 RIGHTS_STALE")

	p.Kill()
	ended := time.Now().Add(systemtest.Bound) // of any lease
	enough(ended, "503 RIGHTS_STALE")
	edge.AwaitReady(t, http.StatusServiceUnavailable)
	requireOnly(ended, "503 RIGHTS_STALE")

	p = s.Start(t)
	front.Set(systemtest.HostPort(p.Api))
	door.Set(systemtest.HostPort(p.Nodes))
	edge.AwaitReady(t, http.StatusOK)
	ready := time.Now()
	enough(ready, "200")
	callers.End()
	requireOnly(ready, "200", "503 RIGHTS_STALE")
	require.NoError(t, system.Client{API: edge.Api, Key: client.Key}.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	edge.Stop(t)
	p.Stop(t)
}
