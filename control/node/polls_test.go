package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// two opens the service in two processes. SQLite allows only one process, so there both share a
// database handle.
func (f *fixture) two(t *testing.T) (a, b *Service) {
	t.Helper()
	a, _ = f.mustStart(t)
	if a.db.Shared() {
		b, _ = f.mustStart(t)
		return a, b
	}
	b, err := New(t.Context(), a.cfg)
	require.NoError(t, err)
	for _, r := range []*Service{a, b} {
		r.writer = newPollWriter(&r.cfg)
		clear(r.seen)
	}
	return a, b
}

func (r *Service) mustPoll(t *testing.T, nodeID string, applied int64) {
	t.Helper()
	require.NoError(t, r.Polled(t.Context(), api.FeedRequest{NodeID: nodeID, After: applied}))
}

func (r *Service) mustPropagation(t *testing.T, revision int64) Propagation {
	t.Helper()
	p, err := r.Propagation(t.Context(), revision)
	require.NoError(t, err)
	return p
}

// TestEveryProcessSeesEveryNode: nodes poll one process, the other, and both.
func TestEveryProcessSeesEveryNode(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	require.True(t, a.mustPropagation(t, 2).Applied, "a node that has not polled holds no lease")
	a.mustPoll(t, "nod_a", 1)
	b.mustPoll(t, "nod_b", 2)
	want := Propagation{Revision: 2, Nodes: []State{{NodeID: "nod_a", AppliedRevision: 1, Live: true}, {NodeID: "nod_b", AppliedRevision: 2, Live: true}}}
	require.Equal(t, want, a.mustPropagation(t, 2))
	require.Equal(t, want, b.mustPropagation(t, 2))
	b.mustPoll(t, "nod_a", 2)
	require.True(t, a.mustPropagation(t, 2).Applied)
	third, _ := f.mustStart(t)
	third.writer = newPollWriter(&third.cfg)
	require.Len(t, third.mustPropagation(t, 2).Nodes, 2, "a process that starts reads them")
}

// TestAwaitOfAnotherProcess: a process that waits is woken by polls of the other.
func TestAwaitOfAnotherProcess(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	a.cfg.WaitFor = time.Minute
	b.mustPoll(t, "nod_b", 1)
	result := make(chan Propagation)
	go func() { result <- a.Await(t.Context(), 2) }()
	b.mustPoll(t, "nod_a", 2)
	b.mustPoll(t, "nod_b", 2)
	require.Equal(t, Propagation{Revision: 2, Applied: true, Nodes: []State{
		{NodeID: "nod_a", AppliedRevision: 2, Live: true}, {NodeID: "nod_b", AppliedRevision: 2, Live: true},
	}}, <-result)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, a.Await(cancelled, 3).Applied)
}

// TestSilentNode: not every poll of an unchanged node is written, and the process that it does not
// poll counts it as live until the longest lease that it may hold has ended.
func TestSilentNode(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	live := func() bool { return a.mustPropagation(t, 1).Nodes[0].Live }
	beat := func() (n int64) {
		row := b.db.Read().QueryRowContext(t.Context(), `SELECT beat FROM node_polls WHERE node_id = 'nod_b'`)
		require.NoError(t, row.Scan(&n))
		return n
	}
	b.mustPoll(t, "nod_b", 0)
	require.True(t, live())
	first := beat()
	f.elapsed += 3*time.Second - 1
	b.mustPoll(t, "nod_b", 0) // its lease begins here
	require.Equal(t, first, beat(), "the poll is not written")
	f.elapsed += 30 * time.Second
	require.True(t, live(), "the lease of the unwritten poll lasts until now")
	f.elapsed += 2
	require.False(t, live())
	require.True(t, a.mustPropagation(t, 1).Applied)

	b.mustPoll(t, "nod_b", 0)
	require.Equal(t, first+1, beat())
	require.True(t, live(), "it polls again")
	b.mustPoll(t, "nod_b", 1)
	require.Equal(t, first+2, beat(), "a new revision is written at once")
	require.True(t, live())
	f.elapsed += forgetAfter * 30 * time.Second
	require.Len(t, a.mustPropagation(t, 1).Nodes, 1)
	f.elapsed++
	require.Empty(t, a.mustPropagation(t, 1).Nodes, "a node that is silent for long is no longer listed")
}

// TestPollsShareStatements: polls that arrive while a statement runs are written by the next, and
// none is answered before it is written.
func TestPollsShareStatements(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	b.writer.writing <- struct{}{} // a statement runs
	const nodes = 50
	var polls sync.WaitGroup
	answered := make(chan error, nodes)
	for i := range nodes {
		polls.Go(func() {
			answered <- b.Polled(t.Context(), api.FeedRequest{NodeID: fmt.Sprintf("nod_%02d", i), After: 7})
		})
	}
	joined := func() bool {
		b.writer.mu.Lock()
		defer b.writer.mu.Unlock()
		return b.writer.next != nil && len(b.writer.next.polls) == nodes
	}
	waittest.Until(t, joined)
	require.Empty(t, answered)
	require.Empty(t, a.mustPropagation(t, 7).Nodes)
	noted := b.db.Notes.Written()
	<-b.writer.writing
	polls.Wait()
	for range nodes {
		require.NoError(t, <-answered)
	}
	<-noted
	got := a.mustPropagation(t, 7)
	require.Len(t, got.Nodes, nodes)
	require.True(t, got.Applied)
}

