package conform

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/drift"
	"muniment.example/sealer"
)

// AuditedEngine is a warehouse under test that the check for drift can be run on.
type AuditedEngine struct {
	pipeline.Warehouse
	drift.Auditor
	Spoil
}

// Spoil changes a warehouse as a user with access to its engine could. Each function gets a
// row as it was loaded.
type Spoil struct {
	// Delete deletes it, and nothing else.
	Delete func(r pipeline.Row)
	// Alter gives a delivery another quantity.
	Alter func(r pipeline.Row, quantityMs int64)
	// Decide adds a decision that a delivery is a duplicate, or deletes it.
	Decide func(r pipeline.Row, duplicate bool)
}

// Drift runs the suite of drift.Auditor: what was loaded is no drift, and direct changes are
// found. Each case opens an empty warehouse of its own.
func Drift(t *testing.T, open func(tb testing.TB) AuditedEngine) {
	run(t, driftCases, open)
}

var driftCases = []testCase[AuditedEngine]{
	{"what was loaded is no drift, whatever is loaded again", checkNoDrift},
	{"a row that is gone is missing", checkMissing},
	{"a row that no log holds is invented", checkInvented},
	{"a row at a higher position than its event is missing", checkMoved},
	{"a decision that is gone is seen", checkDecisionGone},
	{"a decision that was added is seen", checkDecisionAdded},
	{"a row that was altered differs from its pack", checkAltered},
	{"what is stored of a pack by hour and day differs from its rows", checkStoredSums},
	{"what an older copy of the warehouse lacks is no drift", checkOlderCopy},
}

// audited is a log, what was loaded of it, a pack of the first tenant, and the check.
type audited struct {
	testing.TB
	AuditedEngine
	ctx      context.Context
	log      MemoryLog
	batches  []pipeline.Batch
	pack     drift.Pack
	check    *drift.Checker
	registry *prometheus.Registry
	// plain, first and repeat are rows of the first tenant: a delivery without a key, one with,
	// and a duplicate of that.
	plain, first, repeat pipeline.Row
}

// bring appends records to the log and loads them as one batch; those of quarantined are quarantined.
func (a *audited) bring(quarantined []pipeline.Quarantined, rows ...pipeline.Row) {
	b := pipeline.Batch{From: position(int64(len(a.log.entries))), Rows: rows, Quarantined: quarantined}
	all := map[int64]sealer.Record{}
	for _, r := range rows {
		all[r.Offset] = r.Record
	}
	for _, s := range quarantined {
		if _, ok := all[s.Position.Offset]; !ok {
			all[s.Position.Offset] = sealer.Record{TenantID: s.TenantID, EventID: s.EventID, Event: s.Record}
		}
	}
	for range all {
		r, ok := all[int64(len(a.log.entries))]
		require.True(a, ok, "the records of a batch follow each other")
		_, err := a.log.Append(a.ctx, &r)
		require.NoError(a, err)
	}
	b.Next = position(int64(len(a.log.entries)))
	require.NoError(a, a.Load(a.ctx, b))
	a.batches = append(a.batches, b)
}

