package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// aged is a reconciler over hours of which one, the oldest, has a wrong rollup, as after
// a day: no touch is remembered, and none is young enough to be looked for.
func aged(t *testing.T, hours int64) *reconciled {
	b := newReconciled(t)
	var rows []pipeline.Row
	for i := range hours {
		rows = append(rows, delivery("tnt_a", i, midnight.Add(time.Duration(i)*time.Hour), ""))
	}
	require.NoError(t, b.w.Load(t.Context(), batch(rows)))
	require.NoError(t, b.w.conn.Exec(t.Context(), `INSERT INTO metering_hours (tenant_id, hour, generation, slice, place, stamp, lines)
		SELECT tenant_id, hour, generation, slice, place + 1, 1, [] FROM metering_hours FINAL WHERE hour = (SELECT min(hour) FROM metering_hours)`))
	b.r.since = 1 << 62
	return b
}

// repairs checks until something was repaired, at most so often, and tells how many
// checks have failed.
func (b *reconciled) repairs(checks int, before func()) (failed int) {
	b.Helper()
	for i := 0; i < checks && testutil.ToFloat64(b.r.metrics.repaired) == 0; i++ {
		b.r.since = 1 << 62
		before()
		if b.r.check(b.Context()) != nil {
			failed++
		}
	}
	require.EqualValues(b, 1, testutil.ToFloat64(b.r.metrics.repaired))
	require.Zero(b, b.drift())
	return failed
}

// An hour that is too much for the server doesn't keep the others from being checked,
// and is told until it was compared.
func TestReconcilerGoesRoundAHeavyHour(t *testing.T) {
	b := aged(t, 40)
	heavy, tooHeavy := tenantHour{"tnt_a", midnight.Add(30 * time.Hour).UnixMilli()}, true
	b.r.touched[heavy] = 0
	alone := 0
	b.r.compare = func(ctx context.Context, hours map[tenantHour]bool) ([]difference, error) {
		if hours[heavy] && tooHeavy {
			if len(hours) == 1 {
				alone++
			}
			return nil, errors.New("timeout exceeded")
		}
		return b.w.apart(ctx, hours)
	}
	b.r.cfg.Every = time.Hour // by which a failed hour waits
	failed := b.repairs(40, func() {})
	require.Equal(t, 1, alone)
	require.LessOrEqual(t, failed, 8, "halved each time")
	require.EqualValues(t, 1, testutil.ToFloat64(b.r.metrics.unchecked))

	tooHeavy = false
	b.r.failed[heavy] = failure{times: 1}
	for i := 0; i < 10 && testutil.ToFloat64(b.r.metrics.unchecked) > 0; i++ {
		require.NoError(t, b.r.check(t.Context()))
	}
	require.Zero(t, testutil.ToFloat64(b.r.metrics.unchecked))
	require.Equal(t, checkSlices, b.r.room)
}

// Loaders that touch more hours than a check compares leave room for the others.
func TestReconcilerComesToEveryHourOfABusyService(t *testing.T) {
	b := aged(t, 40)
	require.Zero(t, b.repairs(60, func() {
		b.r.room = 8
		for i := range int64(20) {
			b.r.touched[tenantHour{"tnt_busy", i * hourMs}] = 1
		}
	}))
}

// An hour that has lost its rollups, all of them, is found in its turn.
func TestReconcilerFindsAnHourWithoutRollup(t *testing.T) {
	hour := func(i int) string { // of the 35 that follow
		return fmt.Sprintf(`hour = %d`, midnight.Add(time.Duration(i-1)*time.Hour).UnixMilli())
	}
	for name, lost := range map[string]string{"newest": hour(34), "oldest": hour(0), "every": `1`, "middle": hour(21)} {
		t.Run(name, func(t *testing.T) {
			b := newReconciled(t)
			var rows []pipeline.Row
			for i := range int64(70) {
				rows = append(rows, delivery("tnt_a", i, midnight.Add(time.Duration(i/2)*time.Hour), ""))
				if i%2 == 1 {
					rows[i].TenantID = "tnt_b"
				}
			}
			require.NoError(t, b.w.Load(t.Context(), batch(rows)))
			require.NoError(t, b.w.conn.Exec(t.Context(), `ALTER TABLE metering_hours DELETE WHERE `+lost+` SETTINGS mutations_sync = 2`))
			require.NotZero(t, b.drift())
			for i := 0; i < 30 && b.drift() > 0; i++ {
				b.r.since = 1 << 62
				require.NoError(t, b.r.check(t.Context()))
			}
			require.Zero(t, b.drift())
		})
	}
}

// What is wrong stays drift as long as it can't be repaired.
func TestReconcilerTellsOfDriftUntilItIsRepaired(t *testing.T) {
	b := aged(t, 3)
	require.NoError(t, b.w.conn.Exec(t.Context(), `ALTER TABLE metering_hours ADD CONSTRAINT never CHECK stamp = 0`))
	b.check(0, 0, 0)
	for range 5 {
		require.ErrorContains(t, b.r.check(t.Context()), "cannot repair rollups")
		require.EqualValues(t, 1, testutil.ToFloat64(b.r.metrics.drift.WithLabelValues("receipts")))
	}
	require.NoError(t, b.w.conn.Exec(t.Context(), `ALTER TABLE metering_hours DROP CONSTRAINT never`))
	b.repairs(1, func() {})
	b.check(0, 0, 1)
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
