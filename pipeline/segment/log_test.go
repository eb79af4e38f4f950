package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// farFuture sets no limit by age.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func mustOpen(tb testing.TB, cfg Config) *Log {
	tb.Helper()
	l, err := Open(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { l.Close() })
	return l
}

// record is the n-th record that the tests write; size pads its event.
func record(n, size int) *sealer.Record {
	return &sealer.Record{
		TenantID: "tnt_a",
		EventID:  fmt.Sprintf("evt_%d", n),
		Node:     "nod_1",
		Epoch:    1,
		Seq:      uint64(n),
		Event:    fmt.Appendf(nil, "%0*d", size, n),
	}
}

func appendN(tb testing.TB, l *Log, from, to, size int) {
	tb.Helper()
	for n := from; n < to; n++ {
		at, err := l.Append(context.Background(), record(n, size))
		require.NoError(tb, err)
		require.Equal(tb, int64(n), at.Offset)
	}
}

// readAll scans the whole log and checks that offsets have no gap.
func readAll(tb testing.TB, r pipeline.Reader) []sealer.Entry {
	tb.Helper()
	ctx := context.Background()
	first, end, err := r.Bounds(ctx, 0)
	require.NoError(tb, err)
	var got []sealer.Entry
	require.NoError(tb, r.Scan(ctx, first, end, func(e sealer.Entry) error {
		e.Event = append([]byte(nil), e.Event...)
		got = append(got, e)
		require.Equal(tb, first.Offset+int64(len(got)-1), e.Offset)
		return nil
	}))
	require.Equal(tb, end.Offset-first.Offset, int64(len(got)))
	return got
}

func TestReopenKeepsEverything(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SegmentBytes: leastSegmentBytes}
	for round := range 5 {
		l := mustOpen(t, cfg)
		appendN(t, l, round*20, round*20+20, 300)
		got := readAll(t, l)
		require.Len(t, got, round*20+20)
		for n, e := range got {
			require.Equal(t, *record(n, 300), sealer.Record{
				TenantID: e.TenantID, EventID: e.EventID, Node: e.Node, Epoch: e.Epoch, Seq: e.Seq, Event: e.Event,
			})
			one, err := l.Read(context.Background(), e.Position)
			require.NoError(t, err)
			require.Equal(t, e.Event, one.Event)
		}
		require.NoError(t, l.Close())
	}
}

func TestConcurrentAppendsAndReads(t *testing.T) {
	const writers, each = 64, 15
	log := mustOpen(t, Config{Dir: t.TempDir(), SegmentBytes: 64 << 10})
	acked := newLedger()
	var working sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		working.Go(func() { errs[w] = acked.write(log, fmt.Sprint(w), each, nil) })
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		// What is acknowledged by now shows.
		acked.copy().requireHeld(t, log)
	}
	require.NoError(t, errors.Join(errs...))
	require.Len(t, readAll(t, log), writers*each)
}

func TestAppendRefusesWhatIsTooLarge(t *testing.T) {
	log := mustOpen(t, Config{Dir: t.TempDir()})
	_, err := log.Append(context.Background(), &sealer.Record{Event: make([]byte, maxRecord)})
	require.ErrorContains(t, err, "too large")
	largest := &sealer.Record{Event: make([]byte, maxRecord-recordOverhead)}
	at, err := log.Append(context.Background(), largest)
	require.NoError(t, err)
	require.Zero(t, at.Offset)
	got, err := log.Read(context.Background(), at)
	require.NoError(t, err)
	require.Equal(t, largest.Event, got.Event)
}

// TestRecordLargerThanASegment gives it a segment of its own, which still is one.
func TestRecordLargerThanASegment(t *testing.T) {
	cfg := Config{Dir: filepath.Join(t.TempDir(), "a", "b"), SegmentBytes: 4 << 10}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 3, 10_000)
	require.NoError(t, log.Close())
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "*"+segmentSuffix))
	require.NoError(t, err)
	require.Len(t, files, 3, "nor does the mark of the shutdown need another")
	require.Len(t, log.segs, 3)
	require.Len(t, readAll(t, mustOpen(t, cfg)), 3)
}

// badLock can't be given back.
type badLock struct{ io.Closer }

func (l badLock) Close() error { return errors.Join(errors.ErrUnsupported, l.Closer.Close()) }

func TestEveryCloseTellsTheSame(t *testing.T) {
	log := mustOpen(t, Config{Dir: t.TempDir()})
	log.lock = badLock{log.lock}
	first := log.Close()
	require.ErrorIs(t, first, errors.ErrUnsupported)
	require.Equal(t, first, log.Close())
}

