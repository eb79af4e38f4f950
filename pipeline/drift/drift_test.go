package drift_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/pipeline/drift"
	"muniment.example/sealer"
)

func TestMemoryWarehouseIsAudited(t *testing.T) {
	conform.Drift(t, func(testing.TB) conform.AuditedEngine {
		w := &conform.MemoryWarehouse{}
		return conform.AuditedEngine{Warehouse: w, Auditor: w, Spoil: w.Spoiled()}
	})
}

// books are a log and its loaded rows, as the check reads them. By default they agree.
type books struct {
	pipeline.Reader // nil: the check calls no other method
	log             [][]drift.Event
	next            []sealer.Position                    // loaded up to
	gone            map[sealer.Position]bool             // have no row
	extra           []drift.Event                        // rows that no log holds
	standing        func(from, to sealer.Position) error // is called first

	out      bytes.Buffer
	registry *prometheus.Registry
}

// newBooks are of n events in each partition, all loaded.
func newBooks(n ...int) *books {
	b := &books{gone: map[sealer.Position]bool{}, registry: prometheus.NewRegistry()}
	for p, n := range n {
		b.log = append(b.log, nil)
		b.next = append(b.next, sealer.Position{})
		b.add(int32(p), 1, n)
	}
	return b
}

// add appends events to a partition, and loads them.
func (b *books) add(partition int32, generation uint32, n int) {
	for range n {
		at := sealer.Position{Generation: generation, Partition: partition, Offset: int64(len(b.log[partition]))}
		b.log[partition] = append(b.log[partition], drift.Event{Position: at, TenantID: "tnt_a", EventID: fmt.Sprintf("evt_%s", at)})
		b.next[partition] = at.Next()
	}
}

func (b *books) Partitions(context.Context) (int, error) { return len(b.log), nil }

func (b *books) Bounds(_ context.Context, p int32) (first, end sealer.Position, err error) {
	return b.log[p][0].Position, b.log[p][len(b.log[p])-1].Next(), nil
}

func (b *books) Scan(_ context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	all := b.log[from.Partition]
	if all[from.Offset].Position != from && (from.Offset == 0 || all[from.Offset-1].Next() != from) {
		return pipeline.ErrGone // nothing of that generation stands there
	}
	for _, e := range b.log[from.Partition][from.Offset:] {
		if e.Compare(to) >= 0 {
			break
		}
		if err := fn(sealer.Entry{Position: e.Position, Record: sealer.Record{TenantID: e.TenantID, EventID: e.EventID}}); err != nil {
			return err
		}
	}
	return nil
}

func (b *books) Loaded(_ context.Context, p int32) (sealer.Position, bool, error) {
	return b.next[p], true, nil
}

func (b *books) Standing(_ context.Context, from, to sealer.Position) (list []drift.Event, err error) {
	if b.standing != nil {
		err = b.standing(from, to)
	}
	for _, all := range [][]drift.Event{b.log[from.Partition], b.extra} {
		for _, e := range all {
			if e.Partition == from.Partition && e.Compare(from) >= 0 && e.Compare(to) < 0 && !b.gone[e.Position] {
				list = append(list, e)
			}
		}
	}
	return list, err
}

func (b *books) Unaccounted(_ context.Context, events []drift.Event) ([]drift.Event, error) {
	return events, nil
}

func (b *books) Misjudged(context.Context, sealer.Position, sealer.Position) ([]drift.Event, error) {
	return nil, nil
}

func (b *books) Sum(context.Context, string, sealer.Position, sealer.Position) (int64, []pipeline.MeterRow, error) {
	return 0, nil, nil
}

// checker is one that looks at the books.
func (b *books) checker(t *testing.T) *drift.Checker {
	t.Helper()
	c, err := drift.New(drift.Config{Log: b, Loaded: b.Loaded, Auditor: b,
		Logger: slog.New(slog.NewTextHandler(&b.out, nil)), Registerer: b.registry})
	require.NoError(t, err)
	return c
}

// requireDrift compares what the metric says.
func (b *books) requireDrift(t *testing.T, missing, invented int) {
	t.Helper()
	require.NoError(t, testutil.GatherAndCompare(b.registry, strings.NewReader(fmt.Sprintf(`
		# HELP muniment_metering_drift Events whose row is missing, invented or not decided by the rule, and packs and statements that disagree with their rows, as found by two checks; must be 0.
		# TYPE muniment_metering_drift gauge
		muniment_metering_drift{kind="duplicates"} 0
		muniment_metering_drift{kind="invented"} %d
		muniment_metering_drift{kind="missing"} %d
		muniment_metering_drift{kind="pack"} 0
		muniment_metering_drift{kind="statement"} 0
	`, invented, missing)), "muniment_metering_drift"))
}

func in(partition int32, generation uint32, offset int64) sealer.Position {
	return sealer.Position{Generation: generation, Partition: partition, Offset: offset}
}

