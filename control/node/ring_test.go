package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// turntable is a ring with one key, open from its clock's start on.
func turntable(t *testing.T) (g *ring, clock *time.Time, first *held) {
	now := time.Date(2026, 11, 21, 4, 0, 0, 1500_000, time.UTC)
	g = &ring{role: role{sealer.PurposeReceipt, "nod_a"}, now: func() time.Time { return now }}
	first = added(t, g, now)
	g.keys = []*held{first}
	return g, &now, first
}

func added(t *testing.T, g *ring, from time.Time) *held {
	key, err := makeKey(t.TempDir(), g.role)
	require.NoError(t, err)
	return g.hold(key, &signingKey{Key: sealer.NewKey(key.Pub, g.role.purpose, from)})
}

func TestWindowsMeetInOneMillisecond(t *testing.T) {
	g, clock, first := turntable(t)
	*clock = clock.Add(time.Hour)
	k, err := g.lend(t.Context(), *clock)
	require.NoError(t, err)
	require.Same(t, first, k)
	k.done()

	at := g.handover(time.Time{}, 0)
	require.Equal(t, clock.Truncate(time.Millisecond).Add(time.Millisecond), at)
	second := added(t, g, at)
	g.take(second)
	for moment, want := range map[time.Time]*held{
		first.from: first, at.Add(-1): first, at: second, at.Add(time.Hour): second,
	} {
		k, err := g.lend(t.Context(), moment)
		require.NoError(t, err)
		require.Same(t, want, k, moment)
		k.done()
	}
	_, err = g.lend(t.Context(), first.from.Add(-1))
	require.ErrorContains(t, err, "there is no key for receipt_signing of nod_a at 2026-11-21T04:00:00.001Z")
	g.drop(first)
	_, err = g.lend(t.Context(), at.Add(-1))
	require.Error(t, err)
}

// TestHandoverComesAfterEveryLoan steps the clock back before a handover.
func TestHandoverComesAfterEveryLoan(t *testing.T) {
	g, clock, first := turntable(t)
	late := clock.Add(time.Minute)
	k, err := g.lend(t.Context(), late)
	require.NoError(t, err)
	k.done()
	at := g.handover(time.Time{}, 0)
	require.True(t, at.After(late))
	require.Equal(t, at, first.until)
	g.undo()
	require.Zero(t, first.until, "as if it had never begun")
}

func TestOverlapNeverLengthensAWindow(t *testing.T) {
	g, clock, first := turntable(t)
	first.until = clock.Add(time.Second)
	g.handover(time.Time{}, time.Minute)
	require.Equal(t, clock.Add(time.Second), first.until)
	g.undo()
	require.Equal(t, clock.Add(time.Second), first.until)
	at := g.handover(time.Time{}, 500*time.Millisecond)
	require.Equal(t, at.Add(500*time.Millisecond), first.until)
}

// TestLoansWaitForAHandover follows who asks while the next key is being written.
func TestLoansWaitForAHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, clock, first := turntable(t)
		at := g.handover(time.Time{}, 0)
		k, err := g.lend(t.Context(), *clock)
		require.NoError(t, err, "the old window is open to its end")
		require.Same(t, first, k)
		k.done()

		got := make(chan *held)
		go func() {
			k, err := g.lend(t.Context(), at)
			require.NoError(t, err)
			got <- k
		}()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = g.lend(impatient, at)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		second := added(t, g, at)
		g.take(second)
		require.Same(t, second, <-got)

		g.handover(time.Time{}, 0)
		failed := make(chan error)
		go func() {
			_, err := g.lend(t.Context(), at.Add(time.Hour))
			failed <- err
		}()
		synctest.Wait()
		g.take(nil)
		require.ErrorContains(t, <-failed, "there is no key", "nobody signs after a handover that led nowhere")
	})
}

func TestDrainWaitsForLoansAndStragglers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, clock, first := turntable(t)
		k, err := g.lend(t.Context(), *clock)
		require.NoError(t, err)
		at := g.handover(time.Time{}, 0)
		g.take(added(t, g, at))

		began := time.Now()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.drain(impatient, first), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))

		drained := make(chan error)
		go func() { drained <- g.drain(t.Context(), first) }()
		synctest.Wait()
		k.done()
		require.NoError(t, <-drained)

		began = time.Now()
		require.NoError(t, g.drain(t.Context(), first))
		require.Equal(t, at.Sub(*clock)+straggling, time.Since(began), "who has read the clock may still ask")
		again, err := g.lend(t.Context(), *clock)
		require.NoError(t, err)
		again.done()
	})
}
