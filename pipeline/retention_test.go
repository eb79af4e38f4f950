package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// logCounter counts the messages of a log that contain text.
type logCounter struct {
	text  string
	times atomic.Int32
}

func (h *logCounter) Enabled(context.Context, slog.Level) bool { return true }
func (h *logCounter) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *logCounter) WithGroup(string) slog.Handler            { return h }

func (h *logCounter) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.text) {
		h.times.Add(1)
	}
	return nil
}

// While the warehouse is away the oldest record that isn't loaded grows old; the
// alarm rises once, and ends when it is loaded.
func TestLoaderTellsOfRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 25)
		reg := prometheus.NewPedanticRegistry()
		alarm := &logCounter{text: "near the end of their retention"}
		var here, known atomic.Bool
		m.sink.resume = func(ctx context.Context, p int32) (sealer.Position, bool, error) {
			if !known.Load() {
				return sealer.Position{}, false, errors.New("away")
			}
			return m.warehouse.Resume(ctx, p)
		}
		m.sink.load = func(ctx context.Context, b pipeline.Batch) error {
			if !here.Load() && b.Next.Offset > 10 { // after the first batch
				return errors.New("away")
			}
			return m.warehouse.Load(ctx, b)
		}
		m.cfg.Registerer = reg
		m.cfg.Logger = slog.New(alarm)
		begun := time.Now()
		m.cfg.RetentionUsed = func(_ context.Context, at sealer.Position) (float64, error) {
			if at.Offset >= 25 {
				return 0, nil
			}
			require.EqualValues(t, 10, at.Offset, "the oldest that isn't loaded")
			return time.Since(begun).Hours() / 100, nil
		}
		_, stop := start(t, m.cfg)
		defer stop()
		requireRatio := func(want string) {
			t.Helper()
			synctest.Wait()
			require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
				# HELP muniment_loader_retention_used_ratio Age of the oldest record that is not loaded by the retention of the log; from 1 on it may be lost.
				# TYPE muniment_loader_retention_used_ratio gauge
				muniment_loader_retention_used_ratio{partition="0"} `+want+"\n"), "muniment_loader_retention_used_ratio"))
		}
		time.Sleep(time.Hour)
		requireRatio("NaN")
		known.Store(true)
		time.Sleep(39*time.Hour + time.Second)
		requireRatio("0.4")
		require.Zero(t, alarm.times.Load())
		time.Sleep(30 * time.Hour)
		requireRatio("0.7")
		require.EqualValues(t, 1, alarm.times.Load())
		here.Store(true)
		time.Sleep(time.Minute)
		requireRatio("0")
	})
}

// A loader that starts while the warehouse is away has its alarms, too: it goes by what
// others remember of the warehouse, and shows no number if it is unknown.
func TestLoaderTellsOfRetentionBeforeItCanLoad(t *testing.T) {
	for name, c := range map[string]struct {
		committed func(int32) (sealer.Position, bool)
		used, lag string
		alarms    int32
	}{
		"remembered": {
			committed: func(partition int32) (sealer.Position, bool) {
				return sealer.Position{Generation: 1, Partition: partition, Offset: 5}, true
			},
			used: "0.75", lag: "20", alarms: 1,
		},
		"forgotten": {committed: func(int32) (sealer.Position, bool) { return sealer.Position{}, false }, used: "NaN", lag: "NaN"},
		"unknown":   {used: "NaN", lag: "NaN"},
		"of the end": {
			committed: func(partition int32) (sealer.Position, bool) {
				return sealer.Position{Generation: 1, Partition: partition, Offset: 40}, true // of a log that was restored
			},
			used: "0", lag: "0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.fill(t, 0, 25)
				var here atomic.Bool
				m.sink.resume = func(ctx context.Context, p int32) (sealer.Position, bool, error) {
					if !here.Load() {
						return sealer.Position{}, false, errors.New("away")
					}
					return m.warehouse.Resume(ctx, p)
				}
				reg, alarm := prometheus.NewPedanticRegistry(), &logCounter{text: "near the end of their retention"}
				m.cfg.Registerer, m.cfg.Logger, m.cfg.Committed = reg, slog.New(alarm), c.committed
				m.cfg.RetentionUsed = func(_ context.Context, at sealer.Position) (float64, error) {
					return float64(max(0, 20-at.Offset)) / 20, nil
				}
				_, stop := start(t, m.cfg)
				defer stop()
				requireShown := func(used, lag string) {
					t.Helper()
					synctest.Wait()
					require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
						# HELP muniment_loader_retention_used_ratio Age of the oldest record that is not loaded by the retention of the log; from 1 on it may be lost.
						# TYPE muniment_loader_retention_used_ratio gauge
						muniment_loader_retention_used_ratio{partition="0"} `+used+`
						# HELP muniment_loader_lag_records Records in the log that were not yet loaded when it was last read.
						# TYPE muniment_loader_lag_records gauge
						muniment_loader_lag_records{partition="0"} `+lag+"\n"), "muniment_loader_retention_used_ratio", "muniment_loader_lag_records"))
				}
				time.Sleep(time.Hour)
				requireShown(c.used, c.lag)
				require.Equal(t, c.alarms, alarm.times.Load())
				here.Store(true)
				time.Sleep(time.Minute)
				requireShown("0", "0")
			})
		})
	}
}

// TestLoaderLagWhileItIsWatched: who looks after the retention takes its time between
// what it saw and what it shows, and the loader does not wait.
func TestLoaderLagWhileItIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 10)
		reg := prometheus.NewPedanticRegistry()
		asking, answered, looked, shown := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
		loading, loaded := make(chan struct{}), make(chan struct{})
		var held atomic.Bool // the next to look at the log's bounds is slow to go on
		m.cfg.Registerer = reg
		m.cfg.Committed = func(partition int32) (sealer.Position, bool) {
			return sealer.Position{Generation: 1, Partition: partition}, true
		}
		m.cfg.RetentionUsed = func(context.Context, sealer.Position) (float64, error) {
			asking <- struct{}{}
			<-answered
			return 0, nil
		}
		m.reader.bounds = func(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
			first, end, err = m.log.Bounds(ctx, partition)
			if held.Swap(false) {
				looked <- struct{}{}
				<-shown
			}
			return first, end, err
		}
		m.sink.load = func(ctx context.Context, b pipeline.Batch) error {
			loading <- struct{}{}
			<-loaded
			return m.warehouse.Load(ctx, b)
		}
		_, stop := start(t, m.cfg)
		requireLag := func(want string) {
			t.Helper()
			synctest.Wait()
			require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
				# HELP muniment_loader_lag_records Records in the log that were not yet loaded when it was last read.
				# TYPE muniment_loader_lag_records gauge
				muniment_loader_lag_records{partition="0"} `+want+"\n"), "muniment_loader_lag_records"))
		}

		<-asking // about the position 0
		<-loading
		requireLag("10")
		loaded <- struct{}{}
		requireLag("0")
		answered <- struct{}{}
		requireLag("0")

		<-asking // and nothing is left to be loaded
		held.Store(true)
		answered <- struct{}{}
		<-looked
		m.fill(t, 10, 11)
		<-loading
		requireLag("1")
		shown <- struct{}{}
		requireLag("1")
		loaded <- struct{}{}
		requireLag("0")

		<-asking
		close(answered)
		require.NoError(t, stop())
	})
}
