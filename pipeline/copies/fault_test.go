package copies

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// writerDir in the environment makes the test binary a process that appends to
// the log there and prints where each record stands.
const writerDir = "MUNIMENT_EDGE_WRITER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		fmt.Fprintln(os.Stderr, runWriter(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func runWriter(dir string) error {
	l, err := Open(Config{Promise: new(promise), Dir: dir, SegmentBytes: 64 << 10})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for w := range 8 {
		go func() {
			for n := 0; ; n++ {
				r := record(w<<32 | n)
				at, err := l.Append(context.Background(), r)
				if err != nil {
					failed <- err
					return
				}
				os.Stdout.WriteString(r.EventID + " " + at.String() + "\n")
			}
		}()
	}
	return <-failed
}

// TestKill kills a writing process ten times: what was answered with a position is
// there for the next start.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	answered := 0
	for range 10 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), writerDir+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		acked := map[sealer.Position]string{}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			id, text, ok := strings.Cut(lines.Text(), " ")
			at, err := sealer.ParsePosition(text)
			if !ok || err != nil {
				break // the line that the kill cut
			}
			require.NotZero(t, at)
			acked[at] = id
			if len(acked) == 300 {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.Error(t, cmd.Wait())
		answered += len(acked)

		l := mustOpen(t, Config{Promise: new(promise), Dir: dir, SegmentBytes: 64 << 10})
		for at, id := range acked {
			e, err := l.Read(t.Context(), at)
			require.NoError(t, err)
			require.Equal(t, id, e.EventID)
		}
		require.NoError(t, l.Close())
	}
	require.GreaterOrEqual(t, answered, 3000)
}

// disk is a real folder on a disk that may be full, or fail.
type disk struct {
	segment.FS
	free atomic.Int64 // bytes that may still be allocated
	bad  atomic.Bool  // writes fail permanently
	deaf atomic.Bool  // reads fail
	made atomic.Int64 // files of copies
	lost atomic.Int64 // reads of the file that was made as that one fail, 1 is the first
}

func (d *disk) Create(name string) (segment.File, error) {
	f, err := d.FS.Create(name)
	if err != nil {
		return nil, err
	}
	if filepath.Base(name) != "segment.new" {
		return diskFile{File: f, disk: d}, nil
	}
	return diskFile{f, d, d.made.Add(1)}, nil
}

func (d *disk) Remove(name string) error {
	info, err := os.Stat(name)
	if err == nil {
		d.free.Add(info.Size())
	}
	return d.FS.Remove(name)
}

type diskFile struct {
	segment.File
	disk *disk
	made int64
}

func (f diskFile) Allocate(at, n int64) error {
	if f.disk.free.Add(-n) < 0 {
		f.disk.free.Add(n)
		return unix.ENOSPC
	}
	return f.File.Allocate(at, n)
}

func (f diskFile) WriteAt(b []byte, at int64) (int, error) {
	if f.disk.bad.Load() {
		return 0, unix.EIO
	}
	return f.File.WriteAt(b, at)
}

// TestFullDisk fills the disk: the oldest copies are removed for new ones; when
// there are none left, receipts are good without copies, and copied again when there is space.
func TestFullDisk(t *testing.T) {
	d := &disk{FS: segment.OS()}
	d.free.Store(40 << 10)
	p := new(promise)
	l := mustOpen(t, Config{Promise: p, Dir: t.TempDir(), SegmentBytes: 8 << 10, FS: d})
	for n := range 200 {
		at, err := l.Append(t.Context(), record(n))
		require.NoError(t, err)
		require.NotZero(t, at)
	}
	require.Zero(t, testutil.ToFloat64(l.failed))

	d.free.Store(-1 << 30) // others take whatever is freed
	good := 0
	for n := range 200 {
		at, err := l.Append(t.Context(), record(1000+n))
		require.NoError(t, err)
		if at == (sealer.Position{}) {
			good++
		}
	}
	require.Greater(t, good, 100)
	require.Equal(t, float64(good), testutil.ToFloat64(l.failed))
	d.free.Store(1 << 30)
	at, err := l.Append(t.Context(), record(2000))
	require.NoError(t, err)
	require.NotZero(t, at)
	require.Equal(t, 401, p.count())
}

