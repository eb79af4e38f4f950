package store

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
)

// queueing runs changes that wait for one that is under way, and notes their order.
type queueing struct {
	*DB
	t     *testing.T
	end   chan struct{}
	ended sync.WaitGroup
	order []string // owned by the change that runs
}

func newQueueing(t *testing.T) *queueing {
	q := &queueing{DB: mustOpen(t, t.TempDir()), t: t, end: make(chan struct{})}
	begun := make(chan struct{})
	q.ended.Go(func() {
		_ = q.Change(t.Context(), func(*Tx) error { close(begun); <-q.end; return nil })
	})
	<-begun
	return q
}

// wait has an owner's change or stop wait.
func (q *queueing) wait(owner string, record func(context.Context, func(*Tx) error) error) {
	before := q.WaitingChanges()
	q.ended.Go(func() {
		err := record(QueueAs(q.t.Context(), owner, false), func(*Tx) error { q.order = append(q.order, owner); return nil })
		if err != nil {
			q.t.Error(err)
		}
	})
	waittest.Until(q.t, func() bool { return q.WaitingChanges() == before+1 })
}

// run lets all run, and returns their order.
func (q *queueing) run() []string {
	close(q.end)
	q.ended.Wait()
	require.Zero(q.t, q.WaitingChanges())
	require.Empty(q.t, q.queue.changes.of)
	return q.order
}

// TestTenantsTakeTurns: a burst of one tenant delays one change of another by one of its own, and a first stop by none. Stops
// of the sandbox are changes like its others, and all of its tenants have one turn.
func TestTenantsTakeTurns(t *testing.T) {
	q := newQueueing(t)
	for range 200 {
		q.wait("tnt_a", q.Change)
	}
	for range 50 {
		q.wait(SandboxOwner, q.Stop)
	}
	q.wait("tnt_b", q.Change)
	q.wait("tnt_c", q.Change)
	q.wait("tnt_b", q.Change)
	q.wait("tnt_a", q.Stop)
	q.wait("tnt_a", q.Stop)
	q.wait("tnt_b", q.Stop)
	order := q.run()
	require.Equal(t, []string{"tnt_a", "tnt_b", "tnt_a", "tnt_a"}, order[:4], "the stops, with a change behind the first round")
	require.Equal(t, []string{SandboxOwner, "tnt_b", "tnt_c", "tnt_a", SandboxOwner, "tnt_b", "tnt_a", SandboxOwner, "tnt_a"}, order[4:13])
	require.Len(t, order, 256)
}

// TestRequestThatIsAStop: what it does before its stop, such as to claim an Idempotency-Key, goes first, too.
func TestRequestThatIsAStop(t *testing.T) {
	q := newQueueing(t)
	for range 3 {
		q.wait("tnt_a", q.Change)
	}
	q.wait("stop", func(ctx context.Context, do func(*Tx) error) error { return q.Change(QueueAs(ctx, "tnt_a", true), do) })
	require.Equal(t, []string{"stop", "tnt_a", "tnt_a", "tnt_a"}, q.run())
}

// TestWhoGivesUp leaves the queue, and the others are served.
func TestWhoGivesUp(t *testing.T) {
	q := newQueueing(t)
	ctx, give := context.WithCancel(t.Context())
	gone := make(chan error, 3)
	q.wait("tnt_a", q.Change)
	for i, owner := range []string{"tnt_a", "tnt_b", "tnt_b"} {
		go func() { gone <- q.Change(QueueAs(ctx, owner, false), func(*Tx) error { panic("it has given up") }) }()
		waittest.Until(t, func() bool { return q.WaitingChanges() == i+2 })
	}
	q.wait("tnt_c", q.Change)
	give()
	for range 3 {
		require.ErrorIs(t, <-gone, context.Canceled)
	}
	require.Equal(t, []string{"tnt_a", "tnt_c"}, q.run())
	require.NoError(t, q.Change(t.Context(), func(*Tx) error { return nil }))
}

// TestWhoGivesUpAtItsTurn passes the turn on.
func TestWhoGivesUpAtItsTurn(t *testing.T) {
	var db DB
	q := &db.queue
	for range 100 {
		leave, err := q.enter(t.Context(), false)
		require.NoError(t, err)
		ctx, give := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		for _, ctx := range []context.Context{ctx, t.Context()} {
			ended.Go(func() {
				if leave, err := q.enter(ctx, false); err == nil {
					leave()
				}
			})
		}
		waittest.Until(t, func() bool { return db.WaitingChanges() == 2 })
		ended.Go(leave)
		ended.Go(give)
		ended.Wait()
		require.False(t, q.running)
	}
}

// TestEndlessStops: whoever stops without an end delays each change of others by one stop, and a stop of others by
// one of its own and one change.
func TestEndlessStops(t *testing.T) {
	q := newQueueing(t)
	left := 100
	var stop func()
	stop = func() {
		q.wait("stop", func(_ context.Context, note func(*Tx) error) error {
			return q.Stop(QueueAs(t.Context(), "tnt_a", false), func(tx *Tx) error {
				if left--; left > 0 {
					stop() // the next one waits before this one has ended
				}
				return note(tx)
			})
		})
	}
	stop()
	q.wait("tnt_b", q.Change)
	q.wait("", q.Change)
	q.wait("tnt_b", q.Change)
	q.wait("tnt_b", q.Stop)
	order := q.run()
	require.Equal(t, []string{"stop", "tnt_b", "tnt_b", "stop", "", "stop", "tnt_b", "stop", "stop"}, order[:9])
	require.Len(t, order, 104)
}

// TestStopBreaksOffALongChange: a stop doesn't wait for the end of a long change, which is made behind it, once and as a whole.
// Stops that keep coming don't keep it from being made.
func TestStopBreaksOffALongChange(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	write := func(tx *Tx, kind string) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO feed (kind, id, revision, stopped, snapshot) VALUES ($1, 'x', 0, 0, '')`, kind)
		return err
	}
	begun, runs := make(chan struct{}), 0
	ended := make(chan error, 1)
	go func() {
		ended <- db.LongChange(t.Context(), func(tx *Tx) error {
			err := write(tx, "long")
			if runs++; runs > 1 || err != nil {
				return err
			}
			close(begun)
			for err == nil { // until it is broken off
				_, err = tx.ExecContext(t.Context(), `UPDATE feed SET revision = 1 WHERE kind = 'long'`)
			}
			return err
		})
	}()
	<-begun
	require.NoError(t, db.StopUnconfirmed(t.Context(), func(tx *Tx) error {
		found, err := One(t.Context(), tx, "what is left of a change that was broken off", Text, `SELECT kind FROM feed WHERE kind = 'long'`)
		require.Nil(t, found)
		return errors.Join(err, write(tx, "stop"))
	}))
	require.NoError(t, <-ended)
	require.Equal(t, 2, runs)
	kinds, err := List(t.Context(), db.Read(), "what was written", Text, `SELECT kind FROM feed WHERE id = 'x' AND revision = 0 ORDER BY kind`)
	require.NoError(t, err)
	require.Equal(t, []string{"long", "stop"}, kinds)

	refused := errors.New("refused")
	require.ErrorIs(t, db.LongChange(t.Context(), func(*Tx) error { return refused }), refused)
	gone, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, db.LongChange(gone, func(*Tx) error { cancel(); return nil }), context.Canceled)
	db.cfg.stopsFirstFor = -1
	require.NoError(t, db.LongChange(t.Context(), func(*Tx) error {
		db.queue.mu.Lock()
		defer db.queue.mu.Unlock()
		require.Nil(t, db.queue.yield, "stops wait for it now")
		return nil
	}))
}
