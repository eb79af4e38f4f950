package pipeline_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// An older copy of the warehouse is put under a loader that runs: at once, or while nothing
// is to be loaded.
func TestLoaderMendsAnOlderWarehouse(t *testing.T) {
	for name, c := range map[string]struct {
		had  int // what the copy had loaded
		idle time.Duration
	}{
		"of a moment ago":        {19, 0},
		"of long ago":            {3, 0},
		"of long ago, at night":  {3, time.Hour},
		"an empty one, at night": {0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				reg := prometheus.NewPedanticRegistry()
				m.cfg.Registerer = reg
				m.fill(t, 0, c.had)
				var older conform.MemoryWarehouse
				if c.had > 0 {
					_, stop := start(t, pipeline.LoaderConfig{Log: &m.log, Warehouse: &older})
					require.NoError(t, stop())
				}
				m.fill(t, c.had, 20)
				_, stop := start(t, m.cfg)
				requireLoaded(t, &m.warehouse, 20)

				time.Sleep(c.idle)
				m.sink.Sink = &older
				m.fill(t, 20, 21)
				time.Sleep(time.Minute)
				requireLoaded(t, &older, 21)
				expected := "# HELP muniment_loader_rewinds_total Times that the warehouse held less than was loaded into it, as an older copy of it does, and loading went on from there.\n" +
					"# TYPE muniment_loader_rewinds_total counter\nmuniment_loader_rewinds_total{partition=\"0\"} 1\n"
				require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(expected), "muniment_loader_rewinds_total"))
				require.NoError(t, stop())
			})
		})
	}
}

// What an older copy lacks may be gone from the log.
func TestLoaderStopsUnderAWarehouseThatIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 20)
		l, err := pipeline.NewLoader(m.cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- l.Run(t.Context()) }()
		synctest.Wait()
		requireLoaded(t, &m.warehouse, 20)

		var older conform.MemoryWarehouse
		require.NoError(t, older.Load(t.Context(), pipeline.Batch{Next: sealer.Position{Generation: 1, Offset: 5}}))
		m.sink.Sink = &older
		m.log.Retire(7)
		m.fill(t, 20, 21)
		err = <-done
		require.ErrorIs(t, err, pipeline.ErrGap)
		require.ErrorContains(t, err, "nothing from 1.0.5 up to 1.0.7")
	})
}

// loads counts the rows that come to a warehouse.
type loads struct {
	*conform.MemoryWarehouse
	rows int
}

func (l *loads) Load(ctx context.Context, b pipeline.Batch) error {
	l.rows += len(b.Rows)
	return l.MemoryWarehouse.Load(ctx, b)
}

// A log that is restored begins a new generation. What its warehouse has loaded is loaded
// again only where the log can't prove that it is its own.
func TestLoaderGoesOnInARestoredLog(t *testing.T) {
	open := func(dir string, generation uint32) *segment.Log {
		log, err := segment.Open(segment.Config{Dir: dir, SegmentBytes: 16 << 10, Generation: generation})
		require.NoError(t, err)
		return log
	}
	// write appends deliveries to the log of a folder, each as a group, and loads all of it.
	write := func(dir string, generation uint32, w pipeline.Sink, numbers ...int) {
		log := open(dir, generation)
		for _, n := range numbers {
			appendAll(t, log, delivered(t, "tnt_a", n))
		}
		if w != nil {
			loadAll(t, t.Context(), reader{Reader: log}, w, 7)
		}
		require.NoError(t, log.Close())
	}
	upTo := func(from, to int) (numbers []int) {
		for n := from; n < to; n++ {
			numbers = append(numbers, n)
		}
		return numbers
	}
	copied := func(dir string) string {
		to := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
		return to
	}
	for _, c := range []struct {
		name string
		// make writes a log in dir and loads w from it, and returns the folder that is restored.
		make func(dir string, w pipeline.Sink) (restored string)
		want int // of its records and five more, those that are loaded
	}{
		{"all of it is loaded", func(dir string, w pipeline.Sink) string {
			write(dir, 1, w, upTo(0, 60)...)
			return copied(dir)
		}, 5},
		{"a part of it is loaded", func(dir string, w pipeline.Sink) string {
			write(dir, 1, w, upTo(0, 47)...)
			write(dir, 1, nil, upTo(47, 60)...)
			return copied(dir)
		}, 18},
		{"nothing of it is loaded", func(dir string, w pipeline.Sink) string {
			write(dir, 1, nil, upTo(0, 60)...)
			return copied(dir)
		}, 65},
		{"restored once more", func(dir string, w pipeline.Sink) string {
			write(dir, 1, w, upTo(0, 47)...)
			write(dir, 2, nil, upTo(47, 60)...)
			return copied(dir)
		}, 18},
		{"more was loaded than it has", func(dir string, w pipeline.Sink) string {
			write(dir, 1, nil, upTo(0, 60)...)
			older := copied(dir)
			write(dir, 1, w, upTo(60, 70)...)
			return older
		}, 65},
		{"two logs went on from one copy, and both got the last record", func(dir string, w pipeline.Sink) string {
			write(dir, 1, nil, upTo(0, 40)...)
			fork := copied(dir)
			write(dir, 1, w, upTo(40, 60)...)
			write(fork, 1, nil, append(upTo(80, 99), 59)...)
			return copied(fork)
		}, 65},
		{"the chain was not kept", func(dir string, w pipeline.Sink) string {
			write(dir, 1, &sink{Sink: w, load: func(ctx context.Context, b pipeline.Batch) error {
				b.Chain = nil
				return w.Load(ctx, b)
			}}, upTo(0, 60)...)
			return copied(dir)
		}, 65},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &loads{MemoryWarehouse: new(conform.MemoryWarehouse)}
			restored := c.make(filepath.Join(t.TempDir(), "log"), w)
			w.rows = 0
			write(restored, 3, w, upTo(200, 205)...)
			require.Equal(t, c.want, w.rows)

			log := open(restored, 3)
			defer func() { require.NoError(t, log.Close()) }()
			first, end, err := log.Bounds(t.Context(), 0)
			require.NoError(t, err)
			require.NoError(t, log.Scan(t.Context(), first, end, func(e sealer.Entry) error {
				_, err := w.Event(t.Context(), e.TenantID, e.EventID)
				return err
			}))
			next, _, err := w.Resume(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, end, next)
			w.rows = 0
			loadAll(t, t.Context(), reader{Reader: log}, w, 7)
			require.Zero(t, w.rows)
		})
	}
}
