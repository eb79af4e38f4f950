package segment

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/sealer"
)

// TestRetentionKeepsWhatIsYoungOrNotLoaded lets days pass over a log: what is
// removed is old and loaded, whatever the warehouse does.
func TestRetentionKeepsWhatIsYoungOrNotLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := mustOpen(t, Config{Dir: "log", SegmentBytes: 4 << 10, FS: newMemFS()})
		var warehouse sync.Mutex // guards what it would answer
		loaded, known := sealer.Position{Generation: 1}, false
		var fault error
		answer := func(next int64, err error) {
			warehouse.Lock()
			defer warehouse.Unlock()
			loaded.Offset, known, fault = next, true, err
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- Retention{
				Log: log, Keep: 7 * 24 * time.Hour,
				Loaded: func(context.Context) (sealer.Position, bool, error) {
					warehouse.Lock()
					defer warehouse.Unlock()
					return loaded, known, fault
				},
			}.Run(ctx)
		}()
		first := func() int64 {
			at, _, err := log.Bounds(t.Context(), 0)
			require.NoError(t, err)
			return at.Offset
		}
		pass := func(d time.Duration) {
			time.Sleep(d) // of the bubble's clock
			synctest.Wait()
		}
		appendN(t, log, 0, 40, 500)
		pass(4 * 24 * time.Hour)
		appendN(t, log, 40, 80, 500)

		pass(4 * 24 * time.Hour)
		require.Zero(t, first(), "nothing is loaded")
		answer(20, errors.New("the warehouse is away"))
		pass(time.Minute)
		require.Zero(t, first(), "nobody can tell what is loaded")
		answer(20, nil)
		pass(time.Minute)
		require.Greater(t, first(), int64(20-8))
		require.LessOrEqual(t, first(), int64(20), "what is not loaded stays, however old")
		answer(80, nil)
		pass(time.Minute)
		require.Greater(t, first(), int64(40-8))
		require.LessOrEqual(t, first(), int64(40), "what is young stays, though it is loaded")
		pass(4 * 24 * time.Hour)
		require.Greater(t, first(), int64(80-8))
		require.Less(t, first(), int64(80), "the last segment stays")

		require.Positive(t, testutil.ToFloat64(log.metrics.removed))
		require.Equal(t, float64(first()), testutil.ToFloat64(log.metrics.first))
		stop()
		require.NoError(t, <-done)
		require.NoError(t, log.Close())
	})
}

func TestRetentionNamesTheBadField(t *testing.T) {
	loaded := func(context.Context) (sealer.Position, bool, error) { return sealer.Position{}, false, nil }
	require.ErrorContains(t, Retention{Loaded: loaded, Keep: LeastKeep}.Run(t.Context()), "Log")
	log := mustOpen(t, Config{Dir: t.TempDir()})
	require.ErrorContains(t, Retention{Log: log, Keep: LeastKeep}.Run(t.Context()), "Loaded")
	err := Retention{Log: log, Loaded: loaded, Keep: 24 * time.Hour}.Run(t.Context())
	require.ErrorContains(t, err, "Keep 24h0m0s is below 25h0m0s")

	// Of a log that is closed it says so once a look, and goes on.
	require.NoError(t, log.Close())
	_, err = (&Retention{Log: log, Now: time.Now, Loaded: func(context.Context) (sealer.Position, bool, error) {
		return sealer.Position{Generation: 1}, true, nil
	}}).once(t.Context())
	require.ErrorIs(t, err, pipeline.ErrClosed)
}
