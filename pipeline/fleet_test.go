package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// shelves is a log of several partitions, each of them a log in memory.
type shelves []conform.MemoryLog

func (s shelves) Partitions(context.Context) (int, error) { return len(s), nil }

// PartitionOf reads the partition from the tenant's id.
func (s shelves) PartitionOf(_ context.Context, tenantID string) (int32, error) {
	partition, err := strconv.Atoi(strings.TrimPrefix(tenantID, "tnt_"))
	return int32(partition), err
}

func (s shelves) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	first, end, err = s[partition].Bounds(ctx, 0)
	first.Partition, end.Partition = partition, partition
	return first, end, err
}

func (s shelves) Read(ctx context.Context, at sealer.Position) (sealer.Entry, error) {
	partition := at.Partition
	at.Partition = 0
	e, err := s[partition].Read(ctx, at)
	e.Partition = partition
	return e, err
}

func (s shelves) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	partition := from.Partition
	from.Partition, to.Partition = 0, 0
	return s[partition].Scan(ctx, from, to, func(e sealer.Entry) error {
		e.Partition = partition
		return fn(e)
	})
}

func (s shelves) Wait(ctx context.Context, at sealer.Position) error {
	partition := at.Partition
	at.Partition = 0
	return s[partition].Wait(ctx, at)
}

// fill appends deliveries from to to−1, to the tenants of all partitions in turn.
func (s shelves) fill(tb testing.TB, from, to int) {
	tb.Helper()
	for n := from; n < to; n++ {
		partition := n % len(s)
		r := delivered(tb, fmt.Sprint("tnt_", partition), n)
		_, err := s[partition].Append(tb.Context(), &r)
		require.NoError(tb, err)
	}
}

// byHand assigns what a test sets.
type byHand struct {
	ctx   context.Context // Run's
	load  func(ctx context.Context, partition int32)
	loads sync.WaitGroup
	end   error
}

func (a *byHand) Run(ctx context.Context, load func(ctx context.Context, partition int32)) error {
	a.ctx, a.load = ctx, load
	<-ctx.Done()
	a.loads.Wait()
	return a.end
}

// give assigns a partition; take takes it away again.
func (a *byHand) give(partition int32) (take func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	done := make(chan struct{})
	a.loads.Go(func() { a.load(ctx, partition); close(done) })
	synctest.Wait()
	return func() { cancel(); <-done }
}

// muster runs a fleet in the bubble; stop ends it.
func muster(t *testing.T, cfg pipeline.FleetConfig) (f *pipeline.Fleet, stop func() error) {
	t.Helper()
	f, err := pipeline.NewFleet(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	synctest.Wait()
	return f, func() error {
		cancel()
		return <-done
	}
}

func requireFleetLag(t *testing.T, f *pipeline.Fleet, want int64) {
	t.Helper()
	lag, err := f.Lag(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, lag)
}

func TestFleetLoadsAllPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(shelves, 3)
		log.fill(t, 0, 10)
		var w conform.MemoryWarehouse
		var here atomic.Bool
		s := &sink{Sink: &w, load: func(ctx context.Context, b pipeline.Batch) error {
			if !here.Load() {
				return errors.New("away")
			}
			return w.Load(ctx, b)
		}}
		reg := prometheus.NewPedanticRegistry()
		f, stop := muster(t, pipeline.FleetConfig{
			Loader:     pipeline.LoaderConfig{Log: log, Warehouse: s, Registerer: reg},
			Assignment: pipeline.AllPartitions(log),
		})
		require.Equal(t, []int32{0, 1, 2}, f.Partitions())
		requireFleetLag(t, f, 10)
		here.Store(true)
		log.fill(t, 10, 20)
		for _, p := range f.Partitions() {
			_, end, err := log.Bounds(t.Context(), p)
			require.NoError(t, err)
			waittest.Until(t, func() bool {
				next, ok, err := w.Resume(t.Context(), p)
				return err == nil && ok && next == end
			})
		}
		requireFleetLag(t, f, 0)
		require.NoError(t, f.Ready(t.Context()))
		text, err := f.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, "partitions [0 1 2], 0 records behind the log", text)
		for partition, want := range []int64{7, 7, 6} {
			n, err := w.CountEvents(t.Context(), fmt.Sprint("tnt_", partition))
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		require.NoError(t, stop())
		requireNoMetrics(t, reg)
	})
}

func requireNoMetrics(t *testing.T, reg *prometheus.Registry) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Empty(t, families, "all metrics were taken back")
}

