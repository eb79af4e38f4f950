package segment

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

func TestRetainWholeSegments(t *testing.T) {
	ctx := context.Background()
	now := time.UnixMilli(1_800_000_000_000)
	fs := newMemFS()
	cfg := Config{Dir: "log", SegmentBytes: 4 << 10, FS: fs, Now: func() time.Time { return now }}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 20, 500)
	young := now.Add(time.Hour)
	now = young
	appendN(t, log, 20, 40, 500)
	all := readAll(t, log)
	end := log.end
	segments := len(fs.segments())

	// Neither what is not old enough goes, nor what is still needed.
	for _, keep := range []struct {
		before sealer.Position
		until  time.Time
	}{
		{all[0].Position, farFuture},
		{end, young.Add(-time.Hour)},
		{end, time.Time{}},
	} {
		removed, err := log.Retain(keep.before, keep.until)
		require.NoError(t, err)
		require.Zero(t, removed)
	}
	require.Equal(t, all, readAll(t, log))

	byAge, err := log.Retain(end, young)
	require.NoError(t, err)
	require.Positive(t, byAge)
	left := readAll(t, log)
	require.Equal(t, all[len(all)-len(left):], left)
	require.LessOrEqual(t, left[0].Offset, int64(20))
	require.Greater(t, left[0].Offset, int64(20-8), "all but the segment that is partly young")

	byPosition, err := log.Retain(all[30].Position, farFuture)
	require.NoError(t, err)
	require.Positive(t, byPosition)
	left = readAll(t, log)
	require.LessOrEqual(t, left[0].Offset, int64(30))
	require.Len(t, fs.segments(), segments-byAge-byPosition)

	gone := all[left[0].Offset-1].Position
	_, err = log.Read(ctx, gone)
	require.ErrorIs(t, err, pipeline.ErrGone)
	require.ErrorIs(t, log.Scan(ctx, gone, end, nil), pipeline.ErrGone)
	require.ErrorIs(t, log.Wait(ctx, gone), pipeline.ErrGone)

	// The one that is appended to stays, and so do the positions.
	_, err = log.Retain(end, farFuture)
	require.NoError(t, err)
	require.Len(t, fs.segments(), 1)
	require.NoError(t, log.Close())
	cfg.FS = fs.crash(newRand(), 0)
	log = mustOpen(t, cfg)
	require.Equal(t, end, log.end)
	appendN(t, log, 40, 45, 500)
}

// TestRetainUnderAScan removes the segment that a scan is reading, and the ones
// that it would have come to.
func TestRetainUnderAScan(t *testing.T) {
	log := mustOpen(t, Config{Dir: t.TempDir(), SegmentBytes: 512 << 10})
	appendN(t, log, 0, 100, 20_000)
	end := log.end
	next := int64(0)
	err := log.Scan(context.Background(), sealer.Position{Generation: 1}, end, func(e sealer.Entry) error {
		require.Equal(t, next, e.Offset)
		if next++; next == 5 {
			removed, err := log.Retain(end, farFuture)
			require.NoError(t, err)
			require.Positive(t, removed)
		}
		return nil
	})
	require.ErrorIs(t, err, pipeline.ErrGone)
	require.GreaterOrEqual(t, next, int64(5))
	readAll(t, log)
}

func TestRetainReportsWhatItCouldNotRemove(t *testing.T) {
	fs := newMemFS()
	cfg := Config{Dir: "log", SegmentBytes: 4 << 10, FS: fs}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 40, 500)
	fs.before = func(op, _ string) error {
		if op == "remove" {
			return context.DeadlineExceeded
		}
		return nil
	}
	removed, err := log.Retain(log.end, farFuture)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, removed)
	fs.before = nil
	require.NoError(t, log.Close())
	require.Len(t, readAll(t, mustOpen(t, cfg)), 40)

	_, err = log.Retain(log.end, farFuture)
	require.ErrorIs(t, err, pipeline.ErrClosed)
}

// TestRetainSurvivesACrash crashes at every step of a removal: the log must never
// have a hole.
func TestRetainSurvivesACrash(t *testing.T) {
	for _, keep := range []float64{0, 0.5, 1} {
		rng := newRand()
		fs := newMemFS()
		cfg := Config{Dir: "log", SegmentBytes: 4 << 10, FS: fs, Indexed: true}
		log := mustOpen(t, cfg)
		appendN(t, log, 0, 40, 500)
		var images []*memFS
		fs.before = func(op, _ string) error {
			images = append(images, fs.crash(rng, keep))
			return nil
		}
		removed, err := log.Retain(log.end, farFuture)
		require.NoError(t, err)
		require.Greater(t, removed, 3)
		require.Len(t, images, 3*removed)
		fs.before = nil
		for _, image := range images {
			cfg.FS = image
			left := readAll(t, mustOpen(t, cfg))
			require.Equal(t, int64(39), left[len(left)-1].Offset)
		}
	}
}