// newAudited brings the history of two tenants: copies, duplicates, records that were
// quarantined, one of them a row that was retracted, and a tenant that was dropped.
func newAudited(tb testing.TB, ctx context.Context, w AuditedEngine) *audited {
	a := &audited{TB: tb, AuditedEngine: w, ctx: ctx, registry: prometheus.NewRegistry()}
	a.plain = delivery("tnt_a", position(0), noon.Add(-26*time.Hour), "")
	a.first = delivery("tnt_a", position(1), noon.Add(time.Second), "key 1")
	a.repeat = delivery("tnt_a", position(2), noon.Add(2*time.Second), "key 1")
	other := delivery("tnt_b", position(3), noon.Add(3*time.Second), "key 1")
	a.bring(nil, a.plain, a.first, a.repeat, other)
	gone := delivery("tnt_c", position(6), noon, "")
	a.bring([]pipeline.Quarantined{unloaded("tnt_b", "evt_moved", position(4)), unloaded("", "", position(5))},
		gone, again(a.plain, position(7)), again(other, position(8)))
	forged, dependent := delivery("tnt_b", position(9), noon, "key 2"), delivery("tnt_b", position(10), noon.Add(time.Second), "key 2")
	dropped := audit("tnt_c", position(11), of(pipeline.TypeDropped), func(e *sealer.Event) { e.Subject = sealer.Ref{Kind: "tenant", ID: "tnt_c"} })
	a.bring(nil, forged, dependent, dropped)
	require.NoError(tb, a.Load(ctx, pipeline.Batch{From: position(12), Next: position(12), Quarantined: []pipeline.Quarantined{quarantinedRow(forged)}}))
	a.bring(nil, release("tnt_b", position(12), forged.Position), again(forged, position(13)), again(gone, position(14)), again(dropped, position(15)))

	a.bring(nil, delivery("tnt_b", position(16), noon, "row 1"), delivery("tnt_b", position(17), noon, "play 1"))
	a.bring(nil, delivery("tnt_b", position(18), noon.AddDate(0, 0, 29), "play 1"), delivery("tnt_b", position(19), noon.AddDate(0, 0, 29), "row 1"))

	n, lines, err := w.Sum(ctx, "tnt_a", a.plain.Position, a.repeat.Position)
	require.NoError(tb, err)
	require.EqualValues(tb, 3, n)
	want, err := w.Metering(ctx, pipeline.MeterQuery{TenantID: "tnt_a"})
	require.NoError(tb, err)
	require.ElementsMatch(tb, want, lines)
	a.pack = drift.Pack{ID: "pck_1", TenantID: "tnt_a", First: a.plain.Position, Last: a.repeat.Position, Count: 3}
	for i := range want {
		a.pack.Metering = append(a.pack.Metering, want[i].Sealed())
	}
	for to, length := range map[*[]pipeline.MeterRow]time.Duration{&a.pack.Hours: time.Hour, &a.pack.Days: 24 * time.Hour} {
		*to, err = w.Metering(ctx, pipeline.MeterQuery{TenantID: "tnt_a", Buckets: []time.Time{a.plain.Delivery.RenderedAt.Truncate(length), a.first.Delivery.RenderedAt.Truncate(length)}, By: pipeline.MeterBy{Completion: true}})
		require.NoError(tb, err)
		require.NotEmpty(tb, *to)
	}
	a.check, err = drift.New(drift.Config{
		Log: &a.log, Loaded: w.Resume, Auditor: w, Registerer: a.registry, Metering: w.Metering,
		NextPack: func(_ context.Context, after string) (*drift.Pack, error) {
			if after < a.pack.ID {
				return &a.pack, nil
			}
			return nil, nil
		},
	})
	require.NoError(tb, err)
	return a
}

// requireDrift checks the whole warehouse and compares the metric.
func (a *audited) requireDrift(want map[string]float64) {
	a.Helper()
	require.NoError(a, a.check.Whole(a.ctx))
	families, err := a.registry.Gather()
	require.NoError(a, err)
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "muniment_metering_drift" {
			continue
		}
		for _, m := range f.GetMetric() {
			if v := m.GetGauge().GetValue(); v != 0 {
				got[m.GetLabel()[0].GetValue()] = v
			}
		}
	}
	require.Equal(a, want, got)
}

var none = map[string]float64{}

func checkNoDrift(tb testing.TB, ctx context.Context, w AuditedEngine) {
	a := newAudited(tb, ctx, w)
	a.requireDrift(none)
	for _, b := range a.batches {
		require.NoError(tb, w.Load(ctx, b))
		a.requireDrift(none)
	}
	a.log.Retire(2)
	a.requireDrift(none)
}

func checkMissing(tb testing.TB, ctx context.Context, w AuditedEngine) {
	a := newAudited(tb, ctx, w)
	w.Delete(a.plain)
	a.requireDrift(map[string]float64{drift.KindMissing: 1, drift.KindPack: 1})
	require.NoError(tb, w.Load(ctx, a.batches[0]))
	a.requireDrift(none)
}

