package segment

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

// forgetting is the disk, which counts what each file forgets.
type forgetting struct {
	osFS
	mu    sync.Mutex
	files []*forgetfulFile // in the order of their creation
}

type forgetfulFile struct {
	File
	fs     *forgetting
	ranges [][2]int64 // from, to
}

func (fs *forgetting) Create(name string) (File, error) {
	f, err := fs.osFS.Create(name)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	file := &forgetfulFile{File: f, fs: fs}
	fs.files = append(fs.files, file)
	return file, err
}

func (f *forgetfulFile) Forget(off, n int64) {
	f.fs.mu.Lock()
	f.ranges = append(f.ranges, [2]int64{off, off + n})
	f.fs.mu.Unlock()
	f.File.Forget(off, n)
}

// TestForgetsWhatIsOld: the last segment stays in memory, the one before leaves it
// as the last one grows, all older ones have left it, and every record can be read.
func TestForgetsWhatIsOld(t *testing.T) {
	const segmentBytes, recordBytes, records = 3 * forgetStep, 900_000, 70
	fs := &forgetting{}
	log := mustOpen(t, Config{Dir: t.TempDir(), FS: fs, SegmentBytes: segmentBytes})
	for i := range records {
		_, err := log.Append(t.Context(), record(i, recordBytes))
		require.NoError(t, err)
	}
	first, end, err := log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	read := 0
	require.NoError(t, log.Scan(t.Context(), first, end, func(sealer.Entry) error { read++; return nil }))
	require.Equal(t, records, read)
	require.NoError(t, log.Close())

	n := len(fs.files)
	require.Greater(t, n, 4)
	for i, f := range fs.files {
		var to int64
		for k, r := range f.ranges {
			require.Equal(t, to, r[0], "file %d: a gap, or the same twice", i)
			to = r[1]
			if k < len(f.ranges)-1 {
				require.GreaterOrEqual(t, r[1]-r[0], int64(forgetStep), "file %d: a needless call", i)
			}
		}
		switch {
		case i == n-1:
			require.Zero(t, to, "the last segment is still read")
		case i == n-2:
			require.Less(t, to, int64(segmentBytes), "the one before is only left behind step by step")
		default:
			require.GreaterOrEqual(t, to, int64(segmentBytes), "file %d", i)
			require.GreaterOrEqual(t, len(f.ranges), 3, "file %d: in steps", i)
		}
	}
}
