package stack

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
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

// TestSeveralControlProcessesOnTheStack kills one of two control processes under a gateway that has the addresses of
// both: deliveries go on without one that is refused, and so do requests, of which none is carried out twice. The same
// again with the other, once the first is back.
func TestSeveralControlProcessesOnTheStack(t *testing.T) {
	t.Parallel()
	s := newScaled(t)
	s.Migrate(t)
	first, second := s.Start(t), s.Start(t)
	client := system.Client{API: first.Api, Key: systemtest.CreateTenant(t, s.Data).APIKey}
	rightID := systemtest.IssueRights(t, client)["DOOH"]
	edge := systemtest.Launch(t, "gateway", "--kafka", s.Kafka, "--topic", s.Topic, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--control", systemtest.HostPort(first.Api)+","+systemtest.HostPort(second.Api), "--nodes", first.Nodes+","+second.Nodes, "--invitation", first.Invite(t, s), "--bound", "10s")
	edge.AwaitReady(t, http.StatusOK)
	callers := systemtest.StartCallers(t, 4, edge.Api, client.Key, rightID)
	forwarded := system.Client{API: edge.Api, Key: client.Key}

	// Requests that change something, before, while and after the process is killed: each that was answered 200 made one
	// basis, each that was answered 503 at most one.
	asked, made := 0, map[string]bool{}
	create := func() (ok bool) {
		asked++
		title := fmt.Sprint("basis ", asked)
		err := forwarded.Do(t.Context(), "POST", "/v1/bases", map[string]any{"kind": "LICENSE", "title": title}, nil)
		made[title] = err == nil
		return err == nil
	}
	for range 20 {
		require.True(t, create())
	}
	killed := time.Now()
	first.Kill()
	waittest.Until(t, create)
	for range 20 {
		require.True(t, create())
	}
	require.NoError(t, forwarded.Do(t.Context(), "GET", "/v1/rights/"+rightID, nil, nil))
	waittest.Until(t, func() bool {
		age, err := systemtest.Metric(&system.Server{Admin: edge.Admin}, "muniment_rights_lease_age_seconds")
		return err == nil && age < time.Since(killed).Seconds()-1
	}, "no lease that begins after the kill")
	edge.AwaitReady(t, http.StatusOK)
	callers.End()
	require.Equal(t, []string{"200"}, slices.Collect(maps.Keys(callers.Since(time.Time{}))))

	var list struct{ Bases []struct{ Title string } }
	require.NoError(t, forwarded.Do(t.Context(), "GET", "/v1/bases?limit=500", nil, &list))
	times := map[string]int{}
	for _, b := range list.Bases {
		times[b.Title]++
	}
	for title, ok := range made {
		require.LessOrEqual(t, times[title], 1, "%s was carried out twice", title)
		require.True(t, !ok || times[title] == 1, "%s was answered, and is not there", title)
	}

	// A revocation takes effect by the process that is left.
	require.NoError(t, forwarded.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	edge.Stop(t)
	second.Stop(t)
}
