package segment

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// TestCopyAtEveryLimit copies a log of groups of one to four records up to each of
// its positions. The copy ends with the last group that fits, holds what the log
// holds, and goes on as a log of its own.
func TestCopyAtEveryLimit(t *testing.T) {
	d := newDamagedLog(t, 8<<10, 60, false)
	log, err := d.open(d.fs, nil)
	require.NoError(t, err)
	defer log.Close()
	require.Greater(t, len(log.segs), 2)
	for n := 1; n <= len(d.records); n++ { // the first group is of one record
		limit := sealer.Position{Generation: 1, Offset: int64(n)}
		dir := filepath.Join(t.TempDir(), "copy")
		end, err := log.Copy(t.Context(), dir, limit, direct)
		require.NoError(t, err)
		require.LessOrEqual(t, end.Offset, limit.Offset)
		require.Greater(t, end.Offset+4, limit.Offset, "no more than one group is left out")

		copied := mustOpen(t, Config{Dir: dir, SegmentBytes: 8 << 10, AtLeast: &end})
		require.Equal(t, int(end.Offset), d.requirePrefix(t, copied))
		at, err := copied.Append(t.Context(), record(1, 10))
		require.NoError(t, err)
		require.Equal(t, end, at)
		// Both prove the same of what both hold, and of nothing else.
		for p := (sealer.Position{Generation: 1, Offset: 1}); p.Offset <= int64(len(d.records)); p = p.Next() {
			want, err := log.Chain(t.Context(), p)
			require.NoError(t, err)
			require.Len(t, want, 32)
			chain, err := copied.Chain(t.Context(), p)
			if p.Offset > end.Offset+1 {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				require.Equal(t, p.Compare(end) <= 0, bytes.Equal(want, chain), "at %s of a copy up to %s", p, end)
			}
		}
		_, err = copied.Chain(t.Context(), sealer.Position{Generation: 1})
		require.ErrorIs(t, err, pipeline.ErrGone)
		require.NoError(t, copied.Close())
	}
}

// TestCopyBesideAppendsAndRetention copies a log that grows and loses its oldest
// segments meanwhile.
func TestCopyBesideAppendsAndRetention(t *testing.T) {
	log := mustOpen(t, Config{Dir: t.TempDir(), SegmentBytes: 16 << 10})
	appendN(t, log, 0, 200, 500)
	reader, err := OpenReader(log.cfg.Dir)
	require.NoError(t, err)
	defer reader.Close()
	appendN(t, log, 200, 400, 500)
	removed, err := log.Retain(log.end, farFuture)
	require.NoError(t, err)
	require.Positive(t, removed)

	dir := filepath.Join(t.TempDir(), "copy")
	end, err := reader.Copy(t.Context(), dir, sealer.Position{Generation: 9}, direct)
	require.NoError(t, err)
	require.Equal(t, sealer.Position{Generation: 1, Offset: 200}, end)
	require.Len(t, readAll(t, mustOpen(t, Config{Dir: dir})), 200)
}

func TestCopyOfSeveralGenerations(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 10, 50)
	require.NoError(t, log.Close())
	cfg.Generation = 3
	log = mustOpen(t, cfg)
	appendN(t, log, 10, 20, 50)
	for limit, want := range map[sealer.Position]sealer.Position{
		{Generation: 1, Offset: 5}:  {Generation: 1, Offset: 5},
		{Generation: 1, Offset: 99}: {Generation: 1, Offset: 10},
		{Generation: 3, Offset: 10}: {Generation: 1, Offset: 10},
		{Generation: 3, Offset: 12}: {Generation: 3, Offset: 12},
		{Generation: 4}:             {Generation: 3, Offset: 20},
	} {
		end, err := log.Copy(t.Context(), filepath.Join(t.TempDir(), "copy"), limit, direct)
		require.NoError(t, err)
		require.Equal(t, want, end, "%s", limit)
	}
}

func TestCopyRefusesDamage(t *testing.T) {
	d := newDamagedLog(t, 8<<10, 60, false)
	log, err := d.open(d.fs, nil)
	require.NoError(t, err)
	defer log.Close()
	d.fs.flip(d.fs.segments()[1], 1000, 1)
	_, err = log.Copy(t.Context(), filepath.Join(t.TempDir(), "copy"), d.end, direct)
	require.ErrorIs(t, err, pipeline.ErrDamaged)
	requireNamed(t, err, d.fs.segments()[1])
}

// TestCopyReadsWhatTheIndexSpared flips bytes of finished segments, anywhere: who opens the
// log for reading spares itself those, and the copy is refused.
func TestCopyReadsWhatTheIndexSpared(t *testing.T) {
	log := mustOpen(t, Config{Dir: t.TempDir(), SegmentBytes: 4 * markEvery, Indexed: true})
	appendN(t, log, 0, 600, 500)
	segs := log.segs
	require.Greater(t, len(segs), 3)
	for _, at := range []int64{fileHeaderSize, segs[1].pos / 2, segs[1].pos - 1} {
		name := filepath.Join(log.cfg.Dir, segs[1].name())
		whole, err := os.ReadFile(name)
		require.NoError(t, err)
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1
		require.NoError(t, os.WriteFile(name, flipped, fileMode))
		reader, err := OpenReader(log.cfg.Dir)
		if at < segs[1].pos/2+1 {
			require.NoError(t, err)
			require.True(t, reader.segs[1].indexed)
			_, err = reader.Copy(t.Context(), filepath.Join(t.TempDir(), "copy"), log.end, direct)
			require.NoError(t, reader.Close())
		}
		require.ErrorIs(t, err, pipeline.ErrDamaged, "byte %d", at)
		requireNamed(t, err, segs[1].name())
		require.NoError(t, os.WriteFile(name, whole, fileMode))
	}
	reader, err := OpenReader(log.cfg.Dir)
	require.NoError(t, err)
	defer reader.Close()
	for _, s := range reader.segs[:len(reader.segs)-1] {
		require.True(t, s.indexed)
	}
	end, err := reader.Copy(t.Context(), filepath.Join(t.TempDir(), "copy"), log.end, direct)
	require.NoError(t, err)
	require.Equal(t, log.end, end)
}

func TestCopyStopsAndOverwritesNothing(t *testing.T) {
	log := mustOpen(t, Config{Dir: t.TempDir()})
	appendN(t, log, 0, 10, 50)
	dir := filepath.Join(t.TempDir(), "copy")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := log.Copy(ctx, dir, log.end, direct)
	require.ErrorIs(t, err, context.Canceled)
	_, err = log.Copy(t.Context(), dir, log.end, direct)
	require.ErrorIs(t, err, os.ErrExist)

	require.NoError(t, log.Close())
	_, err = log.Copy(t.Context(), filepath.Join(t.TempDir(), "copy"), log.end, direct)
	require.ErrorIs(t, err, pipeline.ErrClosed)
}

// direct has a copy written as it is.
func direct(f *os.File) io.Writer { return f }
