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

	"muniment.example/pipeline"
	"muniment.example/sealer"
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
		require.Zero(t, first(), "what is loaded is unknown")
		answer(20, nil)
		pass(time.Minute)
		require.Greater(t, first(), int64(20-8))
		require.LessOrEqual(t, first(), int64(20), "what is not loaded stays, however old")
		answer(80, nil)
		pass(time.Minute)
		require.Greater(t, first(), int64(40-8))
		require.LessOrEqual(t, first(), int64(40), "what is young stays, though it is loaded")
		pass(4 * 24 * time.Hour)
		require.Equal(t, int64(80), first(), "nothing that is old stays, however little is appended")

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

// TestSegmentsEnd in their time: what is appended once in a while shares one file for no longer,
// whether the log was opened anew meanwhile or not, and no record is lost on the way.
func TestSegmentsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Dir: "log", FS: newMemFS(), SegmentBytes: 1 << 16}
		log := mustOpen(t, cfg)
		const keep = 48 * time.Hour
		loaded := func(ctx context.Context) (sealer.Position, bool, error) {
			_, end, err := log.Bounds(ctx, 0)
			return end, true, err
		}
		run := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- Retention{Log: log, Keep: keep, Loaded: loaded}.Run(ctx) }()
			return func() {
				cancel()
				require.NoError(t, <-done)
			}
		}
		stop := run()
		var written []time.Time
		for i := range 300 {
			appendN(t, log, i, i+1, 100)
			written = append(written, time.Now())
			if i%70 == 69 {
				stop()
				require.NoError(t, log.Close())
				log = mustOpen(t, cfg)
				stop = run()
			}
			time.Sleep(37 * time.Minute)
			synctest.Wait()
			first, _, err := log.Bounds(t.Context(), 0)
			require.NoError(t, err)
			if first.Offset <= int64(i) {
				require.LessOrEqual(t, time.Since(written[first.Offset]), Kept(keep)+2*time.Minute, "record %d", first.Offset)
			}
			if first.Offset > 0 {
				require.Greater(t, time.Since(written[first.Offset-1]), keep, "record %d", first.Offset-1)
			}
		}
		time.Sleep(Kept(keep))
		synctest.Wait()
		first, end, err := log.Bounds(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, end, first)
		require.Equal(t, int64(300), end.Offset)
		stop()
		require.NoError(t, log.Close())
	})
}