// TestFullDiskForMany is TestFullDisk for records that come together.
func TestFullDiskForMany(t *testing.T) {
	d := &disk{FS: segment.OS()}
	d.free.Store(40 << 10)
	p := new(promise)
	l := mustOpen(t, Config{Promise: p, Dir: t.TempDir(), SegmentBytes: 8 << 10, FS: d})
	many := func(n int) []*sealer.Record {
		rs := make([]*sealer.Record, 5)
		for i := range rs {
			rs[i] = record(n + i)
		}
		return rs
	}
	for n := range 50 {
		at, errs := l.AppendAll(t.Context(), many(5*n))
		require.NoError(t, errors.Join(errs...))
		require.NotContains(t, at, sealer.Position{})
	}
	require.Zero(t, testutil.ToFloat64(l.failed))
	d.free.Store(-1 << 30)
	good := 0
	for n := range 50 {
		at, errs := l.AppendAll(t.Context(), many(1000+5*n))
		require.NoError(t, errors.Join(errs...))
		for _, one := range at {
			if one == (sealer.Position{}) {
				good++
			}
		}
	}
	require.Greater(t, good, 100)
	require.Equal(t, float64(good), testutil.ToFloat64(l.failed))
	require.Equal(t, 500, p.count())
}

// TestBadDisk fails a write permanently.
func TestBadDisk(t *testing.T) {
	d := &disk{FS: segment.OS()}
	d.free.Store(1 << 30)
	p := new(promise)
	l := mustOpen(t, Config{Promise: p, Dir: t.TempDir(), SegmentBytes: 8 << 10, FS: d})
	kept, err := l.Append(t.Context(), record(0))
	require.NoError(t, err)
	d.bad.Store(true)
	for n := range 5 {
		at, err := l.Append(t.Context(), record(1+n))
		require.NoError(t, err)
		require.Zero(t, at)
	}
	require.Equal(t, 5., testutil.ToFloat64(l.failed))
	require.Equal(t, 6, p.count())
	e, err := l.Read(t.Context(), kept)
	require.NoError(t, err)
	require.Equal(t, "evt_0", e.EventID)
}

func (f diskFile) ReadAt(b []byte, at int64) (int, error) {
	if f.disk.deaf.Load() || f.disk.lost.Load() == f.made {
		return 0, unix.EIO
	}
	return f.File.ReadAt(b, at)
}

// TestUnreadableFile: a node starts without the copies of a file that can't be read, and
// with those of the others.
func TestUnreadableFile(t *testing.T) {
	d := &disk{FS: segment.OS()}
	d.free.Store(1 << 30)
	dir := t.TempDir()
	l := mustOpen(t, Config{Promise: new(promise), Dir: dir, SegmentBytes: 64 << 10, FS: d})
	var first, last sealer.Position
	for n := range 2000 {
		at, err := l.Append(t.Context(), record(n))
		require.NoError(t, err)
		if n == 0 {
			first = at
		}
		last = at
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	require.Greater(t, len(names), 4)
	scanned := func() (offsets []int64) {
		t.Helper()
		require.NoError(t, l.Scan(t.Context(), first, last.Next(), func(e sealer.Entry) error {
			offsets = append(offsets, e.Offset)
			return nil
		}))
		return offsets
	}
	require.Len(t, scanned(), 2000)
	offset := func(i int) int64 {
		if i == len(names) {
			return 2000
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(names[i][len(names[i])-len("00000000000000000000.seg"):], ".seg"), 10, 64)
		require.NoError(t, err)
		return n
	}
	for i := range names {
		d.lost.Store(int64(i + 1))
		before := testutil.ToFloat64(l.failed)
		offsets := scanned()
		require.True(t, slices.IsSorted(offsets))
		for n := range offset(i) {
			require.Equal(t, n, offsets[n], "before the bad file")
		}
		size := offset(i+1) - offset(i)
		behind := offsets[offset(i):]
		require.GreaterOrEqual(t, int64(len(behind)), 2000-offset(i+1)-size, "few of those behind it are left out")
		for n := range len(behind) {
			require.Equal(t, 1999-int64(n), behind[len(behind)-1-n])
		}
		require.Greater(t, testutil.ToFloat64(l.failed), before)
		require.Less(t, testutil.ToFloat64(l.failed), before+20)
	}
	d.lost.Store(0)
	enough := errors.New("enough")
	require.ErrorIs(t, l.Scan(t.Context(), first, last.Next(), func(sealer.Entry) error { return enough }), enough)
	d.deaf.Store(true)
	require.Empty(t, scanned())
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Scan(t.Context(), first, last.Next(), func(sealer.Entry) error { return nil }), pipeline.ErrClosed)
}

// TestUnreadableCopy: a disk that can't read a copy costs the answer to a retry, which
// is metered zero, and not the delivery.
func TestUnreadableCopy(t *testing.T) {
	d := &disk{FS: segment.OS()}
	d.free.Store(1 << 30)
	l := mustOpen(t, Config{Promise: new(promise), Dir: t.TempDir(), SegmentBytes: 64 << 10, FS: d})
	at, err := l.Append(t.Context(), record(0))
	require.NoError(t, err)
	d.deaf.Store(true)
	_, err = l.Read(t.Context(), at)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, err, unix.EIO)
	require.Equal(t, 1., testutil.ToFloat64(l.failed))
}