// TestAwaitWithoutTheDatabase: Await returns that a revision is not applied, even if it has
// returned before that it was.
func TestAwaitWithoutTheDatabase(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	a.cfg.WaitFor = time.Minute
	b.mustPoll(t, "nod_b", 2)
	require.True(t, a.Await(t.Context(), 2).Applied)
	require.NoError(t, a.db.Close())
	a.cfg.WaitFor = 10 * time.Millisecond
	require.Equal(t, Propagation{Revision: 2, Nodes: []State{}}, a.Await(t.Context(), 2))
	_, err := a.Propagation(t.Context(), 2)
	require.Error(t, err)
	if b.db == a.db {
		require.Error(t, b.Polled(t.Context(), api.FeedRequest{NodeID: "nod_b", After: 3}), "a poll that was not written must not be answered")
	}
}

// TestFollowSeesSilentNodes: a process that serves no requests knows when a node stops being live.
func TestFollowSeesSilentNodes(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	b.mustPoll(t, "nod_b", 1)
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan error)
	go func() { followed <- a.Follow(ctx) }()
	seen := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.seen["nod_b"].beat > 0
	}
	waittest.Until(t, seen)
	stop()
	require.NoError(t, <-followed)
	f.elapsed += 33*time.Second + 1
	require.True(t, a.mustPropagation(t, 2).Applied)
}

// TestCancelledPoll: a poll that begins a batch returns when its context is cancelled, without
// waiting for the running statement.
func TestCancelledPoll(t *testing.T) {
	f := newFixture(t)
	_, b := f.two(t)
	b.writer.writing <- struct{}{} // a statement runs
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	returned := make(chan error)
	go func() { returned <- b.Polled(cancelled, api.FeedRequest{NodeID: "nod_b", After: 7}) }()
	require.ErrorIs(t, <-returned, context.Canceled, "it does not wait for the statement")
	<-b.writer.writing
	b.mustPoll(t, "nod_b", 7)
}

// TestSilentNodeIsRemoved: the row of a node that is silent for long is deleted, and the node is
// live again when it polls again.
func TestSilentNodeIsRemoved(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	b.mustPoll(t, "nod_a", 1)
	b.mustPoll(t, "nod_b", 1)
	require.Len(t, a.mustPropagation(t, 1).Nodes, 2)
	f.elapsed += forgetAfter * 30 * time.Second
	b.mustPoll(t, "nod_b", 1)
	a.mustPropagation(t, 1)
	f.elapsed++
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan error)
	go func() { followed <- a.Follow(ctx) }()
	rows := func() (n int) {
		require.NoError(t, a.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM node_polls`).Scan(&n))
		return n
	}
	waittest.Until(t, func() bool { return rows() == 1 })
	stop()
	require.NoError(t, <-followed)
	b.mustPoll(t, "nod_a", 1)
	for _, r := range []*Service{a, b} {
		nodes := r.mustPropagation(t, 1).Nodes
		require.Len(t, nodes, 2)
		require.True(t, nodes[0].Live)
	}
}

// TestSpooled: every process knows how many records are in the nodes' spools, also while the
// nodes are silent.
func TestSpooled(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	require.NoError(t, b.removeGone(t.Context()))
	spooled := func(nodeID string, n int64) {
		t.Helper()
		require.NoError(t, b.Polled(t.Context(), api.FeedRequest{NodeID: nodeID, After: 1, Spooled: n}))
	}
	is := func(live, silent map[string]int64) {
		t.Helper()
		for _, r := range []*Service{a, b} {
			gotLive, gotSilent, err := r.Spooled(t.Context())
			require.NoError(t, err)
			require.Equal(t, live, gotLive)
			require.Equal(t, silent, gotSilent)
		}
	}
	none := map[string]int64{}
	spooled("nod_a", 0)
	is(none, none)
	spooled("nod_a", 3)
	spooled("nod_b", 5)
	is(map[string]int64{"nod_a": 3, "nod_b": 5}, none)
	spooled("nod_b", 4)
	is(map[string]int64{"nod_a": 3, "nod_b": 4}, none)
	spooled("nod_b", 0)
	is(map[string]int64{"nod_a": 3}, none)
	f.elapsed += 2 * forgetAfter * 30 * time.Second
	is(none, map[string]int64{"nod_a": 3})
	for _, r := range []*Service{a, b} {
		require.NoError(t, r.removeGone(t.Context()))
	}
	is(none, map[string]int64{"nod_a": 3})
	require.Len(t, a.mustPropagation(t, 1).Nodes, 1)
	spooled("nod_a", 0)
	is(none, none)
}

// TestExpelledNodeWithASpool: the spool of an expelled node counts as silent, not as live, and a
// process that starts later does not count the node as live.
func TestExpelledNodeWithASpool(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	change := func(query string, args ...any) {
		t.Helper()
		require.NoError(t, a.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), query, args...)
			return err
		}))
	}
	is := func(r *Service, live bool, silent map[string]int64) {
		t.Helper()
		waits, gotSilent, err := r.Spooled(t.Context())
		require.NoError(t, err)
		require.Empty(t, waits)
		require.Equal(t, silent, gotSilent)
		nodes := r.mustPropagation(t, 2).Nodes
		require.Len(t, nodes, 1)
		require.Equal(t, live, nodes[0].Live)
	}
	require.NoError(t, b.Polled(t.Context(), api.FeedRequest{NodeID: "nod_a", After: 1, Spooled: 5}))
	waits, _, err := a.Spooled(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"nod_a": 5}, waits)
	change(`INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision, expelled_at) VALUES ('nod_a', 1, 1, 1, 1, 1)`)
	named := map[string]int64{"nod_a": 5}
	is(a, true, named)
	f.elapsed += 33*time.Second + 1
	is(a, false, named)
	require.NoError(t, a.removeGone(t.Context()))
	third, _ := f.mustStart(t)
	third.writer = newPollWriter(&third.cfg)
	for _, r := range []*Service{a, third} {
		is(r, false, named)
		require.True(t, r.mustPropagation(t, 2).Applied)
	}
	change(`UPDATE node_polls SET spooled = 0`)
	require.Empty(t, third.mustPropagation(t, 2).Nodes)
	require.NoError(t, third.removeGone(t.Context()))
	var rows int
	require.NoError(t, a.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM node_polls`).Scan(&rows))
	require.Zero(t, rows)
}