func TestClosedLog(t *testing.T) {
	ctx := context.Background()
	log := mustOpen(t, Config{Dir: t.TempDir()})
	appendN(t, log, 0, 1, 10)
	_, end, err := log.Bounds(ctx, 0)
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() { waited <- log.Wait(ctx, end) }()
	require.NoError(t, log.Close())
	require.NoError(t, log.Close())
	require.ErrorIs(t, <-waited, pipeline.ErrClosed)
	at := sealer.Position{Generation: 1}
	_, err = log.Append(ctx, record(1, 10))
	require.ErrorIs(t, err, pipeline.ErrClosed)
	_, err = log.Read(ctx, at)
	require.ErrorIs(t, err, pipeline.ErrClosed)
	require.ErrorIs(t, log.Scan(ctx, at, at.Next(), nil), pipeline.ErrClosed)
	require.ErrorIs(t, log.Wait(ctx, at), pipeline.ErrClosed)
}

// TestCloseFinishesWhatWasBegun closes a log under its writers.
func TestCloseFinishesWhatWasBegun(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SegmentBytes: 64 << 10}
	log := mustOpen(t, cfg)
	acked := newLedger()
	var writers sync.WaitGroup
	errs := make([]error, 16)
	for w := range errs {
		writers.Go(func() { errs[w] = acked.write(log, fmt.Sprint(w), 1<<20, nil) })
	}
	require.NoError(t, log.Wait(context.Background(), sealer.Position{Generation: 1, Offset: 200}))
	require.NoError(t, log.Close())
	writers.Wait()
	for _, err := range errs {
		require.ErrorIs(t, err, pipeline.ErrClosed)
	}
	log = mustOpen(t, cfg)
	require.Len(t, readAll(t, log), len(acked.acked))
	acked.requireHeld(t, log)
}

func TestReaderOfAnEmptyFolder(t *testing.T) {
	r, err := OpenReader(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, readAll(t, r))
	_, err = OpenReader(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestConfigNamesTheBadField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Dir":          {},
		"SegmentBytes": {Dir: "log", SegmentBytes: 100},
		"MaxBytes":     {Dir: "log", SegmentBytes: 8 << 10, MaxBytes: 12 << 10},
		"PendingBytes": {Dir: "log", PendingBytes: -1},
		"AtLeast":      {Dir: "log", AtLeast: &sealer.Position{Partition: 1}},
		"Lazy":         {Dir: "log", AtLeast: &sealer.Position{}, Lazy: true},
	} {
		_, err := Open(cfg)
		require.ErrorContains(t, err, field)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	fs := newMemFS()
	cfg := Config{Dir: "log", SegmentBytes: 8 << 10, MaxBytes: 80 << 10, FS: fs, Registerer: registry}
	log := mustOpen(t, cfg)
	appendN(t, log, 0, 3, 10)
	fs.setFree(0)
	_, err := log.Append(context.Background(), record(3, 9000))
	require.ErrorIs(t, err, pipeline.ErrFull)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP muniment_log_bytes Bytes of all segment files, preallocation included.
# TYPE muniment_log_bytes gauge
muniment_log_bytes 8192
# HELP muniment_log_bytes_limit Most bytes that the segment files may take together; +Inf for a log that the disk alone bounds.
# TYPE muniment_log_bytes_limit gauge
muniment_log_bytes_limit 81920
# HELP muniment_log_end_offset Offset that the next durable record gets.
# TYPE muniment_log_end_offset gauge
muniment_log_end_offset 3
# HELP muniment_log_failures_total Groups of records that could not be made durable, by reason.
# TYPE muniment_log_failures_total counter
muniment_log_failures_total{reason="failed"} 0
muniment_log_failures_total{reason="full"} 1
`), "muniment_log_bytes", "muniment_log_bytes_limit", "muniment_log_end_offset", "muniment_log_failures_total"))
	count, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	require.Equal(t, 11, count)

	fs.setFree(1 << 20)
	other := cfg
	other.Dir = "other"
	_, err = Open(other)
	require.ErrorContains(t, err, "metrics")
	// Close gives the names back.
	require.NoError(t, log.Close())
	cfg.MaxBytes = 0
	require.Equal(t, math.Inf(1), testutil.ToFloat64(mustOpen(t, cfg).metrics.limit))
}

// BenchmarkAppend is the time of one record with so many writers.
// The CPU that a record takes is in cpu-ns/op.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 64, 256} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			log := mustOpen(b, Config{Dir: b.TempDir()})
			r := record(1, 1000)
			var left atomic.Int64
			left.Store(int64(b.N))
			var working sync.WaitGroup
			b.ReportAllocs()
			b.SetBytes(1000)
			b.ResetTimer()
			before := cpuTime(b)
			for range writers {
				working.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := log.Append(context.Background(), r); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			working.Wait()
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
