package segment

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// TestLazyLogSyncsNothing fails every sync: none is called.
func TestLazyLogSyncsNothing(t *testing.T) {
	fs := newMemFS()
	fs.before = func(op, _ string) error {
		if slices.Contains([]string{"sync", "datasync", "syncdir"}, op) {
			return errors.New("a lazy log syncs")
		}
		return nil
	}
	cfg := Config{Dir: "log", SegmentBytes: 4 << 10, FS: fs, Lazy: true}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 40, 500)
	all := readAll(t, log)
	_, err := log.Retain(all[20].Position, farFuture)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	require.Equal(t, all[len(all)-1].Next(), mustOpen(t, cfg).end)
}

// TestLazyLogIsNotChained goes on lazily in a log that was chained so far: the file that
// was begun stays so, the ones behind it are not, and all can be read.
func TestLazyLogIsNotChained(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SegmentBytes: 4 << 10}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 10, 500)
	require.NoError(t, log.Close())
	cfg.Lazy = true
	for from := 10; from < 50; from += 20 {
		log = mustOpen(t, cfg)
		appendN(t, log, from, from+20, 500)
		all := readAll(t, log)
		require.Len(t, all, from+20)
		require.NoError(t, log.Close())
		payloads, _, err := strangersReader(cfg.Dir)
		require.NoError(t, err)
		require.Len(t, payloads, len(all))
	}
	require.Equal(t, digest{}, log.chain)
}

// TestLazyLogAfterAPowerCut loses any part of what was written: the log opens all
// the same, and what it still holds was written.
func TestLazyLogAfterAPowerCut(t *testing.T) {
	fs := newMemFS()
	log := mustOpen(t, Config{Dir: "log", SegmentBytes: 4 << 10, FS: fs, Lazy: true})
	appendN(t, log, 0, 60, 500)
	written := map[string]sealer.Entry{}
	for _, e := range readAll(t, log) {
		written[e.EventID] = e
	}
	rng := newRand()
	kept, begunAnew := 0, 0
	for range 300 {
		left := fs.crash(rng, []float64{0, .5, .9, .999, 1}[rng.IntN(5)])
		held := len(left.segments())
		cfg := Config{Dir: "log", SegmentBytes: 4 << 10, FS: left, Lazy: true}
		again := mustOpen(t, cfg)
		entries := readAll(t, again)
		for _, e := range entries {
			require.Equal(t, written[e.EventID], e)
		}
		kept += len(entries)
		if held > 0 && len(entries) == 0 {
			begunAnew++
		}
		_, err := again.Append(context.Background(), record(100, 500))
		require.NoError(t, err)
		require.Len(t, readAll(t, again), len(entries)+1)
		require.NoError(t, again.Close())
	}
	require.Positive(t, kept)
	require.Positive(t, begunAnew)
}

// TestShedMakesRoom fills a log up to its bound and frees one segment at a time.
func TestShedMakesRoom(t *testing.T) {
	fs := newMemFS()
	log := mustOpen(t, Config{Dir: "log", SegmentBytes: 4 << 10, MaxBytes: 12 << 10, FS: fs})
	var err error
	for n := 0; err == nil; n++ {
		_, err = log.Append(context.Background(), record(n, 500))
	}
	require.ErrorIs(t, err, pipeline.ErrFull)
	all := readAll(t, log)
	removed, err := log.RemoveOldest()
	require.NoError(t, err)
	require.True(t, removed)
	left := readAll(t, log)
	require.Equal(t, all[len(all)-len(left):], left)
	require.Len(t, fs.segments(), 2)
	_, err = log.Read(context.Background(), all[0].Position)
	require.ErrorIs(t, err, pipeline.ErrGone)
	_, err = log.Append(context.Background(), record(100, 500))
	require.NoError(t, err)

	for removed {
		removed, err = log.RemoveOldest()
		require.NoError(t, err)
	}
	require.Len(t, fs.segments(), 1, "the one that is appended to stays")
}
