package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/store"
)

// two opens the service in two processes. On SQLite, which has but one, they share its
// handle.
func (p *place) two(t *testing.T) (a, b *Service) {
	t.Helper()
	a, _ = p.mustStart(t)
	if a.db.Shared() {
		b, _ = p.mustStart(t)
		return a, b
	}
	b, err := New(t.Context(), a.cfg)
	require.NoError(t, err)
	for _, r := range []*Service{a, b} {
		r.shared = newShared(&r.cfg)
		clear(r.seen)
	}
	return a, b
}

func (r *Service) mustPoll(t *testing.T, nodeID string, applied int64) {
	t.Helper()
	require.NoError(t, r.Polled(t.Context(), nodeID, applied, 0))
}

func (r *Service) mustPropagation(t *testing.T, revision int64) Propagation {
	t.Helper()
	p, err := r.Propagation(t.Context(), revision)
	require.NoError(t, err)
	return p
}

// TestEveryProcessSeesEveryNode has nodes ask one process, the other and both.
func TestEveryProcessSeesEveryNode(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	require.True(t, a.mustPropagation(t, 2).Applied, "a node that has not asked holds no lease")
	a.mustPoll(t, "nod_a", 1)
	b.mustPoll(t, "nod_b", 2)
	want := Propagation{Revision: 2, Nodes: []State{{NodeID: "nod_a", AppliedRevision: 1, Live: true}, {NodeID: "nod_b", AppliedRevision: 2, Live: true}}}
	require.Equal(t, want, a.mustPropagation(t, 2))
	require.Equal(t, want, b.mustPropagation(t, 2))
	b.mustPoll(t, "nod_a", 2)
	require.True(t, a.mustPropagation(t, 2).Applied)
	third, _ := p.mustStart(t)
	third.shared = newShared(&third.cfg)
	require.Len(t, third.mustPropagation(t, 2).Nodes, 2, "a process that starts knows them too")
}

// TestAwaitOfAnotherProcess: the one that revokes is woken by the one that was asked.
func TestAwaitOfAnotherProcess(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	a.cfg.WaitFor = time.Minute
	b.mustPoll(t, "nod_b", 1)
	answer := make(chan Propagation)
	go func() { answer <- a.Await(t.Context(), 2) }()
	b.mustPoll(t, "nod_a", 2)
	b.mustPoll(t, "nod_b", 2)
	require.Equal(t, Propagation{Revision: 2, Applied: true, Nodes: []State{
		{NodeID: "nod_a", AppliedRevision: 2, Live: true}, {NodeID: "nod_b", AppliedRevision: 2, Live: true},
	}}, <-answer, "who waits in vain is told of what was before")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, a.Await(gone, 3).Applied)
}

// TestSilentNode walks the clock: a node that asks is written now and then, and counts
// as live to the end of the longest lease that it may hold, at the process that was
// not asked.
func TestSilentNode(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	live := func() bool { return a.mustPropagation(t, 1).Nodes[0].Live }
	beat := func() (n int64) {
		row := b.db.Read().QueryRowContext(t.Context(), `SELECT beat FROM node_polls WHERE node_id = 'nod_b'`)
		require.NoError(t, row.Scan(&n))
		return n
	}
	b.mustPoll(t, "nod_b", 0)
	require.True(t, live())
	first := beat()
	p.ran += 3*time.Second - 1
	b.mustPoll(t, "nod_b", 0) // a lease from here on
	require.Equal(t, first, beat(), "not worth a write")
	p.ran += 30 * time.Second
	require.True(t, live(), "the lease that was not written lasts until now")
	p.ran += 2
	require.False(t, live())
	require.True(t, a.mustPropagation(t, 1).Applied)

	b.mustPoll(t, "nod_b", 0)
	require.Equal(t, first+1, beat())
	require.True(t, live(), "back again")
	b.mustPoll(t, "nod_b", 1)
	require.Equal(t, first+2, beat(), "news is written at once")
	require.True(t, live())
	p.ran += forget * 30 * time.Second
	require.Len(t, a.mustPropagation(t, 1).Nodes, 1)
	p.ran++
	require.Empty(t, a.mustPropagation(t, 1).Nodes, "who is silent for long is forgotten")
}

// TestPollsShareStatements: what comes while one is on its way goes with the next, and
// nobody is told before his is written.
func TestPollsShareStatements(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	b.shared.turn <- struct{}{} // a statement is on its way
	const nodes = 50
	var asked sync.WaitGroup
	answered := make(chan error, nodes)
	for i := range nodes {
		asked.Go(func() { answered <- b.Polled(t.Context(), fmt.Sprintf("nod_%02d", i), 7, 0) })
	}
	joined := func() bool {
		b.shared.mu.Lock()
		defer b.shared.mu.Unlock()
		return b.shared.next != nil && len(b.shared.next.polls) == nodes
	}
	require.Eventually(t, joined, time.Minute, time.Millisecond)
	require.Empty(t, answered)
	require.Empty(t, a.mustPropagation(t, 7).Nodes)
	noted := b.db.Noted()
	<-b.shared.turn
	asked.Wait()
	for range nodes {
		require.NoError(t, <-answered)
	}
	<-noted
	got := a.mustPropagation(t, 7)
	require.Len(t, got.Nodes, nodes)
	require.True(t, got.Applied)
}

