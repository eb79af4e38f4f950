package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/sealer"
)

// While the warehouse is away the oldest record that isn't loaded grows old; the
// alarm rises once, and ends when it is loaded.
func TestLoaderTellsOfRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 25)
		reg := prometheus.NewPedanticRegistry()
		var said bytes.Buffer
		away, unknown := true, true
		m.sink.resume = func(ctx context.Context, p int32) (sealer.Position, bool, error) {
			if unknown {
				return sealer.Position{}, false, errors.New("away")
			}
			return m.warehouse.Resume(ctx, p)
		}
		m.sink.load = func(ctx context.Context, b pipeline.Batch) error {
			if away && b.Next.Offset > 10 { // after the first batch
				return errors.New("away")
			}
			return m.warehouse.Load(ctx, b)
		}
		m.cfg.Registerer = reg
		m.cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
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
			require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
				# HELP muniment_loader_retention_used_ratio Age of the oldest record that is not loaded by the retention of the log; from 1 on it may be lost.
				# TYPE muniment_loader_retention_used_ratio gauge
				muniment_loader_retention_used_ratio{partition="0"} `+want+"\n"), "muniment_loader_retention_used_ratio"))
		}
		time.Sleep(time.Hour)
		requireRatio("NaN")
		unknown = false
		time.Sleep(39*time.Hour + time.Second)
		requireRatio("0.4")
		const alarm = "near the end of their retention"
		require.NotContains(t, said.String(), alarm)
		time.Sleep(30 * time.Hour)
		requireRatio("0.7")
		require.Equal(t, 1, strings.Count(said.String(), alarm))
		away = false
		time.Sleep(time.Minute)
		requireRatio("0")
	})
}
