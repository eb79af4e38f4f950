package kafka

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment/pipeline"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// node is a gateway's log: a topic with a spool in front.
type node struct {
	*Spooled
	spool *segment.Log
	log   *Log
}

func startNode(tb testing.TB, cfg Config, dir string, patience time.Duration, most int64) node {
	return startNodeWith(tb, cfg, SpoolConfig{Patience: patience}, dir, most)
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
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	for {
		route, changed := n.look()
		if route == toTopic && n.Pending() == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.Fail(tb, "the spool is not drained")
		}
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
			pause(ctx, w.pace)
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

// requireKept asks that the log holds each acknowledged record, that those of a
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
	require.Eventually(t, func() bool {
		_, errs = n.AppendAll(t.Context(), []*sealer.Record{&large, &large})
		return errors.Is(errs[0], pipeline.ErrFull) && errors.Is(errs[1], pipeline.ErrFull)
	}, time.Minute, time.Millisecond)

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

// TestSpoolAtItsCap: what finds no room is refused, and what was acknowledged is not
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
	fault.Remove()
	n.drained(t)
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
	s, err := OpenSpooled(SpoolConfig{Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), Patience: 20 * time.Millisecond})
	require.NoError(t, err)
	defer s.Close()

	spool.broken.Store(true)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	r := testRecord("tnt_a", 0)
	_, err = s.Append(t.Context(), &r)
	require.ErrorIs(t, err, errBroken)
	fault.Remove()
	// The topic takes records again as soon as its sender tries again.
	require.Eventually(t, func() bool {
		at, err := s.Append(t.Context(), &r)
		return err == nil && at != sealer.Position{}
	}, time.Minute, time.Millisecond)
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

// TestPatienceEndsBeforeTheCaller: however patient a node is, a caller with a deadline
// has time left for the spool.
func TestPatienceEndsBeforeTheCaller(t *testing.T) {
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

// TestCallersGiveUpOnFailingBrokers: callers that go before the node's patience ends
// have its next ones served by the spool, if the brokers failed meanwhile.
func TestCallersGiveUpOnFailingBrokers(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	n := startNodeWith(t, freshTopic(t, brokers, Topic{}), SpoolConfig{Patience: time.Hour, CheckEvery: time.Hour}, t.TempDir(), 0)
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

// TestNobodyComesForTheSpool: the topic is used again although no caller came since one
// gave up on it.
func TestNobodyComesForTheSpool(t *testing.T) {
	_, brokers := fakeCluster(t)
	dir := t.TempDir()
	spool, err := segment.Open(segment.Config{Dir: dir})
	require.NoError(t, err)
	defer spool.Close()
	log := mustOpen(t, freshTopic(t, brokers, Topic{}))
	s, err := OpenSpooled(SpoolConfig{Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), CheckEvery: 20 * time.Millisecond})
	require.NoError(t, err)
	defer s.Close()
	s.giveUp(errors.New("the brokers failed"))
	node{Spooled: s, log: log}.drained(t)
}

// TestNobodyWaitsAsTheSpoolIsBegun: while the first record of the spool is written, the
// next ones are, too.
func TestNobodyWaitsAsTheSpoolIsBegun(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	log := mustOpen(t, freshTopic(t, brokers, Topic{}))
	dir := t.TempDir()
	disk, err := segment.Open(segment.Config{Dir: dir})
	require.NoError(t, err)
	defer disk.Close()
	hold := make(chan struct{})
	spool := &slowSpool{Spool: disk}
	spool.hold.Store(&hold)
	s, err := OpenSpooled(SpoolConfig{Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), Patience: time.Hour, CheckEvery: time.Hour})
	require.NoError(t, err)
	defer s.Close()
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	var appended []<-chan error
	for i := range 3 {
		appended = append(appended, later(func() error {
			r := testRecord("tnt_a", i)
			_, err := s.Append(ending{t.Context()}, &r)
			return err
		}))
		s.awaitWriting(t, 1+i)
	}
	close(hold)
	for _, err := range appended {
		require.NoError(t, <-err)
	}
	fault.Remove()
	node{Spooled: s, log: log}.drained(t)
}

