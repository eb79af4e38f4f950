package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
)

// heard is an answer to a delivery.
type heard struct {
	asked time.Time
	kind  string // status and reason
}

// hearsay is what callers are told.
type hearsay struct {
	mu   sync.Mutex
	all  []heard
	stop func()
}

// listen has callers deliver on a right until stop.
func listen(t *testing.T, api, key, rightID string) *hearsay {
	ctx, end := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	h := &hearsay{stop: func() { end(); callers.Wait() }}
	t.Cleanup(h.stop)
	body := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":4200}`, rightID)
	client := &http.Client{Timeout: time.Minute}
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				req, _ := http.NewRequest(http.MethodPost, api+"/v1/delivery", strings.NewReader(body))
				req.Header.Set("Authorization", "Bearer "+key)
				resp, err := client.Do(req)
				kind := fmt.Sprint(err)
				if err == nil {
					var refused struct{ Reason string }
					_ = json.NewDecoder(resp.Body).Decode(&refused)
					resp.Body.Close()
					kind = strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", refused.Reason))
				}
				h.mu.Lock()
				h.all = append(h.all, heard{asked, kind})
				h.mu.Unlock()
			}
		})
	}
	return h
}

// since counts the answers to what was asked after a moment.
func (h *hearsay) since(at time.Time) map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := map[string]int{}
	for _, one := range h.all {
		if one.asked.After(at) {
			n[one.kind]++
		}
	}
	return n
}

// TestControlAwayForLong kills control under a gateway that serves, for longer than the
// bound: from then on all deliveries are refused, and the gateway is not ready. When
// control is back, the same process goes on.
func TestControlAwayForLong(t *testing.T) {
	s := newScaled(t)
	s.migrate(t)
	p := s.start(t)
	client := bench.Client{API: p.api, Key: createTenant(t, s.exe, s.data).APIKey}
	rightID := issueRights(t, client)["DOOH"]
	front, err := bench.NewBalancer(hostPort(p.api))
	require.NoError(t, err)
	defer front.Close()
	door, err := bench.NewBalancer(hostPort(p.nodes))
	require.NoError(t, err)
	defer door.Close()
	edge := launch(t, exec.Command(s.exe, "gateway", "--kafka", s.kafka, "--topic", s.topic, "--data", t.TempDir(), "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0", "--control", front.Addr(), "--nodes", "http://"+door.Addr(), "--invitation", p.invite(t, s), "--bound", bound.String()))
	edge.awaitReady(t, http.StatusOK)
	callers := listen(t, edge.api, client.Key, rightID)
	enough := func(at time.Time, kind string) {
		t.Helper()
		require.Eventually(t, func() bool { return callers.since(at)[kind] >= 500 }, time.Minute, 10*time.Millisecond, "%v", callers.since(at))
	}
	// A gateway that is held still for the bound refuses until it has asked once more.
	requireOnly := func(at time.Time, kinds ...string) {
		t.Helper()
		require.Subset(t, kinds, slices.Collect(maps.Keys(callers.since(at))), "what else was answered")
	}
	enough(time.Time{}, "200")
	requireOnly(time.Time{}, "200", "503 RIGHTS_STALE")

	require.NoError(t, p.cmd.Process.Kill())
	<-p.exited
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
	callers.stop()
	requireOnly(ready, "200", "503 RIGHTS_STALE")
	require.NoError(t, bench.Client{API: edge.api, Key: client.Key}.Do(t.Context(), "POST", "/v1/rights/"+rightID+"/suspend", map[string]any{}, nil))
	edge.stop(t)
	p.stop(t)
}
