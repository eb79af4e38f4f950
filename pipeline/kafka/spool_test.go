package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// node is a gateway's log: a topic with a spool in front.
type node struct {
	*Spooled
	spool *segment.Log
	log   *Log
}

func startNode(tb testing.TB, cfg Config, dir string, ackTimeout time.Duration, most int64) node {
	return startNodeWith(tb, cfg, SpoolConfig{AckTimeout: ackTimeout}, dir, most)
}

func startNodeWith(tb testing.TB, cfg Config, spooled SpoolConfig, dir string, most int64) node {
	spool, err := segment.Open(segment.Config{Dir: dir, SegmentBytes: 64 << 10, MaxBytes: most})
	require.NoError(tb, err)
	tb.Cleanup(func() { spool.Close() })
	log, err := Open(cfg)
	require.NoError(tb, err)
	spooled.Log, spooled.Spool, spooled.Mark = log, spool, filepath.Join(dir, "drained")
	s, err := OpenSpooled(spooled)
	require.NoError(tb, err)
	tb.Cleanup(func() { s.Close() })
	return node{s, spool, log}
}

// stopped closes a node, as at the end of a process.
func (n node) stopped(tb testing.TB) {
	require.NoError(tb, n.Close())
	require.NoError(tb, n.spool.Close())
}

// drained waits until records go to the topic again, and none is left in the spool.
func (n node) drained(tb testing.TB) {
	for {
		route, changed := n.currentRoute()
		if route == toTopic && n.Pending() == 0 {
			return
		}
		<-changed
	}
}

// ending is the ctx of a caller whose time is always about to end, and never does.
type ending struct{ context.Context }

func (ending) Deadline() (time.Time, bool) { return time.Now().Add(100 * time.Millisecond), true }

// writer appends one record after the other, each of its own tenant, and keeps those
// that were acknowledged.
type writer struct {
	tenant string
	pace   time.Duration // between two records; 0 is as fast as it goes
	kept   []sealer.Record
}

func (w *writer) run(ctx context.Context, log pipeline.Appender) {
	for n := 0; ctx.Err() == nil; n++ {
		if w.pace > 0 {
			_ = pipeline.Pause(ctx, w.pace)
		}
		r := testRecord(w.tenant, n)
		// The last one is waited for: given up half way it could arrive later.
		if _, err := log.Append(context.WithoutCancel(ctx), &r); err == nil {
			w.kept = append(w.kept, r)
		}
	}
}

// run starts writers of tenants whose ids begin alike, and returns a function that
// stops them.
func run(tb testing.TB, log pipeline.Appender, n int, prefix string, pace time.Duration) (writers []*writer, stop func()) {
	ctx, cancel := context.WithCancel(tb.Context())
	var wg sync.WaitGroup
	for i := range n {
		w := &writer{tenant: prefix + string(rune('a'+i)), pace: pace}
		writers = append(writers, w)
		wg.Go(func() { w.run(ctx, log) })
	}
	return writers, func() { cancel(); wg.Wait() }
}

// requireKept requires that the log holds each acknowledged record, that those of a
// tenant stand in the order in which they were acknowledged, and that every copy is
// whole. It returns how many records were kept and how many copies there are.
func requireKept(tb testing.TB, l *Log, writers []*writer) (kept, copies int) {
	held := map[string][]sealer.Record{}
	seen := map[string]bool{}
	for _, e := range collect(tb, l) {
		id := e.TenantID + " " + e.EventID
		if seen[id] {
			copies++
			continue
		}
		seen[id] = true
		held[e.TenantID] = append(held[e.TenantID], e.Record)
	}
	for _, w := range writers {
		kept += len(w.kept)
		rest := held[w.tenant]
		for _, r := range w.kept {
			for len(rest) > 0 && rest[0].EventID != r.EventID { // was written, and not acknowledged
				rest = rest[1:]
			}
			require.NotEmpty(tb, rest, "%s %s is missing or out of order", w.tenant, r.EventID)
			require.Equal(tb, r, rest[0])
			rest = rest[1:]
		}
	}
	return kept, copies
}

