package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/prometheus/client_golang/prometheus"

	"muniment/pipeline"
)

// ReconcilerConfig is what a Reconciler works with.
type ReconcilerConfig struct {
	// Warehouse whose rollups are checked. Required.
	Warehouse *Warehouse
	// Every is the pause between two checks; default 1 min.
	Every time.Duration
	// Active says whether this process checks now: of several that could, one is
	// enough. nil: always.
	Active func() bool
	// Logger hears of each repair; nil discards it.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps them to ourselves.
	Registerer prometheus.Registerer
}

// Reconciler holds the rollups against the rows that they sum, and repairs them.
//
// A loader leaves no difference, save one: it dies after a late copy of an event, at a
// lower position, and before the rollups, and a merge drops the higher copy before the
// batch comes again. Then nothing tells the slice that this one was counted in.
//
// A check compares the hours that loaders have touched since the last one and left
// alone for two, and, as far as there is room, the next of all hours from the newest to
// the oldest. It reads at most some two million receipts, or one hour of one tenant.
// What differs in two checks, while nobody has replaced the rollup in between, is drift:
// its slice is computed anew. An hour of which there is no rollup at all is not seen,
// only by Drift.
type Reconciler struct {
	cfg     ReconcilerConfig
	log     *slog.Logger
	metrics reconcilerMetrics

	// What follows belongs to Run.

	since    uint64 // rollups with a later stamp were not looked for yet; 0 at the start
	touched  map[tenantHour]uint64
	suspects map[slice]uint64 // stamp of the rollup that differed in the last check
	cursor   tenantHour       // hours from here on down are next
}

// tenantHour is an hour of rendered_at of one tenant.
type tenantHour struct {
	tenantID string
	hour     int64
}

const (
	// checkSlices bounds a check.
	checkSlices = 256
	// lookBack is how old rollups are that the first check of a process looks for.
	lookBack = 24 * time.Hour
)

type reconcilerMetrics struct {
	drift              *prometheus.GaugeVec
	hours              prometheus.Counter
	repaired, failures prometheus.Counter
}

// NewReconciler wires a reconciler; Run works.
func NewReconciler(cfg ReconcilerConfig) (*Reconciler, error) {
	switch {
	case cfg.Warehouse == nil:
		return nil, errors.New("reconciler: Warehouse is nil")
	case cfg.Every < 0:
		return nil, errors.New("reconciler: Every is negative")
	}
	cfg.Every = cmp.Or(cfg.Every, time.Minute)
	if cfg.Active == nil {
		cfg.Active = func() bool { return true }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muniment", Subsystem: "metering", Name: name, Help: help})
	}
	m := reconcilerMetrics{
		drift: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "muniment_metering_drift",
			Help: "By how much rollups and receipts were apart at the last check, in receipts and in milliseconds; must be 0.",
		}, []string{"unit"}),
		hours:    counter("checked_hours_total", "Hours of a tenant whose rollups were compared with their receipts."),
		repaired: counter("repaired_slices_total", "Slices of rollups that were wrong and were computed anew."),
		failures: counter("check_failures_total", "Checks of rollups that failed, as when the warehouse is away."),
	}
	m.set(0, 0)
	if err := pipeline.Register(cfg.Registerer, m.drift, m.hours, m.repaired, m.failures); err != nil {
		return nil, fmt.Errorf("cannot register metrics of the reconciler: %w", err)
	}
	return &Reconciler{cfg: cfg, log: cfg.Logger, metrics: m, touched: map[tenantHour]uint64{}, suspects: map[slice]uint64{}}, nil
}

func (m reconcilerMetrics) set(receipts, quantityMs int64) {
	m.drift.WithLabelValues("receipts").Set(float64(receipts))
	m.drift.WithLabelValues("ms").Set(float64(quantityMs))
}

