package segment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// ledger is what writers were promised.
type ledger struct {
	mu    sync.Mutex
	acked map[string]sealer.Position // by event id
}

func newLedger() *ledger { return &ledger{acked: map[string]sealer.Position{}} }

func (l *ledger) add(id string, at sealer.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[id] = at
}

func (l *ledger) copy() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newLedger()
	for id, at := range l.acked {
		c.acked[id] = at
	}
	return c
}

// requireHeld checks that every promised record stands where it was said to, and
// that the others are ones that were at least tried.
func (l *ledger) requireHeld(tb testing.TB, r pipeline.Reader) {
	tb.Helper()
	found := map[string]sealer.Position{}
	for _, e := range readAll(tb, r) {
		require.Equal(tb, eventOf(e.EventID), string(e.Event))
		found[e.EventID] = e.Position
	}
	for id, at := range l.acked {
		require.Equal(tb, at, found[id], "acknowledged record %s", id)
	}
}

// eventOf is the text of an event, of a size that varies with its id.
func eventOf(id string) string {
	var sum int
	for _, c := range id {
		sum = sum*31 + int(c)
	}
	return fmt.Sprintf("%s:%0*d", id, sum%1500, 0)
}

// write appends records under ids of its own until stop or the first error.
func (l *ledger) write(log *Log, writer string, count int, stop <-chan struct{}) error {
	for n := 0; n < count; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		id := fmt.Sprintf("evt_%s_%d", writer, n)
		at, err := log.Append(context.Background(), &sealer.Record{TenantID: "tnt_a", EventID: id, Event: []byte(eventOf(id))})
		if err != nil {
			return err
		}
		l.add(id, at)
	}
	return nil
}

// writeMany is write for several records at a time, until stop.
func (l *ledger) writeMany(log *Log, writer string, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		rs := make([]*sealer.Record, 1+n%30)
		for i := range rs {
			id := fmt.Sprintf("evt_%s_%d_%d", writer, n, i)
			rs[i] = &sealer.Record{TenantID: "tnt_a", EventID: id, Event: []byte(eventOf(id))}
		}
		at, errs := log.AppendAll(context.Background(), rs)
		for i, r := range rs {
			if errs[i] != nil {
				return
			}
			l.add(r.EventID, at[i])
		}
	}
}

// TestCrashLosesNothingAcknowledged takes crash images at random operations while
// eight writers append, one and many at a time, and looks for every acknowledged record in each.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	for _, keep := range []float64{0, 0.5, 1} {
		for _, noAlloc := range []bool{false, true} {
			t.Run(fmt.Sprintf("keep=%v,noAlloc=%v", keep, noAlloc), func(t *testing.T) {
				testCrash(t, keep, noAlloc, 40)
			})
		}
	}
}

func testCrash(t *testing.T, keep float64, noAlloc bool, images int) {
	rng := rand.New(rand.NewPCG(1, uint64(keep*10)))
	fs := newMemFS()
	fs.noAlloc = noAlloc
	type image struct {
		fs    *memFS
		acked *ledger
	}
	var (
		mu    sync.Mutex
		taken []image
		done  = make(chan struct{})
		acked = newLedger()
	)
	fs.before = func(op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if len(taken) < images && (op != "write" && op != "datasync" || rng.IntN(4) == 0) {
			// The promises first: what is acknowledged meanwhile needn't be in the image.
			promised := acked.copy()
			if taken = append(taken, image{fs.crash(rng, keep), promised}); len(taken) == images {
				close(done)
			}
		}
		return nil
	}
	log := mustOpen(t, Config{Dir: "log", SegmentBytes: 32 << 10, FS: fs, Indexed: true})
	var writers sync.WaitGroup
	for w := range 6 {
		writers.Go(func() { acked.write(log, fmt.Sprint(w), 1<<20, done) })
	}
	for w := range 2 {
		writers.Go(func() { acked.writeMany(log, fmt.Sprint("many", w), done) })
	}
	writers.Wait()
	require.NoError(t, log.Close())
	require.Len(t, taken, images)

	for _, image := range taken {
		log, err := Open(Config{Dir: "log", SegmentBytes: 32 << 10, Indexed: true, FS: image.fs})
		require.NoError(t, err)
		image.acked.requireHeld(t, log)
		// What is appended from here on has to survive the next crash as well.
		require.NoError(t, image.acked.write(log, "again", 3, nil))
		log, err = Open(Config{Dir: "log", SegmentBytes: 32 << 10, Indexed: true, FS: image.fs.crash(rng, 0)})
		require.NoError(t, err)
		image.acked.requireHeld(t, log)
	}
}

// TestFoundSegmentIsDurable is the same for a segment whose name was never synced.
func TestFoundSegmentIsDurable(t *testing.T) {
	fs := newMemFS()
	cfg := Config{Dir: "log", SegmentBytes: 4 << 10, FS: fs}
	log := mustOpen(t, cfg)
	fs.before = func(op, _ string) error {
		if op == "syncdir" {
			return unix.EIO
		}
		return nil
	}
	acked := newLedger()
	require.ErrorIs(t, acked.write(log, "a", 100, nil), pipeline.ErrFailed)
	require.NoError(t, log.Close())
	require.Len(t, fs.segments(), 2)
	fs.before = nil
	log = mustOpen(t, cfg)
	require.NoError(t, acked.write(log, "b", 1, nil))
	cfg.FS = fs.crash(newRand(), 0)
	acked.requireHeld(t, mustOpen(t, cfg))
}

// TestFoundRecordsAreDurable crashes a second time right after a start: what a
// reader was shown then must still be there, though the process that wrote it
// never got around to the sync, or its sync failed.
func TestFoundRecordsAreDurable(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	fs := newMemFS()
	log := mustOpen(t, Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs})
	appendN(t, log, 0, 3, 100)
	fs.before = func(op, _ string) error {
		if op == "datasync" {
			return unix.EIO
		}
		return nil
	}
	_, err := log.Append(context.Background(), record(3, 5000))
	require.ErrorIs(t, err, pipeline.ErrFailed)
	require.NoError(t, log.Close())
	fs.before = nil
	// The kernel has marked the pages clean: only what is written again gets to disk.
	for _, f := range fs.files {
		f.since = nil
	}
	log = mustOpen(t, Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs})
	shown := readAll(t, log)
	require.Len(t, shown, 4)
	after := mustOpen(t, Config{Dir: "log", SegmentBytes: 64 << 10, FS: fs.crash(rng, 0)})
	require.Equal(t, shown, readAll(t, after))
}