// TestAwayAndBack: the brokers answer nothing good for a while, under load.
func TestAwayAndBack(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	n := startNode(t, freshTopic(t, brokers, Topic{}), t.TempDir(), 50*time.Millisecond, 0)
	writers, stop := run(t, n, 8, "tnt_", 0)
	var spooled int64
	for range 3 {
		fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
		until := n.Pending() + 2000
		for n.Pending() < until {
			_, end, err := n.spool.Bounds(t.Context(), 0)
			require.NoError(t, err)
			require.NoError(t, n.spool.Wait(t.Context(), sealer.Position{Generation: 1, Offset: end.Offset + 100}))
			spooled = end.Offset
		}
		fault.Remove()
		n.drained(t)
	}
	stop()
	n.drained(t)
	kept, copies := requireKept(t, n.log, writers)
	require.Greater(t, kept, int(spooled))
	t.Logf("%d acknowledged, %d or more by the spool, 0 missing, %d copies", kept, spooled, copies)
}

// TestTraceparentGoesThroughTheSpool, which does not store it.
func TestTraceparentGoesThroughTheSpool(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	n := startNode(t, freshTopic(t, brokers, Topic{}), t.TempDir(), 50*time.Millisecond, 0)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	var want []sealer.Record
	for i := range 3 {
		r := testRecord("tnt_a", i)
		r.Traceparent = fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319%d-b7ad6b7169203331-01", i)
		want = append(want, r)
	}
	_, err := n.Append(t.Context(), &want[0])
	require.NoError(t, err)
	_, errs := n.AppendAll(t.Context(), []*sealer.Record{&want[1], &want[2]})
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, int64(3), n.Pending())
	fault.Remove()
	n.drained(t)
	newest := map[string]sealer.Record{} // attempts before the spool may have left copies
	for _, e := range collect(t, n.log) {
		newest[e.Record.EventID] = e.Record
	}
	for _, r := range want {
		require.Equal(t, r, newest[r.EventID])
	}
}

// TestManyAwayAndBack is TestAwayAndBack for records that come together, one of each tenant at
// a time, so that what was acknowledged has an order.
func TestManyAwayAndBack(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	n := startNode(t, freshTopic(t, brokers, Topic{}), t.TempDir(), 50*time.Millisecond, 0)
	writers := make([]*writer, 20)
	for i := range writers {
		writers[i] = &writer{tenant: "tnt_" + string(rune('a'+i))}
	}
	inTopic, spooled := 0, 0
	step := 0
	write := func(until func() bool) {
		for ; !until(); step++ {
			rs := make([]*sealer.Record, len(writers))
			for i, w := range writers {
				r := testRecord(w.tenant, step)
				rs[i] = &r
			}
			at, errs := n.AppendAll(t.Context(), rs)
			for i, w := range writers {
				require.NoError(t, errs[i])
				w.kept = append(w.kept, *rs[i])
				if at[i] == (sealer.Position{}) {
					spooled++
				} else {
					inTopic++
				}
			}
		}
	}
	for round := range 3 {
		write(func() bool { return inTopic >= 1000*(round+1) })
		fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
		write(func() bool { return spooled >= 1000*(round+1) })
		fault.Remove()
		n.drained(t)
	}
	kept, copies := requireKept(t, n.log, writers)
	require.Equal(t, step*len(writers), kept)
	t.Logf("%d acknowledged, %d of them by the spool, 0 missing, %d copies", kept, spooled, copies)
}

// TestManyForAFullSpool: each has an outcome of its own.
func TestManyForAFullSpool(t *testing.T) {
	_, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{})
	cfg.Brokers = []string{"127.0.0.1:1"}
	n := startNode(t, cfg, t.TempDir(), 20*time.Millisecond, 128<<10)
	good, huge := testRecord("tnt_a", 0), testRecord("tnt_a", 1)
	huge.Private = make([]byte, 2<<20)
	_, errs := n.AppendAll(t.Context(), []*sealer.Record{&good, &huge})
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], ErrTooLarge)
	require.Equal(t, int64(1), n.Pending())

	large := testRecord("tnt_a", 2)
	large.Private = make([]byte, 10<<10)
	waittest.Until(t, func() bool {
		_, errs = n.AppendAll(t.Context(), []*sealer.Record{&large, &large})
		return errors.Is(errs[0], pipeline.ErrFull) && errors.Is(errs[1], pipeline.ErrFull)
	})

	ended, end := context.WithCancel(t.Context())
	end()
	_, errs = n.AppendAll(ended, []*sealer.Record{&good})
	require.ErrorIs(t, errs[0], context.Canceled)
}