// TestSpooledAtTwoProcesses: if a node polls two processes in turn, its last poll counts, even if
// it repeats an earlier one.
func TestSpooledAtTwoProcesses(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	is := func(n int64) {
		t.Helper()
		live, _, err := a.Spooled(t.Context())
		require.NoError(t, err)
		require.Equal(t, n, live["nod_a"])
	}
	for _, n := range []int64{0, 7} {
		require.NoError(t, a.Polled(t.Context(), api.FeedRequest{NodeID: "nod_a", After: 1, Spooled: n}))
		require.NoError(t, b.Polled(t.Context(), api.FeedRequest{NodeID: "nod_a", After: 1, Spooled: 7 - n}))
		if n == 0 {
			is(7) // reads the row, as Follow would
		}
		require.NoError(t, a.Polled(t.Context(), api.FeedRequest{NodeID: "nod_a", After: 1, Spooled: n}))
		is(n)
	}
}

// TestLaterStartPutsOutTheEarlier: two processes poll as one node, each another control process. Once these
// have read each other's rows, the process that started earlier is refused by both, and its poll is not
// recorded. So it is if both poll one control process.
func TestLaterStartPutsOutTheEarlier(t *testing.T) {
	f := newFixture(t)
	a, b := f.two(t)
	poll := func(r *Service, epoch uint64, applied int64) error {
		return r.Polled(t.Context(), api.FeedRequest{NodeID: "nod_a", Epoch: epoch, After: applied})
	}
	require.NoError(t, poll(a, 1, 5))
	require.NoError(t, poll(b, 2, 7))
	require.Len(t, a.mustPropagation(t, 7).Nodes, 1) // reads the rows
	for _, r := range []*Service{a, b} {
		err := poll(r, 1, 6)
		require.True(t, api.IsSuperseded(err), "%v", err)
		require.ErrorContains(t, err, "start 2 of the node, this process is start 1")
		require.NoError(t, r.CheckEpoch("nod_a", 2))
		require.True(t, api.IsSuperseded(r.CheckEpoch("nod_a", 1)))
	}
	require.Equal(t, int64(7), b.mustPropagation(t, 7).Nodes[0].AppliedRevision)

	// A process that has not read the row yet records nothing of the earlier start.
	third, _ := f.mustStart(t)
	third.writer = newPollWriter(&third.cfg)
	clear(third.seen)
	require.NoError(t, poll(third, 1, 6))
	require.Equal(t, int64(7), third.mustPropagation(t, 7).Nodes[0].AppliedRevision)
	require.True(t, api.IsSuperseded(poll(third, 1, 6)))
	require.NoError(t, poll(a, 2, 8))

	// The next start is later than each that has polled, even if the database has counted fewer.
	started, err := a.Start(t.Context(), "nod_a", api.StartRequest{})
	require.NoError(t, err)
	require.Equal(t, uint64(3), started.Epoch)
}
