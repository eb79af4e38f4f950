package clickhouse

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment/pipeline"
)

// reconciled is a reconciler for which a millisecond without loaders is quiet.
type reconciled struct {
	*testing.T
	w    *Warehouse
	r    *Reconciler
	said bytes.Buffer
}

func newReconciled(t *testing.T) *reconciled {
	b := &reconciled{T: t, w: mustOpen(t, fresh(t, variable(t, native)))}
	r, err := NewReconciler(ReconcilerConfig{
		Warehouse: b.w, Every: time.Microsecond, Logger: slog.New(slog.NewTextHandler(&b.said, nil)), Registerer: prometheus.NewPedanticRegistry(),
	})
	require.NoError(t, err)
	b.r = r
	return b
}

// check runs one and asks what it tells.
func (b *reconciled) check(receipts, quantityMs, repaired int64) {
	b.Helper()
	require.NoError(b, b.r.check(b.Context()))
	require.EqualValues(b, receipts, testutil.ToFloat64(b.r.metrics.drift.WithLabelValues("receipts")))
	require.EqualValues(b, quantityMs, testutil.ToFloat64(b.r.metrics.drift.WithLabelValues("ms")))
	require.EqualValues(b, repaired, testutil.ToFloat64(b.r.metrics.repaired))
}

func (b *reconciled) drift() (receipts int64) {
	b.Helper()
	receipts, _, err := b.w.Drift(b.Context(), "", time.Time{}, time.Time{})
	require.NoError(b, err)
	return receipts
}

// The one difference that a loader can leave is found and repaired: a late copy, a
// loader that dies before its rollups, and a merge before the batch comes again.
func TestReconcilerRepairsWhatAMergeHid(t *testing.T) {
	b := newReconciled(t)
	row := delivery("tnt_a", 20_000, midnight, "key")
	others, _, _ := spread(30_000, 100)
	require.NoError(t, b.w.Load(t.Context(), batch([]pipeline.Row{row})))
	require.NoError(t, b.w.Load(t.Context(), batch(others)))
	b.check(0, 0, 0)

	late := row
	late.Position = at(5)
	require.NoError(t, b.w.loadMonth(t.Context(), []pipeline.Row{late})) // and the loader dies
	for _, table := range []string{"events", "idempotency_keys"} {
		require.NoError(t, b.w.conn.Exec(t.Context(), `OPTIMIZE TABLE `+table+` FINAL`))
	}
	require.NoError(t, b.w.Load(t.Context(), batch([]pipeline.Row{late})))
	require.EqualValues(t, 1, b.drift(), "counted in two slices")

	b.check(0, 0, 0) // may be a loader at work
	b.check(1, row.Delivery.QuantityMs, 1)
	require.Zero(t, b.drift())
	require.Equal(t, 1, strings.Count(b.said.String(), "computing it anew"), b.said.String())
	require.Contains(t, b.said.String(), "tenant=tnt_a")
	b.check(0, 0, 1)
	b.check(0, 0, 1)
}

// What differs because somebody is at it is no drift.
func TestReconcilerLetsLoadersWork(t *testing.T) {
	b := newReconciled(t)
	row := delivery("tnt_a", 1, midnight, "")
	require.NoError(t, b.w.Load(t.Context(), batch([]pipeline.Row{row})))
	spoil := func() {
		require.NoError(t, b.w.conn.Exec(t.Context(), `INSERT INTO metering_hours (tenant_id, hour, generation, slice, place, stamp, lines)
			SELECT tenant_id, hour, generation, slice, place, stamp + 1, [] FROM metering_hours FINAL`))
	}
	spoil()
	b.check(0, 0, 0)
	spoil() // another version, as wrong
	b.check(0, 0, 0)
	b.check(1, row.Delivery.QuantityMs, 1)
	b.check(0, 0, 1)

	// Rows whose loader has not come to the rollups yet.
	next := delivery("tnt_a", 2, midnight, "")
	require.NoError(t, b.w.loadMonth(t.Context(), []pipeline.Row{next}))
	b.check(0, 0, 1)
	require.NoError(t, b.w.Load(t.Context(), batch([]pipeline.Row{next})))
	b.check(0, 0, 1)
	b.check(0, 0, 1)
	require.Zero(t, b.drift())
}

// What nobody has touched for long comes up in its turn.
func TestReconcilerComesToEveryHour(t *testing.T) {
	b := newReconciled(t)
	var rows []pipeline.Row
	for i := range int64(100) {
		rows = append(rows, delivery("tnt_a", i, midnight.Add(time.Duration(i)*time.Hour), ""))
	}
	require.NoError(t, b.w.Load(t.Context(), batch(rows)))
	// As after a day: no touch is remembered, and none is young enough to be looked for.
	require.NoError(t, b.r.check(t.Context()))
	b.r.touched = map[tenantHour]uint64{}
	require.NoError(t, b.w.conn.Exec(t.Context(), `INSERT INTO metering_hours (tenant_id, hour, generation, slice, place, stamp, lines)
		SELECT tenant_id, hour, generation, slice, place + 1, 1, [] FROM metering_hours FINAL WHERE hour = (SELECT min(hour) FROM metering_hours)`))
	require.EqualValues(t, 1, b.drift())
	for i := 0; i < 20 && testutil.ToFloat64(b.r.metrics.repaired) == 0; i++ {
		b.r.since = 1 << 62
		require.NoError(t, b.r.check(t.Context()))
	}
	require.Zero(t, b.drift())
	require.EqualValues(t, 1, testutil.ToFloat64(b.r.metrics.repaired))
}

// A warehouse that is away fails the check, and the next one makes up for it; a
// process that isn't to check doesn't.
func TestReconcilerRuns(t *testing.T) {
	b := newReconciled(t)
	row := delivery("tnt_a", 1, midnight, "")
	require.NoError(t, b.w.Load(t.Context(), batch([]pipeline.Row{row})))
	require.NoError(t, b.w.conn.Exec(t.Context(), `INSERT INTO metering_hours (tenant_id, hour, generation, slice, place, stamp, lines)
		SELECT tenant_id, hour, generation, slice, place, stamp + 1, [] FROM metering_hours FINAL`))
	patience := b.w.timeout
	b.w.timeout = time.Nanosecond
	ctx, cancel := context.WithCancel(t.Context())
	calls, checks := 0, 0
	b.r.cfg.Every = 5 * time.Millisecond
	b.r.cfg.Active = func() bool {
		calls++
		if calls <= 3 {
			return false
		}
		if testutil.ToFloat64(b.r.metrics.failures) > 0 {
			b.w.timeout = patience
		}
		if checks++; checks > 1000 || testutil.ToFloat64(b.r.metrics.repaired) > 0 {
			cancel()
		}
		return true
	}
	require.NoError(t, b.r.Run(ctx))
	require.Zero(t, b.drift())

	_, err := NewReconciler(ReconcilerConfig{})
	require.ErrorContains(t, err, "Warehouse")
	_, err = NewReconciler(ReconcilerConfig{Warehouse: b.w, Every: -1})
	require.ErrorContains(t, err, "Every")
}