// TestNoBrokersAtTheStart: a node without brokers serves from its spool, and its
// next life drains it.
func TestNoBrokersAtTheStart(t *testing.T) {
	_, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{})
	dir := t.TempDir()

	away := cfg
	away.Brokers = []string{"127.0.0.1:1"}
	n := startNode(t, away, dir, 20*time.Millisecond, 0)
	w := &writer{tenant: "tnt_a"}
	for i := range 1500 {
		r := testRecord("tnt_a", i)
		at, err := n.Append(t.Context(), &r)
		require.NoError(t, err)
		require.Zero(t, at, "it has no position in the topic")
		w.kept = append(w.kept, r)
	}
	require.Error(t, n.log.Ready())
	require.Equal(t, int64(1500), n.Pending())
	n.stopped(t)

	n = startNode(t, cfg, dir, time.Hour, 0)
	r := testRecord("tnt_a", 1500)
	_, err := n.Append(t.Context(), &r)
	require.NoError(t, err)
	w.kept = append(w.kept, r)
	n.drained(t)
	_, copies := requireKept(t, n.log, []*writer{w})
	require.Zero(t, copies)
	n.stopped(t)

	// What was drained isn't drained once more.
	n = startNode(t, cfg, dir, time.Hour, 0)
	n.drained(t)
	_, copies = requireKept(t, n.log, []*writer{w})
	require.Zero(t, copies)
	n.stopped(t)

	// Without the mark it is: copies, and nothing missing.
	require.NoError(t, os.Remove(filepath.Join(dir, "drained")))
	n = startNode(t, cfg, dir, time.Hour, 0)
	n.drained(t)
	_, copies = requireKept(t, n.log, []*writer{w})
	require.Positive(t, copies)
	n.stopped(t)

	// A spool that is gone, with its mark left, is noticed.
	log, err := Open(cfg)
	require.NoError(t, err)
	defer log.Close()
	fresh, err := segment.Open(segment.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer fresh.Close()
	_, err = OpenSpooled(SpoolConfig{Log: log, Spool: fresh, Mark: filepath.Join(dir, "drained")})
	require.ErrorContains(t, err, "lost or restored")
}

// TestSpoolAtItsCap: what finds no space is refused, and what was acknowledged is not
// among it.
func TestSpoolAtItsCap(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	n := startNode(t, freshTopic(t, brokers, Topic{}), t.TempDir(), 20*time.Millisecond, 256<<10)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	w := &writer{tenant: "tnt_a"}
	for i := 0; ; i++ {
		r := testRecord("tnt_a", i)
		_, err := n.Append(t.Context(), &r)
		if err != nil {
			require.ErrorIs(t, err, pipeline.ErrFull)
			break
		}
		w.kept = append(w.kept, r)
	}
	require.Greater(t, len(w.kept), 1000)
	require.ErrorIs(t, n.Writable(t.Context()), pipeline.ErrFull)
	fault.Remove()
	n.drained(t)
	require.NoError(t, n.Writable(t.Context()))
	r := testRecord("tnt_a", len(w.kept))
	_, err := n.Append(t.Context(), &r)
	require.NoError(t, err)
	w.kept = append(w.kept, r)
	n.drained(t)
	requireKept(t, n.log, []*writer{w})

	first, _, err := n.spool.Bounds(t.Context(), 0)
	require.NoError(t, err)
	require.Positive(t, first.Offset, "what is drained is removed")
}

// brokenSpool refuses to append.
type brokenSpool struct {
	Spool
	broken atomic.Bool
}

var errBroken = errors.New("broken disk")