// TestBegunUnderLoad: the spool is drained from its first record on, though there is
// always somebody who writes it.
func TestBegunUnderLoad(t *testing.T) {
	_, brokers := fakeCluster(t)
	log := mustOpen(t, freshTopic(t, brokers, Topic{}))
	dir := t.TempDir()
	disk, err := segment.Open(segment.Config{Dir: dir})
	require.NoError(t, err)
	defer disk.Close()
	hold := make(chan struct{})
	spool := &slowSpool{Spool: disk}
	spool.hold.Store(&hold)
	s, err := OpenSpooled(SpoolConfig{Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), Patience: time.Hour, CheckEvery: time.Hour})
	require.NoError(t, err)
	defer s.Close()
	s.giveUp(errors.New("the brokers failed"))
	appended := make(chan error, 2)
	for i := range 2 {
		go func() {
			r := testRecord("tnt_a", i)
			_, err := s.Append(t.Context(), &r)
			appended <- err
		}()
	}
	s.awaitWriting(t, 2)
	hold <- struct{}{} // one of them
	require.NoError(t, <-appended)
	require.Eventually(t, func() bool { return s.Pending() == 0 }, time.Minute, time.Millisecond)
	s.awaitWriting(t, 1)
	close(hold)
	require.NoError(t, <-appended)
	node{Spooled: s, log: log}.drained(t)
	require.Len(t, collect(t, log), 2)
}

// later calls f, and tells what it returns.
func later(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// awaitWriting waits until so many appends to the spool run.
func (s *Spooled) awaitWriting(tb testing.TB, n int) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.writing == n
	}, time.Minute, time.Millisecond)
}

// slowSpool holds appends back.
type slowSpool struct {
	Spool
	hold atomic.Pointer[chan struct{}]
}

func (s *slowSpool) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if hold := s.hold.Load(); hold != nil {
		<-*hold
	}
	return s.Spool.Append(ctx, r)
}

// TestNobodyIsOvertaken: the topic isn't used again before the last one who writes
// the spool is done.
func TestNobodyIsOvertaken(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	log := mustOpen(t, freshTopic(t, brokers, Topic{}))
	dir := t.TempDir()
	disk, err := segment.Open(segment.Config{Dir: dir})
	require.NoError(t, err)
	defer disk.Close()
	spool := &slowSpool{Spool: disk}
	s, err := OpenSpooled(SpoolConfig{Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), Patience: 20 * time.Millisecond, CheckEvery: 20 * time.Millisecond})
	require.NoError(t, err)
	defer s.Close()
	w := &writer{tenant: "tnt_a"}
	add := func() {
		r := testRecord("tnt_a", len(w.kept))
		_, err := s.Append(t.Context(), &r)
		require.NoError(t, err)
		w.kept = append(w.kept, r)
	}
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	add()
	hold := make(chan struct{})
	spool.hold.Store(&hold)
	done := make(chan struct{})
	go func() { defer close(done); add() }()
	s.awaitWriting(t, 1)
	fault.Remove()
	for range 4 { // the drainer has tried to hand over
		_, changed := s.look()
		<-changed
		route, _ := s.look()
		require.NotEqual(t, toTopic, route)
	}
	close(hold)
	<-done
	add()
	node{Spooled: s, log: log}.drained(t)
	requireKept(t, log, []*writer{w})
}

// lateSpool writes a record after its caller has given up, as a disk does that hung.
type lateSpool struct {
	Spool
	giveUp func()        // the caller's
	write  chan struct{} // closed when it may
	wrote  chan error
}

func (s *lateSpool) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	s.giveUp()
	late := *r
	go func() {
		<-s.write
		_, err := s.Spool.Append(context.Background(), &late)
		s.wrote <- err
	}()
	<-ctx.Done()
	return sealer.Position{}, ctx.Err()
}

// TestWrittenLate: a record that reaches the spool after its caller has given up, and
// the spool was thought empty, doesn't stay there.
func TestWrittenLate(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	log := mustOpen(t, freshTopic(t, brokers, Topic{}))
	dir := t.TempDir()
	disk, err := segment.Open(segment.Config{Dir: dir})
	require.NoError(t, err)
	defer disk.Close()
	ctx, cancel := context.WithCancel(t.Context())
	spool := &lateSpool{disk, cancel, make(chan struct{}), make(chan error)}
	s, err := OpenSpooled(SpoolConfig{
		Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), Patience: 20 * time.Millisecond, CheckEvery: 20 * time.Millisecond,
	})
	require.NoError(t, err)
	defer s.Close()
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	r := testRecord("tnt_a", 0)
	_, err = s.Append(ctx, &r)
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return log.queued.Load() == 0 }, time.Minute, time.Millisecond, "no request has it any more")
	fault.Remove()
	n := node{Spooled: s, log: log}
	n.drained(t)
	close(spool.write)
	require.NoError(t, <-spool.wrote)
	require.Eventually(t, func() bool { return s.Pending() == 0 }, time.Minute, time.Millisecond)
	n.drained(t)
	require.Len(t, collect(t, log), 1)
}