func TestEveryRunOfEveryPartitionIsLookedAt(t *testing.T) {
	b := newBooks(16_400, 1, 10)
	c := b.checker(t)
	require.NoError(t, c.Whole(t.Context()))
	b.requireDrift(t, 0, 0)
	for _, at := range []sealer.Position{in(0, 1, 0), in(0, 1, 8191), in(0, 1, 8192), in(0, 1, 16_399), in(1, 1, 0), in(2, 1, 9)} {
		b.gone[at] = true
	}
	b.extra = []drift.Event{{Position: in(2, 1, 4), TenantID: "tnt_b", EventID: "evt_invented"}}
	require.NoError(t, c.Whole(t.Context()))
	b.requireDrift(t, 6, 1)
	clear(b.gone)
	b.extra = nil
	require.NoError(t, c.Whole(t.Context()))
	b.requireDrift(t, 0, 0)
}

func TestWhatIsLoadedLastIsLookedAtFirst(t *testing.T) {
	b := newBooks(100_000)
	c := b.checker(t)
	b.gone[in(0, 1, 99_990)] = true
	for range 3 { // the packs, the newest run, and that once more
		require.NoError(t, c.Look(t.Context()))
	}
	b.requireDrift(t, 1, 0)
}

func TestOneLookIsNoDrift(t *testing.T) {
	b := newBooks(10)
	c := b.checker(t)
	looks := 0
	b.standing = func(sealer.Position, sealer.Position) error {
		b.gone[in(0, 1, 5)], b.gone[in(0, 1, 6)] = looks%2 == 0, looks%2 == 1 // never both
		looks++
		return nil
	}
	for range 50 {
		require.NoError(t, c.Look(t.Context()))
		b.requireDrift(t, 0, 0)
	}
	require.Greater(t, looks, 4)
	require.Empty(t, b.out.String())
}

func TestDriftIsLoggedOnce(t *testing.T) {
	b := newBooks(10)
	c := b.checker(t)
	b.gone[in(0, 1, 3)], b.gone[in(0, 1, 7)] = true, true
	for range 3 {
		require.NoError(t, c.Whole(t.Context()))
		b.requireDrift(t, 2, 0)
	}
	require.Equal(t, 1, strings.Count(b.out.String(), "\n"), b.out.String())
	require.Contains(t, b.out.String(), "kind=missing tenant=tnt_a from=1.0.3 to=1.0.7 count=2")
}

// TestGenerations: a log that lost its end goes on in a new generation. The rows of what it
// lost stay, and are none of this log's.
func TestGenerations(t *testing.T) {
	b := newBooks(8_200)
	for n := range int64(20) {
		b.extra = append(b.extra, drift.Event{Position: in(0, 1, 8_200+n), TenantID: "tnt_a", EventID: fmt.Sprint("evt_lost", n)})
	}
	b.add(0, 2, 8_200)
	c := b.checker(t)
	require.NoError(t, c.Whole(t.Context()))
	b.requireDrift(t, 0, 0)
	b.gone[in(0, 1, 8_199)], b.gone[in(0, 2, 8_200)], b.gone[in(0, 2, 16_399)] = true, true, true
	require.NoError(t, c.Whole(t.Context()))
	b.requireDrift(t, 3, 0)
}

func TestWhatIsNotLoadedIsNoDrift(t *testing.T) {
	b := newBooks(20_000)
	for n := range int64(10_000) {
		b.gone[in(0, 1, 10_000+n)] = true
	}
	b.next[0] = in(0, 1, 10_000)
	c := b.checker(t)
	require.NoError(t, c.Whole(t.Context()))
	b.requireDrift(t, 0, 0)
	// During each check the warehouse is replaced by an older copy.
	calls := 0
	b.standing = func(sealer.Position, sealer.Position) error {
		b.next[0], b.gone[in(0, 1, 5)] = in(0, 1, 5), true
		calls++
		return nil
	}
	for range 50 {
		require.NoError(t, c.Look(t.Context()))
		b.next[0] = in(0, 1, 10_000)
	}
	b.requireDrift(t, 0, 0)
	require.Greater(t, calls, 4)
}

// TestLooksArePaced: the checker uses one percent of the time, however slow log and warehouse are, and
// continues after a failed check.
func TestLooksArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(40_000)
		calls := 0
		b.standing = func(sealer.Position, sealer.Position) error {
			time.Sleep(time.Second)
			if calls++; calls%5 == 0 {
				return errors.New("the warehouse is away")
			}
			return nil
		}
		b.gone[in(0, 1, 5)] = true
		c := b.checker(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		time.Sleep(3 * time.Hour)
		b.requireDrift(t, 1, 0)
		stop()
		<-ended
		b.requireDrift(t, 0, 0) // no check runs
		counters := map[string]float64{}
		families, err := b.registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			counters[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
		}
		require.Greater(t, counters["muniment_metering_check_failures_total"], 10.0)
		require.Greater(t, counters["muniment_metering_check_seconds_total"], 50.0)
		require.LessOrEqual(t, counters["muniment_metering_check_seconds_total"], 0.0101*3*3600)
	})
}

