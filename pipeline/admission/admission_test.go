package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// simulated is a service in a bubble of its own time: what loads gets what deliveries
// leave of one processor.
type simulated struct {
	*Admission
	loaded, end atomic.Int64
	stopped     atomic.Bool
}

const (
	simulatedDelivery = 60 * time.Microsecond
	simulatedRow      = 40 * time.Microsecond
	simulatedBatch    = 5000
)

// simulate runs the loader, over a backlog, until the test is over.
func simulate(t *testing.T, behind int64) *simulated {
	s := &simulated{}
	s.end.Store(behind)
	var err error
	s.Admission, err = New(prometheus.NewRegistry(), func(context.Context) (loaded, end int64, ok bool) {
		return s.loaded.Load(), s.end.Load(), true
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() { _ = s.Run(ctx) })
	running.Go(func() {
		seen := s.end.Load()
		var owed, mine time.Duration // to deliveries, and what the loader has got
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			end := s.end.Load()
			owed = min(owed+time.Duration(end-seen)*simulatedDelivery, 50*time.Millisecond)
			seen = end
			busy := min(owed, time.Millisecond*2/3) // deliveries come first, but not always
			owed -= busy
			mine = min(mine+time.Millisecond-busy, simulatedBatch*simulatedRow)
			if batch := min(int64(simulatedBatch), end-s.loaded.Load()); !s.stopped.Load() && batch > 0 && mine >= time.Duration(batch)*simulatedRow {
				mine = 0
				s.loaded.Add(batch)
			}
		}
	})
	return s
}

// deliver has some callers deliver one after the other, each pausing between two, and
// returns how many were answered and the longest that one waited.
func (s *simulated) deliver(ctx context.Context, callers int, pause, during time.Duration) (answered int64, longest time.Duration) {
	var count, most atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < during && ctx.Err() == nil {
				sent := time.Now()
				s.Admit(ctx, 1)
				if waited := int64(time.Since(sent)); waited > most.Load() {
					most.Store(waited)
				}
				s.end.Add(1)
				count.Add(1)
				time.Sleep(pause)
			}
		})
	}
	all.Wait()
	return count.Load(), time.Duration(most.Load())
}

func (s *simulated) behind() int64 { return s.end.Load() - s.loaded.Load() }

// TestABacklogStopsGrowing: callers that would take all of the processor leave the loader
// what it needs to keep up with them.
func TestABacklogStopsGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, 0)
		answered, longest := s.deliver(t.Context(), 256, 15*time.Millisecond, 10*time.Second)
		require.Less(t, s.behind(), int64(2*backlog))
		require.Greater(t, answered, int64(10*8000), "more than a loader gets of a processor that deliveries fill")
		require.LessOrEqual(t, longest, longestDelay)
		require.Positive(t, testutil.ToFloat64(s.waits))
		require.Greater(t, testutil.ToFloat64(s.seconds), testutil.ToFloat64(s.waits)*1e-3)
	})
}

// TestModerateDeliveriesNeverWait, also while a long backlog is loaded.
func TestModerateDeliveriesNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, 3_000_000) // what an outage has left
		answered, longest := s.deliver(t.Context(), 20, 20*time.Millisecond, time.Minute)
		require.Greater(t, s.behind(), int64(backlog))
		require.Less(t, s.behind(), int64(2_500_000), "it is worked off")
		require.Greater(t, answered, int64(59_000))
		require.Zero(t, longest)
		require.Zero(t, testutil.ToFloat64(s.waits))
	})
}

// TestALoaderThatStandsDelaysNobody, however it came to that, and takes its share again once
// it goes on.
func TestALoaderThatStandsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, 0)
		s.deliver(t.Context(), 256, 15*time.Millisecond, 5*time.Second)
		require.Positive(t, testutil.ToFloat64(s.waits))
		s.stopped.Store(true)
		time.Sleep(window + 2*every)
		waits := testutil.ToFloat64(s.waits)
		_, longest := s.deliver(t.Context(), 256, 15*time.Millisecond, 5*time.Second)
		require.Zero(t, longest)
		require.Equal(t, waits, testutil.ToFloat64(s.waits))

		s.stopped.Store(false)
		s.deliver(t.Context(), 256, 15*time.Millisecond, 3*time.Second)
		before := s.behind()
		s.deliver(t.Context(), 256, 15*time.Millisecond, 10*time.Second)
		require.Less(t, s.behind(), before)
	})
}

// TestAdmissionOfMany is one wait for all of them, and delays no other caller longer than the
// most.
func TestAdmissionOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Admission{waits: prometheus.NewCounter(prometheus.CounterOpts{}), seconds: prometheus.NewCounter(prometheus.CounterOpts{})}
		a.interval.Store(int64(time.Millisecond))
		began := time.Now()
		a.Admit(t.Context(), 110)
		require.Zero(t, time.Since(began), "the first does not wait")
		a.Admit(t.Context(), 1)
		require.Equal(t, 100*time.Millisecond, time.Since(began), "the next one does, for all but the burst")
		a.Admit(t.Context(), 1_000_000)
		began = time.Now()
		a.Admit(t.Context(), 1)
		require.LessOrEqual(t, time.Since(began), longestDelay)
		require.Equal(t, 3., testutil.ToFloat64(a.waits))

		a.Admit(t.Context(), 1_000_000)
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		a.Admit(ctx, 1)
		require.Equal(t, time.Millisecond, time.Since(began))
	})
}

// TestASealLeavesProcessorsToDeliveries, as long as there are any.
func TestASealLeavesProcessorsToDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Admission{}
		require.True(t, a.Quiet())
		a.Admit(t.Context(), 1)
		require.False(t, a.Quiet())
		time.Sleep(time.Second + 1)
		require.True(t, a.Quiet())
	})
}
