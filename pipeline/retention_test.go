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

	"muniment/pipeline"
	"muniment/sealer"
)

// heard counts the messages of a log that say something.
type heard struct {
	text  string
	times atomic.Int32
}

func (h *heard) Enabled(context.Context, slog.Level) bool { return true }
func (h *heard) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *heard) WithGroup(string) slog.Handler            { return h }

func (h *heard) Handle(_ context.Context, r slog.Record) error {
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
		alarm := &heard{text: "near the end of their retention"}
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
