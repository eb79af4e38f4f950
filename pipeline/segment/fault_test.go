package segment

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

func TestFailedSyncStopsTheLogForGood(t *testing.T) {
	// Each is the first operation of its kind to fail after some records; the last
	// two happen when a segment is full.
	for _, op := range []string{"datasync", "sync", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			var failing atomic.Bool
			failures := make(chan error, 2)
			fs := newMemFS()
			fs.before = func(o, _ string) error {
				if failing.Load() && o == op {
					return unix.EIO
				}
				return nil
			}
			log := mustOpen(t, Config{Dir: "log", SegmentBytes: 8 << 10, FS: fs, OnFailure: func(err error) {
				failures <- err
			}})
			acked := newLedger()
			require.NoError(t, acked.write(log, "before", 10, nil))
			failing.Store(true)

			var writers sync.WaitGroup
			errs := make([]error, 64)
			start := func(w int) {
				writers.Go(func() { errs[w] = acked.write(log, fmt.Sprint(w), 1<<20, nil) })
			}
			if op == "datasync" {
				// One waits for the sync that will fail, all others have queued behind it.
				syncing := make(chan struct{})
				fs.before = func(o, _ string) error {
					if o != op {
						return nil
					}
					close(syncing)
					for log.pendingRecords() < len(errs)-1 {
						runtime.Gosched()
					}
					return unix.EIO
				}
				start(0)
				<-syncing
			} else {
				start(0)
			}
			for w := 1; w < len(errs); w++ {
				start(w)
			}
			writers.Wait()
			for _, err := range errs {
				require.ErrorIs(t, err, pipeline.ErrFailed)
			}
			// The disk is well again, but what it lost is unknown.
			failing.Store(false)
			fs.before = nil
			require.ErrorIs(t, log.Err(), pipeline.ErrFailed)
			promised := len(acked.acked)
			require.ErrorIs(t, acked.write(log, "after", 1, nil), pipeline.ErrFailed)
			require.Len(t, acked.acked, promised)
			_, end, err := log.Bounds(context.Background(), 0)
			require.NoError(t, err)
			require.ErrorIs(t, log.Wait(context.Background(), end), pipeline.ErrFailed)

			require.ErrorIs(t, <-failures, unix.EIO)
			require.NoError(t, log.Close())
			require.Empty(t, failures)
			acked.requireHeld(t, mustOpen(t, Config{Dir: "log", SegmentBytes: 8 << 10, FS: fs}))
		})
	}
}

func TestOnFailureMayClose(t *testing.T) {
	fs := newMemFS()
	closed := make(chan error)
	var log *Log
	log = mustOpen(t, Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs, OnFailure: func(error) { closed <- log.Close() }})
	fs.before = func(op, _ string) error {
		if op == "write" {
			return unix.EIO
		}
		return nil
	}
	_, err := log.Append(context.Background(), record(0, 10))
	require.ErrorIs(t, err, pipeline.ErrFailed)
	require.NoError(t, <-closed)
}

// TestFullDisk fills the disk at every possible byte of a few groups, with and
// without preallocation, frees it, and expects the log to go on.
func TestFullDisk(t *testing.T) {
	for _, noAlloc := range []bool{false, true} {
		for room := int64(0); room < 6000; room += 97 {
			fs := newMemFS()
			fs.noAlloc = noAlloc
			cfg := Config{Dir: "log", SegmentBytes: leastSegmentBytes, FS: fs, Indexed: true}
			log := mustOpen(t, cfg)
			acked := newLedger()
			require.NoError(t, acked.write(log, "a", 3, nil))

			fs.setFree(room)
			require.ErrorIs(t, acked.write(log, "b", 100, nil), pipeline.ErrFull)
			_, err := log.Append(context.Background(), record(0, 3000))
			require.ErrorIs(t, err, pipeline.ErrFull)
			acked.requireHeld(t, log)
			fs.setFree(1 << 20)
			require.NoError(t, acked.write(log, "d", 20, nil))
			acked.requireHeld(t, log)
			require.NoError(t, log.Close())

			log = mustOpen(t, cfg)
			require.Len(t, readAll(t, log), len(acked.acked), "a record that was refused came back")
			acked.requireHeld(t, log)
		}
	}
}

func (fs *memFS) setFree(n int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.free = n
}

// TestRefusedGroupDoesNotComeBack has a write fail after all of it reached the
// file, and crashes before and after the next acknowledgement.
func TestRefusedGroupDoesNotComeBack(t *testing.T) {
	fs := newMemFS()
	log := mustOpen(t, Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs})
	appendN(t, log, 0, 3, 100)
	fs.before = func(op, _ string) error {
		if op == "write" {
			return errors.Join(errAfter, unix.ENOSPC)
		}
		return nil
	}
	refused := record(99, 2000)
	_, err := log.Append(context.Background(), refused)
	require.ErrorIs(t, err, pipeline.ErrFull)
	fs.before = nil
	for range 2 {
		for _, keep := range []float64{0, 0.5, 1} {
			left := mustOpen(t, Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs.crash(newRand(), keep)})
			for n, e := range readAll(t, left) {
				require.Equal(t, record(n, 100).EventID, e.EventID)
			}
		}
		_, end, err := log.Bounds(context.Background(), 0)
		require.NoError(t, err)
		appendN(t, log, int(end.Offset), int(end.Offset)+1, 100)
	}
}

