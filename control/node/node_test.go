package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/signing"
	"muniment/control/store"
	"muniment/control/store/storetest"
)

// place is a data folder with a clock.
type place struct {
	dir string
	now time.Time
	ran time.Duration // of the clock that never steps

	ownNodes bool
}

func newPlace(t *testing.T) *place {
	return &place{dir: t.TempDir(), now: time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)}
}

// mustStart opens the service as one start of control does; stop ends it.
func (p *place) mustStart(t *testing.T) (r *Service, stop func()) {
	t.Helper()
	path, url := storetest.Place(t, p.dir)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: func() time.Time { return p.now }})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	logger := slog.New(slog.DiscardHandler)
	keys, err := signing.New(t.Context(), signing.Config{DB: db, Dir: filepath.Join(p.dir, "keys"), Logger: logger})
	require.NoError(t, err)
	r, err = New(t.Context(), Config{DB: db, Keys: keys, Bound: 30 * time.Second, OwnNodes: p.ownNodes, Clock: func() time.Duration { return p.ran }, Logger: logger})
	require.NoError(t, err)
	return r, func() { require.NoError(t, db.Close()) }
}

// mustStartNode counts a start of a node.
func (r *Service) mustStartNode(t *testing.T, nodeID string) {
	t.Helper()
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := startNode(t.Context(), tx, nodeID, tx.Now())
		return err
	}))
}

// TestLiveNodes walks a clock through what is known of nodes.
func TestLiveNodes(t *testing.T) {
	t.Setenv("MUNIMENT_TEST_POSTGRES", "") // where processes share it: shared_test.go
	p := newPlace(t)
	r, stop := p.mustStart(t)
	require.True(t, r.mustPropagation(t, 9).Applied, "without nodes there is nobody to wait for")
	r.mustStartNode(t, "nod_a")
	require.True(t, r.mustPropagation(t, 9).Applied, "a node that has not asked holds no lease")

	r.mustPoll(t, "nod_a", 8)
	require.Equal(t, Propagation{Revision: 9, Nodes: []State{{NodeID: "nod_a", AppliedRevision: 8, Live: true}}}, r.mustPropagation(t, 9))
	r.mustPoll(t, "nod_a", 9)
	r.mustPoll(t, "nod_b", 10)
	require.True(t, r.mustPropagation(t, 9).Applied)
	require.False(t, r.mustPropagation(t, 10).Applied)
	p.ran += 30 * time.Second
	require.False(t, r.mustPropagation(t, 10).Applied, "a lease lasts to the end of the bound")
	p.ran++
	require.Equal(t, Propagation{Revision: 10, Applied: true, Nodes: []State{
		{NodeID: "nod_a", AppliedRevision: 9}, {NodeID: "nod_b", AppliedRevision: 10},
	}}, r.mustPropagation(t, 10), "no lease is left")
	stop()

	// Another process: what the last one granted may still be held.
	r, stop = p.mustStart(t)
	require.Equal(t, []State{{NodeID: "nod_a", Live: true}}, r.mustPropagation(t, 1).Nodes)
	require.False(t, r.mustPropagation(t, 1).Applied)
	stop()
	p.ownNodes = true
	r, stop = p.mustStart(t)
	require.True(t, r.mustPropagation(t, 1).Applied, "unless all nodes are in this process, so their leases ended with the last")
	stop()
	p.ownNodes = false
	r, _ = p.mustStart(t)
	p.ran += 31 * time.Second
	require.True(t, r.mustPropagation(t, 1).Applied, "nor longer than the bound")
	for range 2 {
		p.ran += forget * 30 * time.Second
		r.mustPoll(t, "nod_c", int64(p.ran))
	}
	require.Len(t, r.mustPropagation(t, 1).Nodes, 1, "who is silent for long is forgotten")
}

// TestLiveNodesWhenTheClockIsSet steps the wall clock, by which no lease runs, either
// way: who is live stays so to the end of the bound, and no longer.
func TestLiveNodesWhenTheClockIsSet(t *testing.T) {
	t.Setenv("MUNIMENT_TEST_POSTGRES", "")
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		p := newPlace(t)
		r, stop := p.mustStart(t)
		r.mustStartNode(t, "nod_a")
		endsWithTheBound := func() {
			p.ran += 30 * time.Second
			require.False(t, r.mustPropagation(t, 2).Applied, "it may still hold a lease")
			p.ran++
			require.True(t, r.mustPropagation(t, 2).Applied)
		}

		r.mustPoll(t, "nod_a", 1)
		p.now = p.now.Add(step)
		endsWithTheBound()
		stop()

		r, _ = p.mustStart(t)
		p.now = p.now.Add(step)
		endsWithTheBound()
	}
}

func TestAwait(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	r.cfg.WaitFor = time.Minute
	r.mustPoll(t, "nod_a", 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, r.Await(gone, 2).Applied)
	answer := make(chan Propagation)
	go func() { answer <- r.Await(t.Context(), 2) }()
	r.mustPoll(t, "nod_a", 2)
	require.True(t, (<-answer).Applied)
}