// A partition that comes, goes and comes back has one loader's metrics at a time.
func TestFleetFollowsItsAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(shelves, 2)
		log.fill(t, 0, 4)
		var w conform.MemoryWarehouse
		reg := prometheus.NewPedanticRegistry()
		by := &byHand{}
		f, stop := muster(t, pipeline.FleetConfig{
			Loader: pipeline.LoaderConfig{Log: log, Warehouse: &w, Registerer: reg}, Assignment: by,
		})
		requireNoMetrics(t, reg)
		text, err := f.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, "no partition is assigned to this process", text)

		for round := range 3 {
			take := by.give(1)
			require.Equal(t, []int32{1}, f.Partitions())
			requireFleetLag(t, f, 0)
			require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
				# HELP muniment_loader_position Offset that the warehouse has loaded up to.
				# TYPE muniment_loader_position gauge
				muniment_loader_position{partition="1"} %d
			`, 2+round)), "muniment_loader_position"))
			take()
			requireNoMetrics(t, reg)
			require.Empty(t, f.Partitions())
			log.fill(t, 4+2*round, 6+2*round)
		}
		require.NoError(t, stop())
	})
}

// A loader that stops is named; the others go on, and the process that gets the partition next
// tries anew.
func TestFleetGoesOnWithoutAStoppedLoader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(shelves, 2)
		log.fill(t, 0, 8)
		log[1].Retire(2)
		var w conform.MemoryWarehouse
		reg := prometheus.NewPedanticRegistry()
		by := &byHand{}
		f, stop := muster(t, pipeline.FleetConfig{
			Loader: pipeline.LoaderConfig{Log: log, Warehouse: &w, Registerer: reg}, Assignment: by,
		})
		by.give(0)
		take := by.give(1)
		require.ErrorIs(t, f.Ready(t.Context()), pipeline.ErrGap)
		require.ErrorContains(t, f.Ready(t.Context()), "loader of partition 1 stopped")
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
			# HELP muniment_loader_stopped 1 when the loader has stopped, because going on would lose or invent records.
			# TYPE muniment_loader_stopped gauge
			muniment_loader_stopped{partition="0"} 0
			muniment_loader_stopped{partition="1"} 1
		`), "muniment_loader_stopped"))
		_, err := f.Lag(t.Context())
		require.ErrorContains(t, err, "lag of partition 1")

		log.fill(t, 8, 12)
		synctest.Wait()
		next, _, err := w.Resume(t.Context(), 0)
		require.NoError(t, err)
		require.EqualValues(t, 6, next.Offset, "the other partition is loaded")

		take()
		require.NoError(t, f.Ready(t.Context()), "another process has it now")
		require.NoError(t, w.Load(t.Context(), pipeline.Batch{Partition: 1, Next: sealer.Position{Generation: 1, Partition: 1, Offset: 2}}))
		by.give(1)
		require.NoError(t, f.Ready(t.Context()))
		requireFleetLag(t, f, 0)
		require.NoError(t, stop())
	})
}

func TestFleetEndsWithItsAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(shelves, 1)
		var w conform.MemoryWarehouse
		refused := errors.New("refused")
		_, stop := muster(t, pipeline.FleetConfig{
			Loader: pipeline.LoaderConfig{Log: log, Warehouse: &w}, Assignment: &byHand{end: refused},
		})
		require.ErrorIs(t, stop(), refused)

		_, err := pipeline.NewFleet(pipeline.FleetConfig{Loader: pipeline.LoaderConfig{Log: log, Warehouse: &w}})
		require.ErrorContains(t, err, "Assignment")
		_, err = pipeline.NewFleet(pipeline.FleetConfig{Assignment: &byHand{}})
		require.ErrorContains(t, err, "Log")
	})
}

// awayLog is a log whose Partitions fails at first.
type awayLog struct {
	shelves
	calls atomic.Int32
}

func (l *awayLog) Partitions(ctx context.Context) (int, error) {
	if l.calls.Add(1) < 4 {
		return 0, errors.New("the brokers are away")
	}
	return l.shelves.Partitions(ctx)
}

// TestAllPartitionsWaitsForTheLog: a log that is away when the process starts ends
// nothing.
func TestAllPartitionsWaitsForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		loading, done := make(chan int32, 2), make(chan error, 1)
		go func() {
			done <- pipeline.AllPartitions(&awayLog{shelves: make(shelves, 2)}).Run(ctx, func(_ context.Context, p int32) { loading <- p })
		}()
		synctest.Wait()
		require.Empty(t, done)
		require.ElementsMatch(t, []int32{0, 1}, []int32{<-loading, <-loading})
		cancel()
		require.NoError(t, <-done)
	})
}