func TestFailedRewindStopsTheLog(t *testing.T) {
	for _, op := range []string{"truncate", "sync"} {
		fs := newMemFS()
		log := mustOpen(t, Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs})
		fs.before = func(o, _ string) error {
			switch o {
			case "write":
				return unix.ENOSPC
			case op:
				return unix.EIO
			}
			return nil
		}
		_, err := log.Append(context.Background(), record(0, 10))
		require.ErrorIs(t, err, pipeline.ErrFailed)
		require.NotErrorIs(t, err, pipeline.ErrFull)
	}
}

func TestMaxBytes(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), SegmentBytes: 4 << 10, MaxBytes: 12 << 10}
	log := mustOpen(t, cfg)
	acked := newLedger()
	require.ErrorIs(t, acked.write(log, "a", 100, nil), pipeline.ErrFull)
	require.LessOrEqual(t, log.size(), cfg.MaxBytes)
	require.Greater(t, log.size(), cfg.MaxBytes-cfg.SegmentBytes)
	acked.requireHeld(t, log)

	_, end, err := log.Bounds(context.Background(), 0)
	require.NoError(t, err)
	removed, err := log.Retain(end, farFuture)
	require.NoError(t, err)
	require.Equal(t, 2, removed)
	require.NoError(t, newLedger().write(log, "b", 3, nil))
}

// TestWritable: it says what an Append would, without a record, when the disk or MaxBytes is full, when
// there is space again, and when the log has failed.
func TestWritable(t *testing.T) {
	ctx := t.Context()
	for _, noAlloc := range []bool{false, true} {
		fs := newMemFS()
		fs.noAlloc = noAlloc
		cfg := Config{Dir: "log", SegmentBytes: leastSegmentBytes, FS: fs}
		log := mustOpen(t, cfg)
		appendN(t, log, 0, 1, 100)
		require.NoError(t, log.Writable(ctx))
		appendN(t, log, 1, 10, 100)
		full := func() float64 { return testutil.ToFloat64(log.metrics.full) }
		for free := range int64(3) {
			fs.setFree(1000 * free)
			_, err := log.Append(ctx, record(9, 6000))
			require.ErrorIs(t, err, pipeline.ErrFull)
			fs.setFree(1000 * free) // without what was cut off
			for range 3 {
				require.ErrorIs(t, log.Writable(ctx), pipeline.ErrFull, "the space of a delivery is missing")
				require.Equal(t, 1., full())
			}
		}
		require.Equal(t, 3., testutil.ToFloat64(log.metrics.failures.WithLabelValues("full")), "a probe is no record that was refused")
		fs.setFree(1 << 20)
		require.NoError(t, log.Writable(ctx))
		require.Zero(t, full())
		appendN(t, log, 10, 12, 100)
		require.Len(t, readAll(t, log), 12)
		require.NoError(t, log.Close())
		require.ErrorIs(t, log.Writable(ctx), pipeline.ErrClosed)
		log = mustOpen(t, cfg)
		require.Len(t, readAll(t, log), 12)

		hold := make(chan struct{})
		fs.before = func(op, _ string) error {
			if op == "datasync" {
				<-hold
				return unix.EIO
			}
			return nil
		}
		soon, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, log.Writable(soon), context.Canceled)
		close(hold)
		require.ErrorIs(t, log.Writable(ctx), pipeline.ErrFailed)
		require.ErrorIs(t, log.Writable(ctx), pipeline.ErrFailed)
	}
	log := mustOpen(t, Config{Dir: t.TempDir(), SegmentBytes: 4 << 10, MaxBytes: 12 << 10})
	require.ErrorIs(t, newLedger().write(log, "a", 100, nil), pipeline.ErrFull)
	require.ErrorIs(t, log.Writable(ctx), pipeline.ErrFull)
	_, end, err := log.Bounds(ctx, 0)
	require.NoError(t, err)
	_, err = log.Retain(end, farFuture)
	require.NoError(t, err)
	require.NoError(t, log.Writable(ctx))
}

