package kafka

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

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
	s.useSpool(errors.New("the brokers failed"))
	node{Spooled: s, log: log}.drained(t)
}

// TestNobodyWaitsAsTheSpoolIsBegun: while the first record of the spool is written, the
// next ones are, too.
func TestNobodyWaitsAsTheSpoolIsBegun(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	s, hold := startHeld(t, brokers)
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
	s.drained(t)
}

// TestBegunUnderLoad: the spool is drained from its first record on, though
// records are always being written to it.
func TestBegunUnderLoad(t *testing.T) {
	_, brokers := fakeCluster(t)
	s, hold := startHeld(t, brokers)
	s.useSpool(errors.New("the brokers failed"))
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
	waittest.Until(t, func() bool { return s.Pending() == 0 })
	s.awaitWriting(t, 1)
	close(hold)
	require.NoError(t, <-appended)
	s.drained(t)
	require.Len(t, collect(t, s.log), 2)
}

// startHeld starts a node whose appends to the spool wait for hold.
func startHeld(tb testing.TB, brokers []string) (n node, hold chan struct{}) {
	log := mustOpen(tb, freshTopic(tb, brokers, Topic{}))
	dir := tb.TempDir()
	disk, err := segment.Open(segment.Config{Dir: dir})
	require.NoError(tb, err)
	tb.Cleanup(func() { disk.Close() })
	hold = make(chan struct{})
	spool := &slowSpool{Spool: disk}
	spool.hold.Store(&hold)
	s, err := OpenSpooled(SpoolConfig{Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), AckTimeout: time.Hour, CheckEvery: time.Hour})
	require.NoError(tb, err)
	tb.Cleanup(func() { s.Close() })
	return node{Spooled: s, log: log}, hold
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
	s, err := OpenSpooled(SpoolConfig{Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), AckTimeout: 20 * time.Millisecond, CheckEvery: 20 * time.Millisecond})
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
		_, changed := s.currentRoute()
		<-changed
		route, _ := s.currentRoute()
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
		Log: log, Spool: spool, Mark: filepath.Join(dir, "drained"), AckTimeout: 20 * time.Millisecond, CheckEvery: 20 * time.Millisecond,
	})
	require.NoError(t, err)
	defer s.Close()
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	r := testRecord("tnt_a", 0)
	_, err = s.Append(ctx, &r)
	require.ErrorIs(t, err, context.Canceled)
	waittest.Until(t, func() bool { return log.queued.Load() == 0 }, "no request has it any more")
	fault.Remove()
	n := node{Spooled: s, log: log}
	n.drained(t)
	close(spool.write)
	require.NoError(t, <-spool.wrote)
	waittest.Until(t, func() bool { return s.Pending() == 0 })
	n.drained(t)
	require.Len(t, collect(t, log), 1)
}

// TestDrainedSpoolHoldsNothing: what was drained is soon in none of the spool's files, however
// little went there. It may name a person.
func TestDrainedSpoolHoldsNothing(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	dir := t.TempDir()
	n := startNodeWith(t, freshTopic(t, brokers, Topic{}), SpoolConfig{AckTimeout: 20 * time.Millisecond, CheckEvery: 20 * time.Millisecond}, dir, 1<<20)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	r := testRecord("tnt_a", 7)
	_, err := n.Append(t.Context(), &r)
	require.NoError(t, err)
	holds := func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		return slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			require.True(t, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
			return bytes.Contains(text, r.Private)
		})
	}
	require.True(t, holds())
	fault.Remove()
	waittest.Until(t, func() bool { return !holds() })
	require.NotEmpty(t, collect(t, n.log))
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
	n := startNodeWith(t, cfg, SpoolConfig{AckTimeout: time.Hour, CheckEvery: time.Hour}, t.TempDir(), 0)
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
	s.useSpool(errors.New("the brokers failed"))
	waittest.Until(t, func() bool { return spool.looks.Load() > before })
	s.stop() // as Close does, before it looks at the route
	s.drainer.Wait()
	route, _ := s.currentRoute()
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