func checkInvented(tb testing.TB, ctx context.Context, w AuditedEngine) {
	a := newAudited(tb, ctx, w)
	invented := audit("tnt_b", position(1))
	require.NoError(tb, w.Load(ctx, pipeline.Batch{From: position(1), Rows: []pipeline.Row{invented}, Next: position(2)}))
	a.requireDrift(map[string]float64{drift.KindInvented: 1})
	w.Delete(invented)
	a.requireDrift(none)
}

func checkMoved(tb testing.TB, ctx context.Context, w AuditedEngine) {
	a := newAudited(tb, ctx, w)
	w.Delete(a.plain)
	require.NoError(tb, w.Load(ctx, a.batches[1])) // with the copy
	a.requireDrift(map[string]float64{drift.KindMissing: 1, drift.KindPack: 1})
}

func checkDecisionGone(tb testing.TB, ctx context.Context, w AuditedEngine) {
	a := newAudited(tb, ctx, w)
	w.Decide(a.repeat, false)
	a.requireDrift(map[string]float64{drift.KindDuplicates: 1, drift.KindPack: 1})
	w.Decide(a.repeat, true)
	a.requireDrift(none)
}

func checkDecisionAdded(tb testing.TB, ctx context.Context, w AuditedEngine) {
	a := newAudited(tb, ctx, w)
	w.Decide(a.plain, true)
	a.requireDrift(map[string]float64{drift.KindDuplicates: 1, drift.KindPack: 1})
	w.Decide(a.plain, false)
	a.requireDrift(none)
}

func checkAltered(tb testing.TB, ctx context.Context, w AuditedEngine) {
	a := newAudited(tb, ctx, w)
	w.Alter(a.plain, 999)
	a.requireDrift(map[string]float64{drift.KindPack: 1})
	w.Alter(a.plain, a.plain.Delivery.QuantityMs)
	a.requireDrift(none)
}

// checkStoredSums: what is stored of a pack by hour and day is not what its rows are.
func checkStoredSums(tb testing.TB, ctx context.Context, w AuditedEngine) {
	a := newAudited(tb, ctx, w)
	for _, rows := range [][]pipeline.MeterRow{a.pack.Hours, a.pack.Days} {
		for _, change := range []func(r *pipeline.MeterRow, by int64){
			func(r *pipeline.MeterRow, by int64) { r.Receipts += by }, func(r *pipeline.MeterRow, by int64) { r.QuantityMs += by },
			func(r *pipeline.MeterRow, by int64) { r.Impressions += by }, func(r *pipeline.MeterRow, by int64) { r.Bucket = r.Bucket.Add(time.Duration(by) * 24 * time.Hour) },
		} {
			change(&rows[0], 1)
			a.requireDrift(map[string]float64{drift.KindPack: 1})
			change(&rows[0], -1)
			a.requireDrift(none)
		}
	}
	hours, days := a.pack.Hours, a.pack.Days
	for _, left := range [][]int{{1, 1}, {1, 0}, {0, 1}, {len(hours), len(days)}} { // rows of the first day are lost
		a.pack.Hours, a.pack.Days = hours[left[0]:], days[left[1]:]
		a.requireDrift(map[string]float64{drift.KindPack: 1})
		a.pack.Hours, a.pack.Days = hours, days
		a.requireDrift(none)
	}
}

// checkOlderCopy: the position of a restored warehouse is an older one.
func checkOlderCopy(tb testing.TB, ctx context.Context, w AuditedEngine) {
	a := newAudited(tb, ctx, w)
	end := int64(len(a.log.entries))
	for n := range int64(4) {
		r := delivery("tnt_a", position(end+n), noon, fmt.Sprint("late ", n))
		_, err := a.log.Append(ctx, &r.Record)
		require.NoError(tb, err)
	}
	a.pack.Last, a.pack.Count = position(end+3), 7
	a.requireDrift(none)
}