// TestNodeEndsWithoutBrokers: a node that ends doesn't wait for brokers that are away to
// take what its spool holds.
func TestNodeEndsWithoutBrokers(t *testing.T) {
	t.Parallel()
	cluster, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{})
	cfg.RequestTimeout = time.Hour // that Close would wait for
	dir := t.TempDir()
	n := startNode(t, cfg, dir, 20*time.Millisecond, 0)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	w := &writer{tenant: "tnt_a", kept: []sealer.Record{testRecord("tnt_a", 0)}}
	_, err := n.Append(t.Context(), &w.kept[0])
	require.NoError(t, err)
	require.NoError(t, fault.Wait(t.Context(), 10), "the drainer's window is on its way")
	n.stopped(t)
	fault.Remove()
	n = startNode(t, cfg, dir, time.Hour, 0)
	n.drained(t)
	requireKept(t, n.log, []*writer{w})
}

// TestNodeEndsWithALateRecord: a record that was written late doesn't have those lost that
// are on their way to the topic as the node ends.
func TestNodeEndsWithALateRecord(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{})
	cfg.RequestTimeout = time.Hour // that Close waits for it
	n := startNodeWith(t, cfg, SpoolConfig{Patience: time.Hour, CheckEvery: time.Hour}, t.TempDir(), 0)
	late := testRecord("tnt_b", 0)
	_, err := n.spool.Append(t.Context(), &late)
	require.NoError(t, err)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	r := testRecord("tnt_a", 0)
	appended := later(func() error {
		_, err := n.Append(t.Context(), &r)
		return err
	})
	require.NoError(t, fault.Wait(t.Context(), 1), "it is on its way")
	n.stop() // as Close does, before it looks at the route
	n.drainer.Wait()
	closed := later(n.Close)
	<-n.log.closing
	fault.Remove()
	require.NoError(t, <-appended)
	require.NoError(t, <-closed)
}

// watchedSpool counts the looks into it.
type watchedSpool struct {
	Spool
	looks atomic.Int32
}

func (s *watchedSpool) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	s.looks.Add(1)
	return s.Spool.Bounds(ctx, partition)
}

// TestNodeEndsWithoutRecords: a node that ends while its drainer waits for the first
// record, as the brokers have failed, doesn't use them again, nor waits for them.
func TestNodeEndsWithoutRecords(t *testing.T) {
	_, brokers := fakeCluster(t)
	log := mustOpen(t, freshTopic(t, brokers, Topic{}))
	dir := t.TempDir()
	disk, err := segment.Open(segment.Config{Dir: dir})
	require.NoError(t, err)
	defer disk.Close()
	spool := &watchedSpool{Spool: disk}
	s, err := OpenSpooled(SpoolConfig{Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), CheckEvery: time.Hour})
	require.NoError(t, err)
	defer s.Close()
	before := spool.looks.Load()
	s.giveUp(errors.New("the brokers failed"))
	require.Eventually(t, func() bool { return spool.looks.Load() > before }, time.Minute, time.Millisecond)
	s.stop() // as Close does, before it looks at the route
	s.drainer.Wait()
	route, _ := s.look()
	require.Equal(t, toSpool, route)
}

// TestStuckRecord: what was promised is never left out, even while the topic refuses
// it.
func TestStuckRecord(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	n := startNode(t, freshTopic(t, brokers, Topic{}), t.TempDir(), 20*time.Millisecond, 0)
	away := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	w := &writer{tenant: "tnt_a"}
	for i := range 3 {
		r := testRecord("tnt_a", i)
		_, err := n.Append(t.Context(), &r)
		require.NoError(t, err)
		w.kept = append(w.kept, r)
	}
	refusing := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.InvalidRecord, Count: -1})
	away.Remove()
	require.NoError(t, refusing.Wait(t.Context(), 4))
	require.Equal(t, int64(3), n.Pending())
	refusing.Remove()
	n.drained(t)
	requireKept(t, n.log, []*writer{w})
}