// Run checks until ctx is done; then it returns nil. A check that fails is logged,
// counted, and made up for by the next one.
func (r *Reconciler) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !r.cfg.Active() {
			r.metrics.set(0, 0)
			continue
		}
		if err := r.check(ctx); err != nil && ctx.Err() == nil {
			r.metrics.failures.Inc()
			r.log.WarnContext(ctx, "cannot check rollups", "err", err)
		}
	}
}

// check compares some hours and repairs what is wrong for the second time.
func (r *Reconciler) check(ctx context.Context) error {
	w := r.cfg.Warehouse
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	hours, err := r.choose(ctx)
	if err != nil || len(hours) == 0 {
		return err
	}
	found, err := w.apart(ctx, hours)
	if err != nil {
		return err
	}
	for h := range hours {
		delete(r.touched, h)
	}
	suspects, wrong := map[slice]uint64{}, map[slice]bool{}
	var receipts, quantityMs int64
	for _, d := range found {
		r.touched[tenantHour{d.tenantID, d.hour}] = 0 // the next check sees to it again
		if stamp, suspected := r.suspects[d.slice]; !suspected || stamp != d.stamp {
			suspects[d.slice] = d.stamp
			continue
		}
		wrong[d.slice] = true
		receipts += d.receipts
		quantityMs += d.quantityMs
		r.log.ErrorContext(ctx, "rollup is not what its receipts add up to, computing it anew", "tenant", d.tenantID,
			"hour", instant(d.hour), "generation", d.generation, "slice", d.number, "receipts", d.receipts, "quantity_ms", d.quantityMs)
	}
	r.suspects = suspects
	r.metrics.hours.Add(float64(len(hours)))
	r.metrics.set(receipts, quantityMs)
	if len(wrong) == 0 {
		return nil
	}
	if err := w.replace(ctx, wrong); err != nil {
		return fmt.Errorf("cannot repair rollups: %w", err)
	}
	r.metrics.repaired.Add(float64(len(wrong)))
	return nil
}

// choose is what this check compares.
func (r *Reconciler) choose(ctx context.Context) (map[tenantHour]bool, error) {
	w := r.cfg.Warehouse
	var now uint64
	if err := w.conn.QueryRow(ctx, `SELECT toUInt64(toUnixTimestamp64Nano(now64(9)))`).Scan(&now); err != nil {
		return nil, err
	}
	if r.since == 0 {
		r.since = now - uint64(lookBack)
	}
	type touch struct {
		tenantHour
		stamp uint64
	}
	touches, err := collect(ctx, w, func(scan func(...any) error) (t touch, err error) {
		err = scan(&t.tenantID, &t.hour, &t.stamp)
		return t, err
	}, `SELECT tenant_id, hour, max(stamp) FROM metering_hours WHERE stamp > ? GROUP BY tenant_id, hour`, r.since)
	if err != nil {
		return nil, err
	}
	for _, t := range touches {
		r.touched[t.tenantHour] = max(r.touched[t.tenantHour], t.stamp)
	}
	// A stamp is older than its row by as much as a Load may take.
	r.since = now - uint64(2*w.timeout)

	quiet := now - uint64(2*r.cfg.Every)
	var due []tenantHour
	for h, stamp := range r.touched {
		if stamp <= quiet {
			due = append(due, h)
		}
	}
	slices.SortFunc(due, func(a, b tenantHour) int {
		return cmp.Or(cmp.Compare(r.touched[a], r.touched[b]), cmp.Compare(a.hour, b.hour), strings.Compare(a.tenantID, b.tenantID))
	})
	next, err := r.next(ctx)
	if err != nil {
		return nil, err
	}
	chosen := map[tenantHour]bool{}
	room := checkSlices
	due = due[:min(len(due), checkSlices)]
	for i, h := range append(due, next...) {
		rotating := i >= len(due)
		if rotating && r.touched[h] > quiet {
			r.cursor = h // a loader is at it: its turn comes when that is done
			continue
		}
		var n uint64
		err := w.conn.QueryRow(ctx, `SELECT uniqExact(generation, slice) FROM metering_hours WHERE tenant_id = ? AND hour = ?`, h.tenantID, h.hour).Scan(&n)
		if err != nil {
			return nil, err
		}
		if room -= int(n); room < 0 && len(chosen) > 0 {
			break
		}
		chosen[h] = true
		if rotating {
			r.cursor = h
		}
	}
	return chosen, nil
}

