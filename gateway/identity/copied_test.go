package identity

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/snapshot"
)

// running is a process of a node: its identity, and its view, which follows the feed until end.
type running struct {
	*Node
	view    *snapshot.View
	metrics *prometheus.Registry
	ahead   atomic.Int64 // of the view's clock, by which its lease ends
	end     func()
}

// run starts a process on a folder that has joined, which has its news from source.
func (h *controlFixture) run(dir string, source func(n *Node) snapshot.Source) *running {
	h.t.Helper()
	n, err := Open(h.t.Context(), h.config(dir))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = n.Close() })
	p := &running{Node: n, metrics: prometheus.NewRegistry()}
	began := time.Now()
	clock := func() time.Duration { return time.Since(began) + time.Duration(p.ahead.Load()) }
	p.view, err = snapshot.New(snapshot.Config{Source: source(n), NodeID: n.ID(), Epoch: n.Epoch(), Signer: n, Clock: clock, Registerer: p.metrics})
	require.NoError(h.t, err)
	p.end = h.background(p.view, n)
	return p
}

// value is that of a metric without labels.
func value(t *testing.T, of prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := of.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if m := f.GetMetric()[0]; f.GetName() == name {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	require.Fail(t, "there is no metric "+name)
	return 0
}

const refusedPolls, superseded = "muniment_node_superseded_polls_total", "muniment_rights_superseded"

// TestCopiedFolder runs two processes on copies of one folder: the one that started earlier gets no more
// news, signs until its lease ends, and says why. The other one works on, and still rotates its key.
func TestCopiedFolder(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(h *controlFixture) func(*Node) snapshot.Source{
		"over the network": func(h *controlFixture) func(*Node) snapshot.Source {
			return func(n *Node) snapshot.Source {
				remote, err := snapshot.NewRemote([]string{h.server.URL}, n.Credential(), h.server.Client())
				require.NoError(h.t, err)
				return remote
			}
		},
		"in control's process": func(h *controlFixture) func(*Node) snapshot.Source {
			return func(*Node) snapshot.Source { return h.source }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newControl(t)
			source := source(h)
			dir := t.TempDir()
			require.NoError(t, h.open(dir).Close())
			first := h.run(dir, source)
			waittest.Until(t, func() bool { return first.view.Fresh() == nil })
			copied := filepath.Join(t.TempDir(), "identity")
			copyFolder(t, copied, dir)
			second := h.run(copied, source)
			require.Equal(t, first.ID(), second.ID())
			require.Greater(t, second.Epoch(), first.Epoch())
			waittest.Until(t, func() bool { return value(t, first.metrics, superseded) == 1 && second.view.Fresh() == nil })
			require.NoError(t, first.view.Fresh(), "its lease lasts")
			first.ahead.Store(int64(31 * time.Second))
			refusal := api.From(first.view.Fresh())
			require.Equal(t, api.RightsStale, refusal.Reason)
			require.Contains(t, refusal.Message, "another process runs as this node")
			require.Positive(t, value(t, h.metrics, refusedPolls))
			require.Zero(t, value(t, second.metrics, superseded))

			// Both hold the newest key: the one that is refused must not enrol the next.
			require.True(t, api.IsSuperseded(first.enrol(t.Context())))
			rotated, err := h.nodes.Rotate(t.Context(), second.SigningKeys()[0], store.ByOperator())
			require.NoError(t, err)
			require.NotNil(t, rotated.Key)
			waittest.Until(t, func() bool { return second.current().signer.KeyID == rotated.Key.KeyID })
			require.NoError(t, second.view.Fresh())

			// The copy is stopped, and the other started again: it is the newest now.
			first.end()
			second.end()
			require.NoError(t, first.Close())
			require.NoError(t, second.Close())
			refused := value(t, h.metrics, refusedPolls)
			third := h.run(copied, source)
			waittest.Until(t, func() bool { return third.view.Fresh() == nil })
			s, err := third.sign(time.Now().Add(2 * lead))
			require.NoError(t, err)
			h.requireValid(s)
			require.Equal(t, refused, value(t, h.metrics, refusedPolls))
		})
	}
}

// TestRestartsAreNoCopies kills a process and starts it again on its folder, also if control counts a start
// whose answer is lost, if a start fails once it is counted, and on an older copy of the database, which
// has counted fewer starts than a process that polls.
func TestRestartsAreNoCopies(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	dir := t.TempDir()
	require.NoError(t, h.open(dir).Close())
	source := func(n *Node) snapshot.Source {
		remote, err := snapshot.NewRemote([]string{h.server.URL}, n.Credential(), h.server.Client())
		require.NoError(t, err)
		return remote
	}
	var last *running
	again := func() {
		t.Helper()
		if last != nil {
			last.end()
			require.NoError(t, last.claim.Close()) // as if it was killed: it does not close its identity
		}
		p := h.run(dir, source)
		waittest.Until(t, func() bool { return p.view.Fresh() == nil })
		require.Zero(t, value(t, h.metrics, refusedPolls))
		require.Zero(t, value(t, p.metrics, superseded))
		if last != nil {
			require.Greater(t, p.Epoch(), last.Epoch())
		}
		last = p
	}
	again()
	again()

	var starts atomic.Int64
	h.inject(func(path string) fault {
		if path == api.PathStart && starts.Add(1) == 1 {
			return answerLost
		}
		return noFault
	})
	again()
	require.EqualValues(t, 2, starts.Load())
	h.inject(nil)

	// A start is counted whose process never polls: the one that runs works on.
	_, err := h.nodes.Start(t.Context(), last.ID(), api.StartRequest{})
	require.NoError(t, err)
	polled := last.view.Fresh()
	require.NoError(t, polled)
	require.NoError(t, h.nodes.CheckEpoch(last.ID(), last.Epoch()))

	require.NoError(t, h.db.Notes.Write(t.Context(), `UPDATE nodes SET epoch = 1`))
	again()
}
