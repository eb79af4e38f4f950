package segment

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// indexedLog is a log of several segments that its process left without closing it.
func indexedLog(t *testing.T, lazy bool) (fs *memFS, cfg Config, all []sealer.Entry) {
	fs = newMemFS()
	cfg = Config{Dir: "log", SegmentBytes: 48 << 10, FS: fs, Indexed: true, Lazy: lazy}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 60, 3000)
	all = readAll(t, log)
	require.Greater(t, len(fs.segments()), 3)
	return fs, cfg, all
}

// left is what a process leaves that was killed: the machine runs on.
func (fs *memFS) left() *memFS {
	c := fs.clone()
	c.run = fs.run
	return c
}

// indexes names the index files in order.
func (fs *memFS) indexes() (names []string) {
	for name := range fs.files {
		if _, ok := isIndexName(filepath.Base(name)); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (l *Log) opened() (byIndex int) {
	for _, s := range l.segs {
		if s.indexed {
			byIndex++
		}
	}
	return byIndex
}

// TestIndexedLogIsOpenedByItsIndexes finds everything in it, and goes on.
func TestIndexedLogIsOpenedByItsIndexes(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		fs, cfg, all := indexedLog(t, lazy)
		for round := range 3 {
			cfg.FS = fs.left()
			log := mustOpen(t, cfg)
			require.Equal(t, len(log.segs)-1, log.opened())
			require.Equal(t, all, readAll(t, log))
			for _, e := range all {
				got, err := log.Read(t.Context(), e.Position)
				require.NoError(t, err)
				require.Equal(t, e, got)
			}
			require.NoError(t, log.Check(t.Context()))
			appendN(t, log, 60+20*round, 80+20*round, 3000)
			all, fs = readAll(t, log), cfg.FS.(*memFS)
		}
	}
}

// TestLazyLogIsReadAfterTheMachineEnded: what it had not synced may be gone from the middle
// of a segment, with its index intact.
func TestLazyLogIsReadAfterTheMachineEnded(t *testing.T) {
	fs, cfg, all := indexedLog(t, true)
	cfg.FS = fs.clone()
	log := mustOpen(t, cfg)
	require.Zero(t, log.opened())
	require.Equal(t, all, readAll(t, log))
	require.NoError(t, log.Close())
	log = mustOpen(t, cfg)
	require.Equal(t, len(log.segs)-1, log.opened(), "they are written anew")
}

// TestIndexThatIsWrong is passed over, however it is wrong, and nothing is lost by it.
func TestIndexThatIsWrong(t *testing.T) {
	fs, cfg, all := indexedLog(t, false)
	name := fs.indexes()[1]
	whole := fs.files[name].data
	wrong := map[string][]byte{"of another segment": fs.files[fs.indexes()[0]].data, "longer": append(slices.Clone(whole), 0)}
	for at := range whole {
		flipped := slices.Clone(whole)
		flipped[at] ^= 4
		wrong["flipped at "+string(rune(at))] = flipped
		wrong["cut at "+string(rune(at))] = whole[:at]
	}
	for what, data := range wrong {
		left := fs.left()
		left.files[name].data = data
		cfg.FS = left
		log, err := Open(cfg)
		require.NoError(t, err, what)
		require.Equal(t, len(log.segs)-2, log.opened(), what)
		require.Equal(t, all, readAll(t, log), what)
		require.Equal(t, whole, left.files[name].data, "it is written anew")
		require.NoError(t, log.Close())
	}
}

// TestIndexOfASegmentThatGoesOn: the segment behind it was lost, by a power cut or a
// restore, and other records come into it.
func TestIndexOfASegmentThatGoesOn(t *testing.T) {
	fs, cfg, _ := indexedLog(t, false)
	left := fs.left()
	segments := left.segments()
	require.NoError(t, left.Remove(segments[len(segments)-1]))
	cfg.FS, cfg.SegmentBytes = left, 64<<10
	log := mustOpen(t, cfg)
	begun := int(log.end.Offset)
	appendN(t, log, begun, begun+4, 3000)
	require.Len(t, log.segs, len(segments)-1, "they came into the one that had an index")
	require.NoError(t, log.Close())
	require.NoError(t, mustOpen(t, cfg).Close())
	require.Len(t, left.indexes(), len(segments)-2)
}

// TestCheckReadsWhatTheIndexSpared damages a byte that Open doesn't read.
func TestCheckReadsWhatTheIndexSpared(t *testing.T) {
	fs, cfg, all := indexedLog(t, false)
	damaged := fs.segments()[1]
	left := fs.left()
	left.flip(damaged, 1000, 1)
	cfg.FS = left
	log := mustOpen(t, cfg)
	err := log.Scan(t.Context(), all[0].Position, log.end, func(sealer.Entry) error { return nil })
	require.ErrorIs(t, err, pipeline.ErrDamaged)
	requireNamed(t, log.Check(t.Context()), damaged)
	require.NoError(t, log.Close())
	_, err = Open(cfg)
	requireNamed(t, err, damaged)
}

// TestCheckTakesItsTime and ends with its ctx.
func TestCheckTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Dir: "log", SegmentBytes: 3 << 20, FS: newMemFS(), Indexed: true}
		log := mustOpen(t, cfg)
		appendN(t, log, 0, 8, 700_000)
		require.NoError(t, log.Close())
		log = mustOpen(t, cfg)
		require.Positive(t, log.opened())
		ctx, cancel := context.WithTimeout(t.Context(), checkEvery/2)
		defer cancel()
		require.ErrorIs(t, log.Check(ctx), context.DeadlineExceeded)
		require.NoError(t, log.Check(t.Context()))
	})
}

// TestIndexesGoWithTheirSegments, also those that a removal left behind.
func TestIndexesGoWithTheirSegments(t *testing.T) {
	fs, cfg, _ := indexedLog(t, false)
	log := mustOpen(t, Config{Dir: "log", SegmentBytes: 48 << 10, FS: fs.left(), Indexed: true})
	fs = log.cfg.FS.(*memFS)
	removed, err := log.RemoveOldest()
	require.NoError(t, err)
	require.True(t, removed)
	segments := fs.segments()
	require.Len(t, fs.indexes(), len(segments)-1)
	require.NoError(t, log.Close())

	left := fs.left()
	require.NoError(t, left.Remove(segments[0]))
	cfg.FS = left
	mustOpen(t, cfg)
	require.Len(t, left.indexes(), len(segments)-2)
	require.False(t, strings.HasPrefix(left.indexes()[0], strings.TrimSuffix(segments[0], segmentSuffix)))
}