// TestReadersSeeOnlyWhatIsDurable holds a sync back and looks around meanwhile.
func TestReadersSeeOnlyWhatIsDurable(t *testing.T) {
	ctx := context.Background()
	syncing, goOn := make(chan struct{}), make(chan struct{})
	fs := newMemFS()
	log := mustOpen(t, Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs})
	appendN(t, log, 0, 2, 10)
	fs.before = func(op, _ string) error {
		if op == "datasync" {
			syncing <- struct{}{}
			<-goOn
		}
		return nil
	}
	appended, waited := make(chan error, 1), make(chan error, 1)
	next := sealer.Position{Generation: 1, Offset: 2}
	go func() { _, err := log.Append(ctx, record(2, 10)); appended <- err }()
	go func() { waited <- log.Wait(ctx, next) }()
	<-syncing
	require.Len(t, readAll(t, log), 2)
	_, err := log.Read(ctx, next)
	require.ErrorIs(t, err, pipeline.ErrBeyondEnd)
	require.Empty(t, appended)
	require.Empty(t, waited)

	// A caller that gives up stops waiting; its record is written nevertheless.
	impatient, cancel := context.WithCancel(ctx)
	gaveUp := make(chan error, 1)
	go func() { _, err := log.Append(impatient, record(3, 10)); gaveUp <- err }()
	for log.pendingRecords() == 0 {
		select {
		case err := <-gaveUp:
			t.Fatal(err)
		default:
			runtime.Gosched()
		}
	}
	cancel()
	require.ErrorIs(t, <-gaveUp, context.Canceled)

	goOn <- struct{}{}
	require.NoError(t, <-appended)
	require.NoError(t, <-waited)
	<-syncing
	goOn <- struct{}{}
	require.NoError(t, log.Wait(ctx, next.Next()))
	require.Len(t, readAll(t, log), 4)
	go func() { <-syncing; goOn <- struct{}{} }() // the mark of the shutdown
	require.NoError(t, log.Close())
}

func (l *Log) pendingRecords() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending.count
}

// TestPendingIsBounded holds a sync back until the buffer is full.
func TestPendingIsBounded(t *testing.T) {
	const bound = 4000
	hold := make(chan struct{})
	fs := newMemFS()
	log := mustOpen(t, Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs, PendingBytes: bound})
	fs.before = func(op, _ string) error {
		if op == "datasync" {
			<-hold
		}
		return nil
	}
	var writers sync.WaitGroup
	errs := make([]error, 64)
	for w := range errs {
		writers.Go(func() { _, errs[w] = log.Append(context.Background(), record(w, 1000)) })
	}
	for log.pendingRecords() < 3 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := log.Append(ctx, record(99, 1000))
	require.ErrorIs(t, err, context.Canceled)
	log.mu.Lock()
	require.LessOrEqual(t, len(log.pending.buf), bound+recordOverhead)
	log.mu.Unlock()
	close(hold)
	writers.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, readAll(t, log), len(errs))
}

// TestProbeWantsOneDelivery: a batch that was refused for its size says nothing about deliveries, for which
// there is space.
func TestProbeWantsOneDelivery(t *testing.T) {
	for _, noAlloc := range []bool{false, true} {
		fs := newMemFS()
		fs.noAlloc = noAlloc
		log := mustOpen(t, Config{Dir: "log", SegmentBytes: 2 << 20, FS: fs})
		appendN(t, log, 0, 1, 100)
		fs.setFree(1 << 20)
		_, errs := log.AppendAll(t.Context(), []*sealer.Record{record(7, 900_000), record(8, 900_000), record(9, 900_000)})
		require.ErrorIs(t, errs[0], pipeline.ErrFull)
		require.NoError(t, log.Writable(t.Context()))
		require.Zero(t, testutil.ToFloat64(log.metrics.full))
		appendN(t, log, 1, 2, 2000)
	}
}

// TestProbeFailsNoRecord: records that are appended while a Writable waits have a group of their own, for
// which less space is enough.
func TestProbeFailsNoRecord(t *testing.T) {
	for _, noAlloc := range []bool{false, true} {
		fs := newMemFS()
		fs.noAlloc = noAlloc
		log := mustOpen(t, Config{Dir: "log", SegmentBytes: leastSegmentBytes, FS: fs})
		appendN(t, log, 0, 10, 100)
		syncing, goOn := make(chan struct{}), make(chan struct{})
		held := sync.OnceFunc(func() { close(syncing); <-goOn })
		fs.before = func(op, _ string) error {
			if op == "datasync" {
				held()
			}
			return nil
		}
		fs.setFree(1000)
		results := make(chan error, 3)
		add := func(n int) {
			_, err := log.Append(t.Context(), record(n, 100))
			results <- err
		}
		go add(10)
		<-syncing
		writable := make(chan error, 1)
		go func() { writable <- log.Writable(t.Context()) }()
		go add(11)
		both := func() bool {
			log.mu.Lock()
			defer log.mu.Unlock()
			return log.pending.count == 1 && log.probe != nil
		}
		for !both() {
			runtime.Gosched()
		}
		close(goOn)
		require.ErrorIs(t, <-writable, pipeline.ErrFull)
		require.NoError(t, <-results)
		require.NoError(t, <-results)
		require.Len(t, readAll(t, log), 12)
	}
}