func (s *brokenSpool) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if s.broken.Load() {
		return sealer.Position{}, errBroken
	}
	return s.Spool.Append(ctx, r)
}

func (s *brokenSpool) Writable(ctx context.Context) error {
	if s.broken.Load() {
		return errBroken
	}
	return s.Spool.Writable(ctx)
}

// TestSpoolFails: without brokers and spool nothing is promised, and the topic is
// used again as soon as it can be.
func TestSpoolFails(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	log := mustOpen(t, freshTopic(t, brokers, Topic{}))
	dir := t.TempDir()
	disk, err := segment.Open(segment.Config{Dir: dir})
	require.NoError(t, err)
	defer disk.Close()
	spool := &brokenSpool{Spool: disk}
	s, err := OpenSpooled(SpoolConfig{Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), AckTimeout: 20 * time.Millisecond})
	require.NoError(t, err)
	defer s.Close()

	spool.broken.Store(true)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	r := testRecord("tnt_a", 0)
	_, err = s.Append(t.Context(), &r)
	require.ErrorIs(t, err, errBroken)
	require.ErrorIs(t, s.Writable(t.Context()), errBroken)
	fault.Remove()
	// The topic takes records again as soon as its sender tries again.
	waittest.Until(t, func() bool {
		at, err := s.Append(t.Context(), &r)
		return err == nil && at != sealer.Position{}
	})
	require.NoError(t, s.Writable(t.Context()), "the topic takes what the spool would not")
}

// TestTooLargeIsNotSpooled: what the topic would never take isn't promised.
func TestTooLargeIsNotSpooled(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	n := startNode(t, freshTopic(t, brokers, Topic{}), t.TempDir(), 20*time.Millisecond, 0)
	r := testRecord("tnt_a", 0)
	r.Private = make([]byte, 5<<20)
	_, err := n.Append(t.Context(), &r)
	require.ErrorIs(t, err, ErrTooLarge)

	cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	r.Private = make([]byte, 2<<20)
	_, err = n.Append(t.Context(), &r)
	require.ErrorIs(t, err, ErrTooLarge)
	require.Zero(t, n.Pending())
}

// TestCallerGivesUp: a caller that has gone isn't served by the spool.
func TestCallerGivesUp(t *testing.T) {
	_, brokers := fakeCluster(t)
	n := startNode(t, freshTopic(t, brokers, Topic{}), t.TempDir(), time.Minute, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := testRecord("tnt_a", 0)
	_, err := n.Append(ctx, &r)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, n.Pending())
}

// TestAckTimeoutEndsBeforeTheCaller: whatever AckTimeout is, a caller with a deadline
// has time left for the spool.
func TestAckTimeoutEndsBeforeTheCaller(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	n := startNode(t, freshTopic(t, brokers, Topic{}), t.TempDir(), time.Hour, 0)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	r := testRecord("tnt_a", 0)
	_, err := n.Append(ending{t.Context()}, &r)
	require.NoError(t, err)
	require.EqualValues(t, 1, n.Pending())
	fault.Remove()
	n.drained(t)
}

// TestCallersGiveUpOnFailingBrokers: callers that go before the node's AckTimeout
// have its next ones served by the spool, if the brokers failed meanwhile.
func TestCallersGiveUpOnFailingBrokers(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	n := startNodeWith(t, freshTopic(t, brokers, Topic{}), SpoolConfig{AckTimeout: time.Hour, CheckEvery: time.Hour}, t.TempDir(), 0)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	ctx, cancel := context.WithCancel(t.Context())
	failing := later(func() error {
		defer cancel()
		return fault.Wait(ctx, 3)
	})
	r := testRecord("tnt_a", 0)
	_, err := n.Append(ctx, &r)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, <-failing)
	for i := range 2 {
		r := testRecord("tnt_a", 1+i)
		_, err = n.Append(t.Context(), &r)
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, n.Pending())
	fault.Remove()
	n.drained(t)
}

// later calls f, and sends what it returns.
func later(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// awaitWriting waits until so many appends to the spool run.
func (s *Spooled) awaitWriting(tb testing.TB, n int) {
	tb.Helper()
	waittest.Until(tb, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.writing == n
	})
}
