package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
)

// fixture is a data folder with clocks.
type fixture struct {
	dir     string
	now     time.Time     // the wall clock
	elapsed time.Duration // the clock that never steps

	ownNodes bool
}

func newFixture(t *testing.T) *fixture {
	return &fixture{dir: t.TempDir(), now: time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)}
}

// mustStart opens the service as a start of control does; stop ends it.
func (f *fixture) mustStart(t *testing.T) (r *Service, stop func()) {
	t.Helper()
	path, url := storetest.Place(t, f.dir)
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: func() time.Time { return f.now }})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	logger := slog.New(slog.DiscardHandler)
	keys, err := signing.New(t.Context(), signing.Config{DB: db, Dir: filepath.Join(f.dir, "keys"), Logger: logger})
	require.NoError(t, err)
	r, err = New(t.Context(), Config{DB: db, Keys: keys, LeaseBound: 30 * time.Second, OwnNodes: f.ownNodes, Clock: func() time.Duration { return f.elapsed }, Logger: logger})
	require.NoError(t, err)
	return r, func() { require.NoError(t, db.Close()) }
}

// mustStartNode counts a start of a node.
func (r *Service) mustStartNode(t *testing.T, nodeID string) {
	t.Helper()
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := startNode(t.Context(), tx, nodeID, 0, tx.Now())
		return err
	}))
}

// TestLiveNodes: which nodes count as live, as time passes and control restarts.
func TestLiveNodes(t *testing.T) {
	stacktest.WithoutPostgres(t) // polls_test.go covers a shared database
	f := newFixture(t)
	r, stop := f.mustStart(t)
	require.True(t, r.mustPropagation(t, 9).Applied, "there are no nodes to wait for")
	r.mustStartNode(t, "nod_a")
	require.True(t, r.mustPropagation(t, 9).Applied, "a node that has not polled holds no lease")

	r.mustPoll(t, "nod_a", 8)
	require.Equal(t, Propagation{Revision: 9, Nodes: []State{{NodeID: "nod_a", AppliedRevision: 8, Live: true}}}, r.mustPropagation(t, 9))
	r.mustPoll(t, "nod_a", 9)
	r.mustPoll(t, "nod_b", 10)
	require.True(t, r.mustPropagation(t, 9).Applied)
	require.False(t, r.mustPropagation(t, 10).Applied)
	f.elapsed += 30 * time.Second
	require.False(t, r.mustPropagation(t, 10).Applied, "a lease lasts until the bound has passed")
	f.elapsed++
	require.Equal(t, Propagation{Revision: 10, Applied: true, Nodes: []State{
		{NodeID: "nod_a", AppliedRevision: 9}, {NodeID: "nod_b", AppliedRevision: 10},
	}}, r.mustPropagation(t, 10), "no lease is left")
	stop()

	// After a restart nodes may still hold leases from the previous process.
	r, stop = f.mustStart(t)
	require.Equal(t, []State{{NodeID: "nod_a", Live: true}}, r.mustPropagation(t, 1).Nodes)
	require.False(t, r.mustPropagation(t, 1).Applied)
	stop()
	f.ownNodes = true
	r, stop = f.mustStart(t)
	require.True(t, r.mustPropagation(t, 1).Applied, "leases of nodes in the previous process ended with it")
	stop()
	f.ownNodes = false
	r, _ = f.mustStart(t)
	f.elapsed += 31 * time.Second
	require.True(t, r.mustPropagation(t, 1).Applied, "after the bound no such lease is left")
	for range 2 {
		f.elapsed += forgetAfter * 30 * time.Second
		r.mustPoll(t, "nod_c", int64(f.elapsed))
	}
	require.Len(t, r.mustPropagation(t, 1).Nodes, 1, "a node that is silent for long is no longer listed")
}

// TestLiveNodesWhenTheClockIsSet steps the wall clock forward and back: a node stays live exactly
// until the bound has passed.
func TestLiveNodesWhenTheClockIsSet(t *testing.T) {
	stacktest.WithoutPostgres(t)
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		f := newFixture(t)
		r, stop := f.mustStart(t)
		r.mustStartNode(t, "nod_a")
		endsWithTheBound := func() {
			f.elapsed += 30 * time.Second
			require.False(t, r.mustPropagation(t, 2).Applied, "it may still hold a lease")
			f.elapsed++
			require.True(t, r.mustPropagation(t, 2).Applied)
		}

		r.mustPoll(t, "nod_a", 1)
		f.now = f.now.Add(step)
		endsWithTheBound()
		stop()

		r, _ = f.mustStart(t)
		f.now = f.now.Add(step)
		endsWithTheBound()
	}
}

func TestAwait(t *testing.T) {
	f := newFixture(t)
	r, _ := f.mustStart(t)
	r.cfg.WaitFor = time.Minute
	r.mustPoll(t, "nod_a", 1)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, r.Await(cancelled, 2).Applied)
	result := make(chan Propagation)
	go func() { result <- r.Await(t.Context(), 2) }()
	r.mustPoll(t, "nod_a", 2)
	require.True(t, (<-result).Applied)
}
