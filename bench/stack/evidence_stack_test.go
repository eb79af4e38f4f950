package stack

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/control/sandbox"
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
	t.Parallel()
	c := cluster(t, system.Size{Gateways: 1, Loaders: 1, Controls: 2, Partitions: 3}, limits...)
	// Each gateway has a control process of its own.
	first := c.Front
	t.Cleanup(func() { _ = first.Close() })
	first.Set(systemtest.HostPort(c.Controls[0].API))
	var err error
	c.Front, err = system.NewBalancer(systemtest.HostPort(c.Controls[1].API))
	require.NoError(t, err)
	require.NoError(t, c.AddGateway(t.Context()))
	alternating := &inTurn{sent: make([]int, 2)}
	for _, url := range c.APIs() {
		alternating.hosts = append(alternating.hosts, systemtest.HostPort(url))
	}

	operations := slices.DeleteFunc(systemtest.OperationsOf(t, c.Gateways[0], true), func(o systemtest.Operation) bool { return !strings.HasPrefix(o.Path, sandbox.Base+"/") })
	require.Len(t, operations, 19)
	files, err := filepath.Glob(systemtest.Scripts + "sandbox-*.http")
	require.NoError(t, err)
	done := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			p := systemtest.Player{URL: c.Gateways[0].API, Client: &http.Client{Transport: alternating, Jar: systemtest.NewJar(t)}, Names: map[string]any{"key": "none"}, Reached: systemtest.Reached{Operations: done, Codes: map[string]bool{}, States: map[string]bool{}}}
			p.Play(t, file)
		})
	}
	for _, o := range operations {
		path, _, _ := strings.Cut(o.Path, "?")
		require.True(t, done[o.Method+" "+path], "%s %s never succeeded", o.Method, path)
	}

	visitor := systemtest.NewSaver(t, c.Gateways[0].API, alternating)
	packs, keys := visitor.Evidence()
	require.Len(t, visitor.Signers, 2, "each process has a node of its own")
	systemtest.Strangers(t, packs, keys)
	require.InDelta(t, alternating.sent[0], alternating.sent[1], 1)
	t.Logf("%d requests of visitors, half of them through each control process", alternating.sent[0]+alternating.sent[1])
	expelledOnTheStack(t, c, visitor, alternating, packs)
}

// expelledOnTheStack puts out the sandbox's node of one control process, asked for through
// the other, which started last: it signs nothing more, and another takes its place. Then that process is
// killed, and its node removed, which no request can reach any more. What they signed is
// verified by strangers all the time.
func expelledOnTheStack(t *testing.T, c *system.Cluster, visitor *systemtest.Saver, alternating *inTurn, packs []string) {
	through := func(i int) (keyID string) {
		alternating.hosts = []string{systemtest.HostPort(c.Gateways[i].API)}
		pack, keyID := visitor.Play(`{"eventCount":1}`, 1)
		packs = append(packs, pack)
		return keyID
	}
	type key struct{ KeyID, NodeID, State string }
	keyOf := func(keyID string) key {
		var list struct{ Keys []key }
		require.NoError(t, json.Unmarshal([]byte(systemtest.Command(t, "signing-key", "list", "--json", "--data", c.Operator().Data)), &list))
		i := slices.IndexFunc(list.Keys, func(k key) bool { return k.KeyID == keyID })
		require.GreaterOrEqual(t, i, 0, "%s in %v", keyID, list.Keys)
		return list.Keys[i]
	}
	stays, out := keyOf(through(1)), map[string]bool{}
	for _, alive := range []bool{true, false} {
		k := keyOf(through(0))
		require.NotEqual(t, stays.NodeID, k.NodeID)
		require.False(t, out[k.NodeID], "the node that was put out is there again")
		require.Equal(t, "ACTIVE", k.State)
		expel := []string{"node", "expel", "--data", c.Operator().Data, k.NodeID}
		if !alive {
			c.Controls[0].Kill()
			expel = append(expel, "--force")
		}
		response := systemtest.Command(t, expel...)
		require.Contains(t, response, k.NodeID+" was expelled at ")
		out[k.NodeID] = true
		require.Equal(t, "REVOKED", keyOf(k.KeyID).State)
		if !alive {
			require.NoError(t, c.StartControl(t.Context(), 0))
		}
		require.Equal(t, stays.KeyID, through(1), "the other process's is out as well")
		next := keyOf(through(0))
		require.NotEqual(t, k.KeyID, next.KeyID, "it signs, though it is out")
		require.False(t, out[next.NodeID], "its node came back")
		require.NotEqual(t, stays.NodeID, next.NodeID)
		systemtest.Strangers(t, packs, visitor.Save("runtime-keys.json", "GET", "/runtime-keys", "", new(struct{})))
	}
}