// next lists some hours below the cursor; behind the oldest it begins anew.
func (r *Reconciler) next(ctx context.Context) ([]tenantHour, error) {
	const query = `SELECT DISTINCT tenant_id, hour FROM metering_hours WHERE %s ORDER BY hour DESC, tenant_id DESC LIMIT 32`
	scan := func(scan func(...any) error) (h tenantHour, err error) {
		err = scan(&h.tenantID, &h.hour)
		return h, err
	}
	if r.cursor != (tenantHour{}) {
		hours, err := collect(ctx, r.cfg.Warehouse, scan, fmt.Sprintf(query, "hour <= ? AND (hour, tenant_id) < (?, ?)"),
			r.cursor.hour, r.cursor.hour, r.cursor.tenantID)
		if err != nil || len(hours) > 0 {
			return hours, err
		}
	}
	return collect(ctx, r.cfg.Warehouse, scan, fmt.Sprintf(query, "1"))
}

// difference is a slice whose rollup is not what its rows add up to.
type difference struct {
	slice
	receipts, quantityMs int64
	stamp                uint64 // of the rollup; 0 without one
}

// apart lists the slices of some hours that differ.
func (w *Warehouse) apart(ctx context.Context, hours map[tenantHour]bool) ([]difference, error) {
	checked, err := ext.NewTable("checked", ext.Column("tenant_id", "String"), ext.Column("hour", "Int64"))
	if err != nil {
		return nil, err
	}
	spans := map[string]bool{}
	for h := range hours {
		if err := checked.Append(h.tenantID, h.hour); err != nil {
			return nil, err
		}
		spans[fmt.Sprintf("rendered_at >= %d AND rendered_at < %d", h.hour, h.hour+hourMs)] = true
	}
	var f filter
	f.add("tenant_id IN (SELECT tenant_id FROM checked)")
	f.add("(" + strings.Join(slices.Sorted(maps.Keys(spans)), " OR ") + ")")
	f.add("(tenant_id, " + hourOf("rendered_at") + ") IN (SELECT tenant_id, hour FROM checked)")
	found, err := collect(clickhouse.Context(ctx, clickhouse.WithExternalTable(checked)), w, func(scan func(...any) error) (d difference, err error) {
		err = scan(&d.tenantID, &d.hour, &d.generation, &d.number, &d.receipts, &d.quantityMs, &d.stamp)
		return d, err
	}, `SELECT tenant_id, hour, generation, slice, toInt64(sum(abs(receipts))) AS receipts_apart, toInt64(sum(abs(quantity_ms))) AS ms_apart, max(newest)
		FROM (
			SELECT tenant_id, hour, generation, slice, line, sum(receipts) AS receipts, sum(quantity_ms) AS quantity_ms, max(stamp) AS newest FROM (
				SELECT `+sliceColumns+`, (right_id, toString(substrate), basis_id, counted_basis, counted_reason) AS line,
					toInt64(1) AS receipts, counted_ms AS quantity_ms, toUInt64(0) AS stamp
				FROM `+lowest(f)+`
				UNION ALL
				SELECT tenant_id, hour, generation, slice, (one.1, one.2, one.3, one.4, one.5) AS line, -one.6 AS receipts, -one.7 AS quantity_ms, stamp
				FROM metering_hours FINAL LEFT ARRAY JOIN lines AS one
				WHERE (tenant_id, hour) IN (SELECT tenant_id, hour FROM checked))
			GROUP BY tenant_id, hour, generation, slice, line)
		GROUP BY tenant_id, hour, generation, slice
		HAVING receipts_apart != 0 OR ms_apart != 0`)
	if err != nil {
		return nil, fmt.Errorf("cannot compare rollups: %w", err)
	}
	return found, nil
}