// TestRecountIsTriedAgain: a pack whose sums could not be counted again when it was reported is counted at a later check.
func TestRecountIsTriedAgain(t *testing.T) {
	b := newBooks(1)
	hour := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	row := pipeline.MeterRow{Bucket: hour, Receipts: 1}
	pack := drift.Pack{ID: "ppk_1", TenantID: "tnt_a", Hours: []pipeline.MeterRow{row}, Days: []pipeline.MeterRow{row}}
	away, recounts := true, 0
	c, err := drift.New(drift.Config{
		Log: b, Loaded: b.Loaded, Auditor: b,
		Metering: func(context.Context, pipeline.MeterQuery) ([]pipeline.MeterRow, error) { return nil, nil },
		MeterTotals: func(context.Context, pipeline.MeterQuery) (pipeline.MeterTotals, error) {
			return pipeline.MeterTotals{}, nil
		},
		NextPack: func(_ context.Context, after string) (*drift.Pack, error) {
			if after >= pack.ID {
				return nil, nil
			}
			p := pack
			return &p, nil
		},
		Recount: func(_ context.Context, tenantID, packID string) error {
			recounts++
			require.Equal(t, []string{pack.TenantID, pack.ID}, []string{tenantID, packID})
			if away {
				return errors.New("the pack's file is away")
			}
			pack.Hours, pack.Days = nil, nil
			return nil
		},
	})
	require.NoError(t, err)
	require.ErrorContains(t, c.Whole(t.Context()), "the pack's file is away")
	require.Equal(t, 1, recounts)
	away = false
	require.NoError(t, c.Whole(t.Context()))
	require.Equal(t, 2, recounts)
	require.NoError(t, c.Whole(t.Context()))
	require.Equal(t, 2, recounts)
}

// TestStatementsAreComputedAnew: a statement that differs from its recomputation is drift, logged once
// with the difference, however many there are; one that is not loaded, or can't be computed, is not.
func TestStatementsAreComputedAnew(t *testing.T) {
	b := newBooks(100)
	apart := map[string]drift.Difference{}
	fails := map[string]bool{}
	var list []drift.Statement
	for n := range 5 {
		list = append(list, drift.Statement{ID: fmt.Sprint("stm_", n), TenantID: "tnt_a", Currency: "EUR", AsOf: in(0, 1, 50)})
	}
	list[4].AsOf = in(0, 1, 101)
	restated := 0
	c, err := drift.New(drift.Config{
		Log: b, Loaded: b.Loaded, Auditor: b, Logger: slog.New(slog.NewTextHandler(&b.out, nil)), Registerer: b.registry,
		NextStatement: func(_ context.Context, after string) (*drift.Statement, error) {
			for i := range list {
				if list[i].ID > after {
					return &list[i], nil
				}
			}
			return nil, nil
		},
		Restate: func(_ context.Context, s *drift.Statement) (*drift.Difference, error) {
			restated++
			if fails[s.ID] {
				return nil, errors.New("too many rows")
			}
			if d, ok := apart[s.ID]; ok {
				return &d, nil
			}
			return nil, nil
		},
	})
	require.NoError(t, err)
	kinds := func() float64 {
		families, err := b.registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "muniment_metering_drift" && m.GetLabel()[0].GetValue() == drift.KindStatement {
					return m.GetGauge().GetValue()
				}
			}
		}
		return -1
	}
	require.NoError(t, c.Whole(t.Context()))
	require.Zero(t, kinds())
	require.Equal(t, 4, restated, "that which is not loaded is not")

	apart["stm_1"] = drift.Difference{Receipts: -1, Total: "-1.25", HeldAmount: "0"}
	apart["stm_4"] = apart["stm_1"]
	for range 3 {
		require.NoError(t, c.Whole(t.Context()))
		require.EqualValues(t, 1, kinds())
	}
	require.Equal(t, 1, strings.Count(b.out.String(), "\n"), b.out.String())
	require.Contains(t, b.out.String(), "kind=statement tenant=tnt_a from=1.0.50 to=1.0.50 count=1 first=stm_1 currency=EUR receipts=-1 total=-1.25 held_amount=0")

	clear(apart)
	require.NoError(t, c.Whole(t.Context()))
	require.Zero(t, kinds())
	fails["stm_0"], apart["stm_3"] = true, drift.Difference{Total: "1", HeldAmount: "0"}
	for range 60 { // one that can't be computed does not keep the others from it
		_ = c.Look(t.Context())
	}
	require.EqualValues(t, 1, kinds())

	_, err = drift.New(drift.Config{Log: b, Loaded: b.Loaded, Auditor: b, NextStatement: func(context.Context, string) (*drift.Statement, error) { return nil, nil }})
	require.ErrorContains(t, err, "Restate")
}
