package signing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/keydir"
)

// newTestRing makes a ring with one key, whose window is open from the clock's start on.
func newTestRing(t *testing.T) (g *ring, clock *time.Time, first *held) {
	now := time.Date(2026, 11, 21, 4, 0, 0, 1500_000, time.UTC)
	g = &ring{role: directoryRole, now: func() time.Time { return now }}
	first = added(t, g, now)
	g.keys = []*held{first}
	return g, &now, first
}

func added(t *testing.T, g *ring, from time.Time) *held {
	key, err := makeKey(t.TempDir(), g.role)
	require.NoError(t, err)
	return g.hold(key, &Key{Key: keydir.NewKey(key.Pub, g.role.purpose, from)})
}

func TestWindowsMeetInOneMillisecond(t *testing.T) {
	g, clock, first := newTestRing(t)
	*clock = clock.Add(time.Hour)
	k, err := g.pick(*clock)
	require.NoError(t, err)
	require.Same(t, first, k)

	at := g.handover(time.Time{}, 0)
	require.Equal(t, clock.Truncate(time.Millisecond).Add(time.Millisecond), at)
	_, err = g.pick(at)
	require.Error(t, err, "no key signs after a handover without a next key")
	second := added(t, g, at)
	g.add(second)
	for moment, want := range map[time.Time]*held{
		first.from: first, at.Add(-1): first, at: second, at.Add(time.Hour): second,
	} {
		k, err := g.pick(moment)
		require.NoError(t, err)
		require.Same(t, want, k, moment)
	}
	_, err = g.pick(first.from.Add(-1))
	require.ErrorContains(t, err, "there is no key for directory_signing of control at 2026-11-21T04:00:00.001Z")
	g.drop(first)
	_, err = g.pick(at.Add(-1))
	require.Error(t, err)
}

// TestHandoverComesAfterAllThatWasSigned steps the clock back before a handover.
func TestHandoverComesAfterAllThatWasSigned(t *testing.T) {
	g, clock, first := newTestRing(t)
	late := clock.Add(time.Minute)
	_, err := g.pick(late)
	require.NoError(t, err)
	at := g.handover(time.Time{}, 0)
	require.True(t, at.After(late))
	require.Equal(t, at, first.until)
	g.undo()
	require.Zero(t, first.until, "as if it had never begun")
}

func TestOverlapNeverLengthensAWindow(t *testing.T) {
	g, clock, first := newTestRing(t)
	first.until = clock.Add(time.Second)
	g.handover(time.Time{}, time.Minute)
	require.Equal(t, clock.Add(time.Second), first.until)
	g.undo()
	require.Equal(t, clock.Add(time.Second), first.until)
	at := g.handover(time.Time{}, 500*time.Millisecond)
	require.Equal(t, at.Add(500*time.Millisecond), first.until)
}
