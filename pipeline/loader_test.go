package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// reader and sink stand between the loader and its engines.
type reader struct {
	pipeline.Reader
	bounds func(context.Context, int32) (sealer.Position, sealer.Position, error)
	scan   func(context.Context, sealer.Position, sealer.Position, func(sealer.Entry) error) error
	wait   func(context.Context, sealer.Position) error
	home   func(context.Context, string) (int32, error)
}

func (r *reader) PartitionOf(ctx context.Context, tenantID string) (int32, error) {
	if r.home != nil {
		return r.home(ctx, tenantID)
	}
	return r.Reader.PartitionOf(ctx, tenantID)
}

func (r *reader) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	if r.bounds != nil {
		return r.bounds(ctx, partition)
	}
	return r.Reader.Bounds(ctx, partition)
}

func (r *reader) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	if r.scan != nil {
		return r.scan(ctx, from, to, fn)
	}
	return r.Reader.Scan(ctx, from, to, fn)
}

func (r *reader) Wait(ctx context.Context, at sealer.Position) error {
	if r.wait != nil {
		return r.wait(ctx, at)
	}
	return r.Reader.Wait(ctx, at)
}

// Chain is the reader's log's, if that has one.
func (r *reader) Chain(ctx context.Context, at sealer.Position) ([]byte, error) {
	if log, ok := r.Reader.(pipeline.Chained); ok {
		return log.Chain(ctx, at)
	}
	return nil, nil
}

type sink struct {
	pipeline.Sink
	load   func(context.Context, pipeline.Batch) error
	resume func(context.Context, int32) (sealer.Position, bool, error)
}

func (s *sink) Load(ctx context.Context, b pipeline.Batch) error {
	if s.load != nil {
		return s.load(ctx, b)
	}
	return s.Sink.Load(ctx, b)
}

func (s *sink) Resume(ctx context.Context, partition int32) (sealer.Position, bool, error) {
	if s.resume != nil {
		return s.resume(ctx, partition)
	}
	return s.Sink.Resume(ctx, partition)
}

// Chain is the sink's warehouse's, if that keeps one.
func (s *sink) Chain(ctx context.Context, partition int32) ([]byte, error) {
	if w, ok := s.Sink.(pipeline.ChainKeeper); ok {
		return w.Chain(ctx, partition)
	}
	return nil, nil
}

// memory is a log and a warehouse in memory, with what stands between.
type memory struct {
	log       conform.MemoryLog
	warehouse conform.MemoryWarehouse
	reader    reader
	sink      sink
	cfg       pipeline.LoaderConfig
}

func newMemory() *memory {
	m := &memory{}
	m.reader.Reader, m.sink.Sink = &m.log, &m.warehouse
	m.cfg = pipeline.LoaderConfig{Log: &m.reader, Warehouse: &m.sink, BatchSize: 10}
	return m
}

// fill appends deliveries from to to−1 of one tenant.
func (m *memory) fill(tb testing.TB, from, to int) {
	tb.Helper()
	for n := from; n < to; n++ {
		r := delivered(tb, "tnt_a", n)
		_, err := m.log.Append(tb.Context(), &r)
		require.NoError(tb, err)
	}
}

// requireLoaded requires that exactly the deliveries 0 to n−1 are loaded.
func requireLoaded(tb testing.TB, w pipeline.Warehouse, n int) {
	tb.Helper()
	rows, err := w.Events(tb.Context(), pipeline.EventQuery{TenantID: "tnt_a", Limit: n + 1})
	require.NoError(tb, err)
	require.Len(tb, rows, n)
	for i, r := range rows {
		want := delivered(tb, "tnt_a", i)
		require.Equal(tb, want, r.Record)
	}
}

// start runs a loader in the bubble; stop ends it and returns what Run did.
func start(t *testing.T, cfg pipeline.LoaderConfig) (l *pipeline.Loader, stop func() error) {
	t.Helper()
	l, err := pipeline.NewLoader(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	synctest.Wait()
	return l, func() error {
		cancel()
		return <-done
	}
}

// run runs a loader that is expected to stop by itself.
func run(t *testing.T, cfg pipeline.LoaderConfig) error {
	t.Helper()
	l, err := pipeline.NewLoader(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	err = l.Run(ctx)
	require.NoError(t, ctx.Err(), "the loader didn't stop by itself")
	return err
}

func TestLoaderLoadsWhatIsThereAndWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 35)
		var sizes []int
		m.sink.load = func(ctx context.Context, b pipeline.Batch) error {
			sizes = append(sizes, len(b.Rows))
			return m.warehouse.Load(ctx, b)
		}
		_, stop := start(t, m.cfg)
		requireLoaded(t, &m.warehouse, 35)
		require.Equal(t, []int{10, 10, 10, 5}, sizes)

		m.fill(t, 35, 36)
		synctest.Wait()
		requireLoaded(t, &m.warehouse, 36)
		require.NoError(t, stop())

		// The next one goes on where this one was.
		m.fill(t, 36, 40)
		sizes = nil
		_, stop = start(t, m.cfg)
		requireLoaded(t, &m.warehouse, 40)
		require.Equal(t, []int{4}, sizes)
		require.NoError(t, stop())
	})
}

func TestLoaderBoundsBatchesByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for range 5 {
			// Noise is quarantined, but has to be held all the same.
			_, err := m.log.Append(t.Context(), &sealer.Record{TenantID: "tnt_a", Event: make([]byte, 6<<20)})
			require.NoError(t, err)
		}
		var sizes []int
		m.sink.load = func(_ context.Context, b pipeline.Batch) error {
			sizes = append(sizes, len(b.Quarantined))
			return nil
		}
		_, stop := start(t, m.cfg)
		require.Equal(t, []int{2, 2, 1}, sizes)
		require.NoError(t, stop())
	})
}

// TestLoaderQuarantinesWhatIsOutsideOfItsPartition has records of a tenant of another
// partition in this one. Where that is has to be known first.
func TestLoaderQuarantinesWhatIsOutsideOfItsPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 2)
		stray := delivered(t, "tnt_b", 2)
		at, err := m.log.Append(t.Context(), &stray)
		require.NoError(t, err)
		m.fill(t, 2, 3)
		var here atomic.Bool
		m.reader.home = func(_ context.Context, tenantID string) (int32, error) {
			if !here.Load() {
				return 0, errors.New("no broker")
			}
			return map[string]int32{"tnt_a": 0, "tnt_b": 3}[tenantID], nil
		}
		_, stop := start(t, m.cfg)
		_, loaded, err := m.warehouse.Resume(t.Context(), 0)
		require.NoError(t, err)
		require.False(t, loaded)
		here.Store(true)
		time.Sleep(time.Minute)
		requireLoaded(t, &m.warehouse, 3)
		held, err := m.warehouse.Quarantined(t.Context(), "tnt_b")
		require.NoError(t, err)
		require.Equal(t, []pipeline.Quarantined{{
			Position: at, TenantID: "tnt_b", EventID: stray.EventID, Record: sealer.AppendRecord(nil, &stray),
			Reason: "record at 1.0.2: tnt_b is in partition 3",
		}}, held)
		n, err := m.warehouse.CountEvents(t.Context(), "tnt_b")
		require.NoError(t, err)
		require.Zero(t, n)
		held, err = m.warehouse.Quarantined(t.Context(), "tnt_a")
		require.NoError(t, err)
		require.Empty(t, held)
		require.NoError(t, stop())
	})
}

func TestLoaderPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l, stop := start(t, m.cfg)
		l.Pause()
		l.Pause()
		m.fill(t, 0, 20)
		synctest.Wait()
		requireLoaded(t, &m.warehouse, 0)
		requireLag(t, l, 20)
		l.Resume()
		l.Resume()
		synctest.Wait()
		requireLoaded(t, &m.warehouse, 20)
		requireLag(t, l, 0)
		l.Pause()
		m.fill(t, 20, 21)
		synctest.Wait()
		require.NoError(t, stop(), "a paused loader can be stopped")
		requireLoaded(t, &m.warehouse, 20)
	})
}

func requireLag(t *testing.T, l *pipeline.Loader, want int64) {
	t.Helper()
	lag, err := l.Lag(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, lag)
}

func TestLagIsNotKnownBeforeRun(t *testing.T) {
	m := newMemory()
	l, err := pipeline.NewLoader(m.cfg)
	require.NoError(t, err)
	_, err = l.Lag(t.Context())
	require.Error(t, err)
}

func TestLoaderMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 12)
		_, err := m.log.Append(t.Context(), &sealer.Record{TenantID: "tnt_a", Event: []byte("noise")})
		require.NoError(t, err)
		away := false
		m.sink.load = func(ctx context.Context, b pipeline.Batch) error {
			if away {
				return errors.New("away")
			}
			time.Sleep(2 * time.Second)
			return m.warehouse.Load(ctx, b)
		}
		reg := prometheus.NewPedanticRegistry()
		m.cfg.Registerer = reg
		other := m.cfg
		other.Partition = 1
		_, err = pipeline.NewLoader(other)
		require.NoError(t, err, "a loader each partition, on one registry")

		_, stop := start(t, m.cfg)
		defer stop()
		time.Sleep(10 * time.Second)
		compare := func(want string, names ...string) {
			t.Helper()
			require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), names...))
		}
		compare(`
			# HELP muniment_loader_rows_total Records loaded as rows, copies of one event each counted.
			# TYPE muniment_loader_rows_total counter
			muniment_loader_rows_total{partition="0"} 12
			muniment_loader_rows_total{partition="1"} 0
			# HELP muniment_loader_set_aside_total Records quarantined because their parts disagree or can't be read.
			# TYPE muniment_loader_set_aside_total counter
			muniment_loader_set_aside_total{partition="0"} 1
			muniment_loader_set_aside_total{partition="1"} 0
			# HELP muniment_loader_position Offset that the warehouse has loaded up to.
			# TYPE muniment_loader_position gauge
			muniment_loader_position{partition="0"} 13
			muniment_loader_position{partition="1"} 0
			# HELP muniment_loader_lag_records Records in the log that were not yet loaded when it was last read.
			# TYPE muniment_loader_lag_records gauge
			muniment_loader_lag_records{partition="0"} 0
			muniment_loader_lag_records{partition="1"} NaN
			# HELP muniment_loader_batch_seconds Time from a batch being read to its being durable in the warehouse, retries included.
			# TYPE muniment_loader_batch_seconds histogram
			muniment_loader_batch_seconds_bucket{partition="0",le="0.001"} 0
			muniment_loader_batch_seconds_bucket{partition="0",le="0.004"} 0
			muniment_loader_batch_seconds_bucket{partition="0",le="0.016"} 0
			muniment_loader_batch_seconds_bucket{partition="0",le="0.064"} 0
			muniment_loader_batch_seconds_bucket{partition="0",le="0.256"} 0
			muniment_loader_batch_seconds_bucket{partition="0",le="1.024"} 0
			muniment_loader_batch_seconds_bucket{partition="0",le="4.096"} 2
			muniment_loader_batch_seconds_bucket{partition="0",le="16.384"} 2
			muniment_loader_batch_seconds_bucket{partition="0",le="65.536"} 2
			muniment_loader_batch_seconds_bucket{partition="0",le="+Inf"} 2
			muniment_loader_batch_seconds_sum{partition="0"} 4
			muniment_loader_batch_seconds_count{partition="0"} 2
			muniment_loader_batch_seconds_bucket{partition="1",le="0.001"} 0
			muniment_loader_batch_seconds_bucket{partition="1",le="0.004"} 0
			muniment_loader_batch_seconds_bucket{partition="1",le="0.016"} 0
			muniment_loader_batch_seconds_bucket{partition="1",le="0.064"} 0
			muniment_loader_batch_seconds_bucket{partition="1",le="0.256"} 0
			muniment_loader_batch_seconds_bucket{partition="1",le="1.024"} 0
			muniment_loader_batch_seconds_bucket{partition="1",le="4.096"} 0
			muniment_loader_batch_seconds_bucket{partition="1",le="16.384"} 0
			muniment_loader_batch_seconds_bucket{partition="1",le="65.536"} 0
			muniment_loader_batch_seconds_bucket{partition="1",le="+Inf"} 0
			muniment_loader_batch_seconds_sum{partition="1"} 0
			muniment_loader_batch_seconds_count{partition="1"} 0
		`, "muniment_loader_rows_total", "muniment_loader_set_aside_total", "muniment_loader_position",
			"muniment_loader_lag_records", "muniment_loader_batch_seconds")

		// The lag goes on rising while the warehouse is away.
		away = true
		m.fill(t, 12, 20)
		time.Sleep(time.Minute)
		compare(`
			# HELP muniment_loader_lag_records Records in the log that were not yet loaded when it was last read.
			# TYPE muniment_loader_lag_records gauge
			muniment_loader_lag_records{partition="0"} 8
			muniment_loader_lag_records{partition="1"} NaN
		`, "muniment_loader_lag_records")

		_, err = pipeline.NewLoader(m.cfg)
		require.Error(t, err, "two loaders of one partition can't share a registry")
	})
}

func TestLoaderConfigIsChecked(t *testing.T) {
	for field, spoil := range map[string]func(*pipeline.LoaderConfig){
		"Log":       func(c *pipeline.LoaderConfig) { c.Log = nil },
		"Warehouse": func(c *pipeline.LoaderConfig) { c.Warehouse = nil },
		"Partition": func(c *pipeline.LoaderConfig) { c.Partition = -1 },
		"BatchSize": func(c *pipeline.LoaderConfig) { c.BatchSize = -1 },
		"backoff":   func(c *pipeline.LoaderConfig) { c.MaxBackoff = -1 },
	} {
		cfg := newMemory().cfg
		spoil(&cfg)
		_, err := pipeline.NewLoader(cfg)
		require.ErrorContains(t, err, field)
	}
}
