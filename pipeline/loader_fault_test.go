package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

func TestLoaderTriesAgainUntilTheWarehouseIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 25)
		var pauses []time.Duration
		var firsts []int64
		last := time.Now()
		m.sink.load = func(ctx context.Context, b pipeline.Batch) error {
			if len(firsts) == 9 {
				return m.warehouse.Load(ctx, b)
			}
			firsts = append(firsts, b.Rows[0].Offset)
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			return errors.New("disk is full")
		}
		reg := prometheus.NewPedanticRegistry()
		m.cfg.Registerer = reg
		_, stop := start(t, m.cfg)
		m.fill(t, 25, 26)
		time.Sleep(time.Minute) // of the bubble's clock
		synctest.Wait()
		requireLoaded(t, &m.warehouse, 26)
		require.NoError(t, stop())

		require.Equal(t, make([]int64, 9), firsts, "the same batch each time")
		even := 0
		for i, ms := range []time.Duration{0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000} {
			least := ms * time.Millisecond
			require.GreaterOrEqual(t, pauses[i], least)
			require.LessOrEqual(t, pauses[i], least+least/2)
			if pauses[i] == least {
				even++
			}
		}
		require.Len(t, pauses, 9)
		require.Less(t, even, 5, "loaders that failed together don't come back together")
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
			# HELP muniment_loader_failures_total Failed calls to the log or the warehouse that were tried again.
			# TYPE muniment_loader_failures_total counter
			muniment_loader_failures_total{partition="0"} 9
		`), "muniment_loader_failures_total"))
	})
}

func TestLoaderTriesAgainUntilTheLogIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 25)
		calls := map[string]int{}
		flaky := func(call string) error { // every other time
			if calls[call]++; calls[call]%2 == 1 {
				return errors.New("broker is away")
			}
			return nil
		}
		m.reader.bounds = func(ctx context.Context, p int32) (first, end sealer.Position, err error) {
			if err = flaky("bounds"); err == nil {
				first, end, err = m.log.Bounds(ctx, p)
			}
			return first, end, err
		}
		m.reader.wait = func(ctx context.Context, at sealer.Position) error {
			return errors.Join(flaky("wait"), m.log.Wait(ctx, at))
		}
		m.reader.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
			to.Offset -= 3 // breaks off before its end
			if err := m.log.Scan(ctx, from, to, fn); err != nil {
				return err
			}
			if err := flaky("scan"); err != nil {
				return err
			}
			return m.log.Scan(ctx, to, sealer.Position{Generation: 1, Offset: to.Offset + 3}, fn)
		}
		m.sink.resume = func(ctx context.Context, p int32) (sealer.Position, bool, error) {
			next, ok, err := m.warehouse.Resume(ctx, p)
			return next, ok, errors.Join(flaky("resume"), err)
		}
		_, stop := start(t, m.cfg)
		time.Sleep(time.Hour)
		requireLoaded(t, &m.warehouse, 25)
		require.NoError(t, stop())
	})
}

func TestLoaderStopsRatherThanLose(t *testing.T) {
	at := func(generation uint32, offset int64) sealer.Position {
		return sealer.Position{Generation: generation, Offset: offset}
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, m *memory)
		want  error
		text  string
	}{
		{"retention overtook the loader", func(t *testing.T, m *memory) {
			require.NoError(t, m.warehouse.Load(t.Context(), pipeline.Batch{Next: at(1, 4)}))
			m.log.Retire(7)
		}, pipeline.ErrGap, "nothing from 1.0.4 up to 1.0.7"},
		{"retention overtook an empty warehouse", func(_ *testing.T, m *memory) {
			m.log.Retire(1)
		}, pipeline.ErrGap, "nothing from 1.0.0 up to 1.0.1"},
		{"retention overtook the loader as it read", func(t *testing.T, m *memory) {
			m.reader.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				m.log.Retire(12)
				return m.log.Scan(ctx, from, to, fn)
			}
		}, pipeline.ErrGap, "nothing from 1.0.0 up to 1.0.12"},
		{"the log skipped a position", func(_ *testing.T, m *memory) {
			m.reader.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				return m.log.Scan(ctx, from, to, func(e sealer.Entry) error {
					if e.Offset >= 5 {
						e.Offset += 2
					}
					return fn(e)
				})
			}
		}, pipeline.ErrGap, "nothing from 1.0.5 up to 1.0.7"},
		{"the log fell back a generation", func(_ *testing.T, m *memory) {
			m.reader.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				return m.log.Scan(ctx, from, to, func(e sealer.Entry) error {
					if e.Offset == 5 {
						e.Generation = 0
					}
					return fn(e)
				})
			}
		}, pipeline.ErrGap, "nothing from 1.0.5 up to 0.0.5"},
		{"the log left the last ones out", func(_ *testing.T, m *memory) {
			m.reader.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				to.Offset--
				return m.log.Scan(ctx, from, to, fn)
			}
		}, pipeline.ErrGap, "nothing from 1.0.9 up to 1.0.10"},
		{"the log went back", func(t *testing.T, m *memory) {
			require.NoError(t, m.warehouse.Load(t.Context(), pipeline.Batch{Next: at(1, 21)}))
		}, pipeline.ErrLogBehind, "loaded up to 1.0.21, the log ends at 1.0.20"},
		{"the log is of an older generation", func(t *testing.T, m *memory) {
			require.NoError(t, m.warehouse.Load(t.Context(), pipeline.Batch{Next: at(2, 3)}))
		}, pipeline.ErrLogBehind, "loaded up to 2.0.3, the log ends at 1.0.20"},
		{"the log shrank as it was read", func(_ *testing.T, m *memory) {
			calls := 0
			m.reader.bounds = func(ctx context.Context, p int32) (first, end sealer.Position, err error) {
				first, end, err = m.log.Bounds(ctx, p)
				if calls++; calls > 2 {
					end.Offset = 5
				}
				return first, end, err
			}
		}, pipeline.ErrLogBehind, "a record was there at 1.0.10, the log ends at 1.0.5"},
		{"a new generation begins behind what is loaded", func(t *testing.T, m *memory) {
			require.NoError(t, m.warehouse.Load(t.Context(), pipeline.Batch{Next: at(0, 3)}))
			m.log.Retire(4)
		}, pipeline.ErrGap, "nothing from 0.0.3 up to 1.0.4"},
		{"the log is damaged", func(_ *testing.T, m *memory) {
			m.reader.scan = func(context.Context, sealer.Position, sealer.Position, func(sealer.Entry) error) error {
				return fmt.Errorf("%w: segment 7", pipeline.ErrDamaged)
			}
		}, pipeline.ErrDamaged, "segment 7"},
		{"the log was closed", func(_ *testing.T, m *memory) {
			m.reader.wait = func(context.Context, sealer.Position) error { return pipeline.ErrClosed }
		}, pipeline.ErrClosed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.fill(t, 0, 20)
				c.spoil(t, m)
				err := run(t, m.cfg)
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, c.text)
			})
		})
	}
}

// A log that was recreated or restored has a new generation, and it is unknown
// which of its records the warehouse has.
func TestLoaderLoadsANewGenerationFromItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 20)
		require.NoError(t, m.warehouse.Load(t.Context(), pipeline.Batch{Next: sealer.Position{Generation: 0, Offset: 15}}))
		_, stop := start(t, m.cfg)
		requireLoaded(t, &m.warehouse, 20)
		require.NoError(t, stop())
		next, _, err := m.warehouse.Resume(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, sealer.Position{Generation: 1, Offset: 20}, next)
	})
}

// Within one log a generation may begin where the one before ended.
func TestLoaderGoesOnIntoANewGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 20)
		// The log as if its records from 7 on were of generation 2.
		raise := func(p sealer.Position) sealer.Position {
			if p.Offset >= 7 {
				p.Generation = 2
			}
			return p
		}
		lower := func(p sealer.Position) sealer.Position { p.Generation = 1; return p }
		m.reader.bounds = func(ctx context.Context, p int32) (sealer.Position, sealer.Position, error) {
			first, end, err := m.log.Bounds(ctx, p)
			return first, raise(end), err
		}
		m.reader.wait = func(ctx context.Context, at sealer.Position) error { return m.log.Wait(ctx, lower(at)) }
		m.reader.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
			_, end, err := m.log.Bounds(ctx, 0)
			require.NoError(t, err)
			return m.log.Scan(ctx, lower(from), end, func(e sealer.Entry) error {
				if e.Position = raise(e.Position); e.Compare(to) >= 0 {
					return nil
				}
				return fn(e)
			})
		}
		m.cfg.BatchSize = 5
		var sizes []int
		m.sink.load = func(ctx context.Context, b pipeline.Batch) error {
			sizes = append(sizes, len(b.Rows))
			return m.warehouse.Load(ctx, b)
		}
		_, stop := start(t, m.cfg)
		requireLoaded(t, &m.warehouse, 20)
		require.Equal(t, []int{5, 5, 5, 5}, sizes, "no position of an older generation is behind one of a newer")
		require.NoError(t, stop())
	})
}

// Whatever it is doing, a loader ends with its ctx.
func TestLoaderEndsAtOnce(t *testing.T) {
	block := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, spoil := range map[string]func(m *memory){
		"at the end of the log": func(*memory) {},
		"in a load": func(m *memory) {
			m.sink.load = func(ctx context.Context, _ pipeline.Batch) error { return block(ctx) }
		},
		"in a pause after a failure": func(m *memory) {
			m.sink.load = func(context.Context, pipeline.Batch) error { return errors.New("away") }
		},
		"in a scan": func(m *memory) {
			m.reader.scan = func(ctx context.Context, _, _ sealer.Position, _ func(sealer.Entry) error) error { return block(ctx) }
		},
		"before it began": func(m *memory) {
			m.sink.resume = func(ctx context.Context, _ int32) (sealer.Position, bool, error) {
				return sealer.Position{}, false, block(ctx)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.fill(t, 0, 3)
				spoil(m)
				_, stop := start(t, m.cfg)
				cancelled := time.Now()
				require.NoError(t, stop())
				require.Zero(t, time.Since(cancelled))
			})
		})
	}
}
