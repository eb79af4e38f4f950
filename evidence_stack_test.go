package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench"
)

// inTurn sends each request to the next of several servers.
type inTurn struct {
	hosts []string

	mu   sync.Mutex
	sent []int // to each of them
	next int
}

func (r *inTurn) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	to := r.next % len(r.hosts)
	r.next++
	r.sent[to]++
	r.mu.Unlock()
	req = req.Clone(req.Context())
	req.URL.Host = r.hosts[to]
	return http.DefaultTransport.RoundTrip(req)
}

// TestSandboxOnTheStack has every request of a visitor answered by another control
// process than the one before: the scripts of the sandbox hold, all of its operations
// succeed, and what a visitor saves is verified by strangers.
func TestSandboxOnTheStack(t *testing.T) {
	t.Setenv("MUNIMENT_TRUSTED_PROXIES", "1")
	t.Setenv("MUNIMENT_SANDBOX_BURST", "200")
	c := cluster(t, bench.Size{Gateways: 1, Loaders: 1, Controls: 2, Partitions: 3})
	// Each gateway has a control process of its own.
	first := c.Front
	t.Cleanup(func() { _ = first.Close() })
	first.Set(hostPort(c.Controls[0].API))
	var err error
	c.Front, err = bench.NewBalancer(hostPort(c.Controls[1].API))
	require.NoError(t, err)
	require.NoError(t, c.AddGateway(t.Context()))
	turns := &inTurn{sent: make([]int, 2)}
	for _, url := range c.APIs() {
		turns.hosts = append(turns.hosts, hostPort(url))
	}

	operations := operationsOf(t, c.Gateways[0], true)
	require.Len(t, operations, 19)
	files, err := filepath.Glob(scripts + "sandbox-*.http")
	require.NoError(t, err)
	done := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			visitor := newSaver(t, c.Gateways[0].API, turns)
			p := player{visitor.url, visitor.client, map[string]any{"key": "none"}, reached{done, map[string]bool{}, map[string]bool{}}}
			p.play(t, file)
		})
	}
	for _, o := range operations {
		path, _, _ := strings.Cut(o.path, "?")
		require.True(t, done[o.method+" "+path], "%s %s never succeeded", o.method, path)
	}

	visitor := newSaver(t, c.Gateways[0].API, turns)
	packs, keys := visitor.evidence()
	require.Len(t, visitor.signers, 2, "each process has a node of its own")
	strangers(t, c.Exe, packs, keys)
	require.InDelta(t, turns.sent[0], turns.sent[1], 1)
	t.Logf("%d requests of visitors, half of them through each control process", turns.sent[0]+turns.sent[1])
}