// TestAwaitWithoutTheDatabase: a revocation that was committed is told of, but not as
// applied, whatever was known before.
func TestAwaitWithoutTheDatabase(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	a.cfg.WaitFor = time.Minute
	b.mustPoll(t, "nod_b", 2)
	require.True(t, a.Await(t.Context(), 2).Applied)
	require.NoError(t, a.db.Close())
	a.cfg.WaitFor = 10 * time.Millisecond
	require.Equal(t, Propagation{Revision: 2, Nodes: []State{}}, a.Await(t.Context(), 2))
	_, err := a.Propagation(t.Context(), 2)
	require.Error(t, err)
	if b.db == a.db {
		require.Error(t, b.Polled(t.Context(), "nod_b", 3, 0), "no node may be answered whose poll is not known")
	}
}

// TestFollowSeesWhoHasGone: a process that nobody has asked knows who is live.
func TestFollowSeesWhoHasGone(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	b.mustPoll(t, "nod_b", 1)
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan error)
	go func() { followed <- a.Follow(ctx) }()
	seen := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.seen["nod_b"].beat > 0
	}
	require.Eventually(t, seen, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, <-followed)
	p.ran += 33*time.Second + 1
	require.True(t, a.mustPropagation(t, 2).Applied)
}

// TestWhoCannotWaitGoes: a node whose poll begins a statement does not have to wait for
// the statement before.
func TestWhoCannotWaitGoes(t *testing.T) {
	p := newPlace(t)
	_, b := p.two(t)
	b.shared.turn <- struct{}{} // a statement is on its way
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	told := make(chan error)
	go func() { told <- b.Polled(gone, "nod_b", 7, 0) }()
	select {
	case err := <-told:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(time.Minute):
		t.Error("it waits")
	}
	<-b.shared.turn
	b.mustPoll(t, "nod_b", 7)
}

// TestWhoIsGoneForLongIsRemoved from the table, and is live when it comes back.
func TestWhoIsGoneForLongIsRemoved(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	b.mustPoll(t, "nod_a", 1)
	b.mustPoll(t, "nod_b", 1)
	require.Len(t, a.mustPropagation(t, 1).Nodes, 2)
	p.ran += forget * 30 * time.Second
	b.mustPoll(t, "nod_b", 1)
	a.mustPropagation(t, 1)
	p.ran++
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan error)
	go func() { followed <- a.Follow(ctx) }()
	rows := func() (n int) {
		require.NoError(t, a.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM node_polls`).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return rows() == 1 }, time.Minute, 10*time.Millisecond)
	stop()
	require.NoError(t, <-followed)
	b.mustPoll(t, "nod_a", 1)
	for _, r := range []*Service{a, b} {
		nodes := r.mustPropagation(t, 1).Nodes
		require.Len(t, nodes, 2)
		require.True(t, nodes[0].Live)
	}
}

// TestSpooled: every process knows what nodes have in their spools, and does not forget it
// while they are silent.
func TestSpooled(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	require.NoError(t, b.removeGone(t.Context()))
	spooled := func(nodeID string, n int64) {
		t.Helper()
		require.NoError(t, b.Polled(t.Context(), nodeID, 1, n))
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
	p.ran += 2 * forget * 30 * time.Second
	is(none, map[string]int64{"nod_a": 3})
	for _, r := range []*Service{a, b} {
		require.NoError(t, r.removeGone(t.Context()))
	}
	is(none, map[string]int64{"nod_a": 3})
	require.Len(t, a.mustPropagation(t, 1).Nodes, 1)
	spooled("nod_a", 0)
	is(none, none)
}

// TestExpelledNodeWithASpool: no seal waits for what a node has that was forced out, each
// names it, and a process that starts later does not take the node for a live one.
func TestExpelledNodeWithASpool(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
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
	require.NoError(t, b.Polled(t.Context(), "nod_a", 1, 5))
	waits, _, err := a.Spooled(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"nod_a": 5}, waits)
	change(`INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision, expelled_at) VALUES ('nod_a', 1, 1, 1, 1, 1)`)
	named := map[string]int64{"nod_a": 5}
	is(a, true, named)
	p.ran += 33*time.Second + 1
	is(a, false, named)
	require.NoError(t, a.removeGone(t.Context()))
	third, _ := p.mustStart(t)
	third.shared = newShared(&third.cfg)
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

// TestSpooledByTurns: a node that asks one process and then another is known by its last
// word, though it said the same to the first before.
func TestSpooledByTurns(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	is := func(n int64) {
		t.Helper()
		live, _, err := a.Spooled(t.Context())
		require.NoError(t, err)
		require.Equal(t, n, live["nod_a"])
	}
	for _, said := range []int64{0, 7} {
		require.NoError(t, a.Polled(t.Context(), "nod_a", 1, said))
		require.NoError(t, b.Polled(t.Context(), "nod_a", 1, 7-said))
		if said == 0 {
			is(7) // Follow looks as well
		}
		require.NoError(t, a.Polled(t.Context(), "nod_a", 1, said))
		is(said)
	}
}
