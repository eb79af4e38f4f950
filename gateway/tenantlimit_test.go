package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
)

func newTenantLimits() *tenantLimits {
	return &tenantLimits{cap: 10, interval: time.Millisecond, longest: time.Second}
}

// press makes a tenant hold its cap and be refused once.
func press(t *testing.T, s *tenantLimits, tenant string, at time.Time) *tenantLimit {
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

func TestATenantAboveItsBoundIsDelayed(t *testing.T) {
	s, at := newTenantLimits(), today
	greedy, good := press(t, s, "greedy", at), s.of("good")

	greedy.leave()
	delay, ok := s.enter(greedy, at.Add(200*time.Millisecond))
	require.True(t, ok)
	require.Zero(t, delay, "alone on the node it does not wait")

	delay, ok = s.enter(good, at.Add(300*time.Millisecond))
	require.True(t, ok)
	require.Zero(t, delay, "within its bound it never waits")
	good.leave()

	// Beside another one: as many deliveries as are free.
	for inHand := int64(1); inHand <= s.cap; inHand++ {
		greedy.inHand.Store(inHand - 1)
		delay, ok = s.enter(greedy, at.Add(399*time.Millisecond))
		require.True(t, ok)
		require.GreaterOrEqual(t, delay, time.Duration(inHand)*s.interval/2)
		require.Less(t, delay, time.Duration(inHand)*s.interval*3/2)
	}
	greedy.leave()
	delay, _ = s.enter(greedy, at.Add(400*time.Millisecond))
	require.Zero(t, delay, "the other one has been quiet since")

	// A second without a refusal, and it is as good as any other.
	_, _ = s.enter(good, at.Add(999*time.Millisecond))
	greedy.leave()
	delay, _ = s.enter(greedy, at.Add(999*time.Millisecond))
	require.NotZero(t, delay)
	greedy.leave()
	delay, _ = s.enter(greedy, at.Add(time.Second))
	require.Zero(t, delay)
}

func TestTwoTenantsAboveTheirBoundsAreNotDelayed(t *testing.T) {
	s := newTenantLimits()
	s.interval = time.Hour
	for i := range 2 {
		of := press(t, s, fmt.Sprint(i), today.Add(time.Duration(i)*othersActive))
		of.leave()
		delay, ok := s.enter(of, today.Add(2*othersActive))
		require.True(t, ok)
		require.Zero(t, delay)
	}
}

func TestNoDelayIsLongerThanThePause(t *testing.T) {
	s := newTenantLimits()
	s.interval = time.Hour
	greedy := press(t, s, "greedy", today)
	_, _ = s.enter(s.of("good"), today)
	greedy.leave()
	delay, ok := s.enter(greedy, today)
	require.True(t, ok)
	require.NotZero(t, delay)
	require.Less(t, delay, 2*s.longest)
}

// TestAClockSetBackDelaysNothing: what lies ahead was never a moment ago.
func TestAClockSetBackDelaysNothing(t *testing.T) {
	s := newTenantLimits()
	greedy := press(t, s, "greedy", today)
	_, _ = s.enter(s.of("good"), today)
	greedy.leave()
	delay, ok := s.enter(greedy, today.Add(-time.Hour))
	require.True(t, ok)
	require.Zero(t, delay)
}

// TestDelaysOverHTTP: the greedy tenant's delivery waits, for so long that only the end
// of the node answers it; the other tenant's doesn't.
func TestDelaysOverHTTP(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.MaxTenantInFlight, c.BusyInterval, c.BusyPause = 1, time.Hour, time.Hour })
	own := request(w.otherToken, fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1}`, w.foreign))
	release := w.log.Halt()
	defer release()
	replies := make(chan reply, 3)
	go func() { replies <- w.post(w.body()) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 1 })
	go func() { replies <- w.post(w.body()) }()
	waittest.Until(t, func() bool { return w.gateway.heldBack.Load() == 1 })
	release()
	require.Equal(t, 200, (<-replies).status)

	require.Equal(t, 200, w.raw(own).status)
	go func() { replies <- w.post(w.body()) }()
	waittest.Until(t, func() bool { return testutil.ToFloat64(w.gateway.metrics.delayed) == 1 })
	require.Equal(t, 200, w.raw(own).status)
	require.Empty(t, replies)

	w.stop()
	for range 2 {
		require.Contains(t, []int{200, 429, 503}, (<-replies).status)
	}
}
