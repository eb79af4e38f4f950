package main

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
)

// TestControlOutageOnTheStack kills control under a gateway that serves, for longer than the
// bound: from then on all deliveries are refused, and the gateway is not ready. When
// control is back, the same process goes on.
func TestControlOutageOnTheStack(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	p := s.start(t)
	client := system.Client{API: p.api, Key: createTenant(t, s.data).APIKey}
	rightID := issueRights(t, client)["DOOH"]
	front, err := system.NewBalancer(hostPort(p.api))
	require.NoError(t, err)
	defer front.Close()
	door, err := system.NewBalancer(hostPort(p.nodes))
	require.NoError(t, err)
	defer door.Close()
	edge := launch(t, "gateway", "--kafka", s.kafka, "--topic", s.topic, "--data", t.TempDir(), "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0", "--control", front.Addr(), "--nodes", "http://"+door.Addr(), "--invitation", p.invite(t, s), "--bound", bound.String())
	edge.awaitReady(t, http.StatusOK)
	callers := startCallers(t, 4, edge.api, client.Key, rightID)
	enough := func(at time.Time, kind string) {
		t.Helper()
		until(t, func() bool { return callers.since(at)[kind] >= 500 }, "%v", callers.since(at))
	}
	// A gateway that is stopped for the lease bound refuses until its next feed request.
	requireOnly := func(at time.Time, kinds ...string) {
		t.Helper()
		require.Subset(t, kinds, slices.Collect(maps.Keys(callers.since(at))), "what else was answered")
	}
	enough(time.Time{}, "200")
	requireOnly(time.Time{}, "200", "503 RIGHTS_STALE")

	p.kill()
	ended := time.Now().Add(bound) // of any lease
	enough(ended, "503 RIGHTS_STALE")
	edge.awaitReady(t, http.StatusServiceUnavailable)
	requireOnly(ended, "503 RIGHTS_STALE")

	p = s.start(t)
	front.Set(hostPort(p.api))
	door.Set(hostPort(p.nodes))
	edge.awaitReady(t, http.StatusOK)
	ready := time.Now()
	enough(ready, "200")
	callers.end()
	requireOnly(ready, "200", "503 RIGHTS_STALE")
	require.NoError(t, system.Client{API: edge.api, Key: client.Key}.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	edge.stop(t)
	p.stop(t)
}
