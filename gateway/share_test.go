package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func newShares() *shares {
	return &shares{cap: 10, turn: time.Millisecond, longest: time.Second}
}

// press makes a tenant hold its cap and be refused once.
func press(t *testing.T, s *shares, tenant string, at time.Time) *share {
	t.Helper()
	of := s.of(tenant)
	for of.inHand.Load() < s.cap {
		_, ok := s.enter(of, at)
		require.True(t, ok)
	}
	_, ok := s.enter(of, at)
	require.False(t, ok)
	of.leave()
	return of
}

func TestATenantAboveItsBoundIsServedInTurn(t *testing.T) {
	s, at := newShares(), today
	greedy, good := press(t, s, "greedy", at), s.of("good")

	greedy.leave()
	turn, ok := s.enter(greedy, at.Add(200*time.Millisecond))
	require.True(t, ok)
	require.Zero(t, turn, "alone on the node it waits for nobody")

	turn, ok = s.enter(good, at.Add(300*time.Millisecond))
	require.True(t, ok)
	require.Zero(t, turn, "within its bound it never waits")
	good.leave()

	// Beside another one: as many turns as are in hand.
	for inHand := int64(1); inHand <= s.cap; inHand++ {
		greedy.inHand.Store(inHand - 1)
		turn, ok = s.enter(greedy, at.Add(399*time.Millisecond))
		require.True(t, ok)
		require.GreaterOrEqual(t, turn, time.Duration(inHand)*s.turn/2)
		require.Less(t, turn, time.Duration(inHand)*s.turn*3/2)
	}
	greedy.leave()
	turn, _ = s.enter(greedy, at.Add(400*time.Millisecond))
	require.Zero(t, turn, "the other one has been quiet since")

	// A second without a refusal, and it is as good as any other.
	_, _ = s.enter(good, at.Add(999*time.Millisecond))
	greedy.leave()
	turn, _ = s.enter(greedy, at.Add(999*time.Millisecond))
	require.NotZero(t, turn)
	greedy.leave()
	turn, _ = s.enter(greedy, at.Add(time.Second))
	require.Zero(t, turn)
}

func TestTwoTenantsAboveTheirBoundsWaitForNobody(t *testing.T) {
	s := newShares()
	s.turn = time.Hour
	for i := range 2 {
		of := press(t, s, fmt.Sprint(i), today.Add(time.Duration(i)*patient))
		of.leave()
		turn, ok := s.enter(of, today.Add(2*patient))
		require.True(t, ok)
		require.Zero(t, turn)
	}
}

func TestNoTurnIsLongerThanThePause(t *testing.T) {
	s := newShares()
	s.turn = time.Hour
	greedy := press(t, s, "greedy", today)
	_, _ = s.enter(s.of("good"), today)
	greedy.leave()
	turn, ok := s.enter(greedy, today)
	require.True(t, ok)
	require.NotZero(t, turn)
	require.Less(t, turn, 2*s.longest)
}

// TestAClockSetBackSlowsNobody: what lies ahead was never a moment ago.
func TestAClockSetBackSlowsNobody(t *testing.T) {
	s := newShares()
	greedy := press(t, s, "greedy", today)
	_, _ = s.enter(s.of("good"), today)
	greedy.leave()
	turn, ok := s.enter(greedy, today.Add(-time.Hour))
	require.True(t, ok)
	require.Zero(t, turn)
}

// TestTurnsOverHTTP: the greedy tenant's delivery waits, for so long that only the end
// of the node answers it; the other tenant's doesn't.
func TestTurnsOverHTTP(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.MaxTenantInFlight, c.BusyTurn, c.BusyPause = 1, time.Hour, time.Hour })
	own := request(w.otherToken, fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1}`, w.foreign))
	release := w.log.Halt()
	defer release()
	replies := make(chan reply, 3)
	go func() { replies <- w.post(w.body()) }()
	require.Eventually(t, func() bool { return w.log.Appending() == 1 }, time.Minute, time.Millisecond)
	go func() { replies <- w.post(w.body()) }()
	require.Eventually(t, func() bool { return w.gateway.heldBack.Load() == 1 }, time.Minute, time.Millisecond)
	release()
	require.Equal(t, 200, (<-replies).status)

	require.Equal(t, 200, w.raw(own).status)
	go func() { replies <- w.post(w.body()) }()
	require.Eventually(t, func() bool { return testutil.ToFloat64(w.gateway.metrics.turns) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, 200, w.raw(own).status)
	require.Empty(t, replies)

	w.stop()
	for range 2 {
		require.Contains(t, []int{200, 429, 503}, (<-replies).status)
	}
}
