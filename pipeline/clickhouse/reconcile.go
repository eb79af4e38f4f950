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
// the oldest; every fourth check does only the latter, so that a busy service comes to
// its old hours, too. It reads at most some two million receipts, or one hour of one
// tenant. What differs in two checks, while nobody has replaced the rollup in between, is
// drift: its slice is computed anew, and stays drift until it was.
//
// When a comparison fails the next one is half as large. A single hour that can't be
// compared waits, each time twice as long, and the others go on.
type Reconciler struct {
	cfg     ReconcilerConfig
	log     *slog.Logger
	metrics reconcilerMetrics

	compare func(context.Context, map[tenantHour]bool) ([]difference, error) // the warehouse's apart, but for tests

	// What follows belongs to Run.

	since    uint64 // rollups with a later stamp were not looked for yet; 0 at the start
	touched  map[tenantHour]uint64
	suspects map[slice]uint64     // stamp of the rollup that differed when it was last compared
	broken   map[slice]difference // those that are wrong, and not computed anew yet
	failed   map[tenantHour]failure
	cursor   tenantHour // hours below this one are next
	room     int        // slices that the next comparison may take
	checks   int
}

// failure is that of an hour which could not be compared, alone as it was.
type failure struct {
	times int
	until uint64 // it is not tried again before
}

// tenantHour is an hour of rendered_at of one tenant.
type tenantHour struct {
	tenantID string
	hour     int64
}

const (
	// checkSlices bounds a check.
	checkSlices = 256
	// ownTurn is how often a check leaves touched hours out.
	ownTurn = 4
	// maxTouched is how many touched hours are remembered, and how many that failed; the
	// others come up in their turn.
	maxTouched = 10_000
	// maxPatience is the longest that an hour waits which could not be compared.
	maxPatience = 6 * time.Hour
	// lookBack is how old rollups are that the first check of a process looks for.
	lookBack = 24 * time.Hour
)

type reconcilerMetrics struct {
	drift              *prometheus.GaugeVec
	unchecked          prometheus.Gauge
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
		unchecked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muniment_metering_unchecked_hours",
			Help: "Hours of a tenant whose rollups could not be compared when it was last tried, each by itself.",
		}),
		hours:    counter("checked_hours_total", "Hours of a tenant whose rollups were compared with their receipts."),
		repaired: counter("repaired_slices_total", "Slices of rollups that were wrong and were computed anew."),
		failures: counter("check_failures_total", "Checks of rollups that failed, as when the warehouse is away."),
	}
	if err := pipeline.Register(cfg.Registerer, m.drift, m.unchecked, m.hours, m.repaired, m.failures); err != nil {
		return nil, fmt.Errorf("cannot register metrics of the reconciler: %w", err)
	}
	r := &Reconciler{cfg: cfg, log: cfg.Logger, metrics: m, compare: cfg.Warehouse.apart}
	r.forget()
	return r, nil
}

// forget begins anew, as if nothing was compared yet.
func (r *Reconciler) forget() {
	r.since, r.cursor, r.room, r.checks = 0, tenantHour{}, checkSlices, 0
	r.touched, r.suspects = map[tenantHour]uint64{}, map[slice]uint64{}
	r.broken, r.failed = map[slice]difference{}, map[tenantHour]failure{}
	r.tell()
}

// tell shows what is known to be wrong, and what can't be known.
func (r *Reconciler) tell() {
	var receipts, quantityMs int64
	for _, d := range r.broken {
		receipts += d.receipts
		quantityMs += d.quantityMs
	}
	r.metrics.drift.WithLabelValues("receipts").Set(float64(receipts))
	r.metrics.drift.WithLabelValues("ms").Set(float64(quantityMs))
	r.metrics.unchecked.Set(float64(len(r.failed)))
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
			r.forget()
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
	now, err := w.now(ctx)
	if err != nil {
		return err
	}
	begun := r.cursor
	hours, taken, err := r.choose(ctx, now)
	if err != nil || len(hours) == 0 {
		return err
	}
	found, err := r.compare(ctx, hours)
	if err != nil {
		r.missed(hours, taken, begun, now)
		return err
	}
	r.room = min(2*r.room, checkSlices)
	r.metrics.hours.Add(float64(len(hours)))
	r.compared(ctx, hours, found)
	if len(r.broken) == 0 {
		return nil
	}
	if err := w.replace(ctx, maps.Keys(r.broken)); err != nil {
		return fmt.Errorf("cannot repair rollups: %w", err)
	}
	r.metrics.repaired.Add(float64(len(r.broken)))
	for s := range r.broken {
		delete(r.suspects, s)
	}
	clear(r.broken) // the gauge goes back with the check that finds them right
	return nil
}

// missed notes that hours, of so many slices, could not be compared. The cursor was at
// begun before.
func (r *Reconciler) missed(hours map[tenantHour]bool, taken int, begun tenantHour, now uint64) {
	r.room = max(1, min(r.room, taken)/2)
	if len(hours) > 1 {
		r.cursor = begun // some of them, at the next check
		return
	}
	for h := range hours {
		f := r.failed[h]
		f.until = now + uint64(min(r.cfg.Every<<min(f.times, 20), maxPatience))
		f.times++
		if len(r.failed) < maxTouched || f.times > 1 {
			r.failed[h] = f
		}
		delete(r.touched, h)
	}
	r.tell()
}

// compared notes what a comparison has found.
func (r *Reconciler) compared(ctx context.Context, hours map[tenantHour]bool, found []difference) {
	before := maps.Clone(r.suspects)
	for h := range hours {
		delete(r.touched, h)
		delete(r.failed, h)
	}
	maps.DeleteFunc(r.suspects, func(s slice, _ uint64) bool { return hours[tenantHour{s.tenantID, s.hour}] })
	maps.DeleteFunc(r.broken, func(s slice, _ difference) bool { return hours[tenantHour{s.tenantID, s.hour}] })
	for _, d := range found {
		r.suspects[d.slice] = d.stamp
		r.touched[tenantHour{d.tenantID, d.hour}] = 0 // the next check sees to it again
		if stamp, suspected := before[d.slice]; !suspected || stamp != d.stamp {
			continue
		}
		r.broken[d.slice] = d
		r.log.ErrorContext(ctx, "rollup is not what its receipts add up to, computing it anew", "tenant", d.tenantID,
			"hour", instant(d.hour), "generation", d.generation, "slice", d.number, "receipts", d.receipts, "quantity_ms", d.quantityMs)
	}
	r.tell()
}

// choose is what this check compares, and how many slices that are.
func (r *Reconciler) choose(ctx context.Context, now uint64) (chosen map[tenantHour]bool, taken int, err error) {
	if err := r.lookForTouched(ctx, now); err != nil {
		return nil, 0, err
	}
	quiet := now - uint64(2*r.cfg.Every)
	var due []tenantHour
	if r.checks++; r.checks%ownTurn != 0 {
		due = r.due(now, quiet)
	}
	next, err := r.next(ctx)
	if err != nil {
		return nil, 0, err
	}
	chosen = map[tenantHour]bool{}
	due = due[:min(len(due), r.room)]
	for i, h := range append(due, next...) {
		rotating := i >= len(due)
		if rotating && (r.touched[h] > quiet || r.failed[h].until > now) {
			r.cursor = h // a loader is at it, or it waits: its turn comes when that is done
			continue
		}
		_, alone := r.failed[h]
		if alone && len(chosen) > 0 {
			break
		}
		n, err := r.cfg.Warehouse.slices(ctx, h)
		if err != nil {
			return nil, 0, err
		}
		if len(chosen) > 0 && taken+n > r.room {
			break
		}
		chosen[h] = true
		taken += n
		if rotating {
			r.cursor = h
		}
		if alone {
			break
		}
	}
	return chosen, taken, nil
}

// lookForTouched remembers the hours that loaders have touched since the last look.
func (r *Reconciler) lookForTouched(ctx context.Context, now uint64) error {
	if r.since == 0 {
		r.since = now - uint64(lookBack)
	}
	type touch struct {
		tenantHour
		stamp uint64
	}
	touches, err := collect(ctx, r.cfg.Warehouse, func(scan func(...any) error) (t touch, err error) {
		err = scan(&t.tenantID, &t.hour, &t.stamp)
		return t, err
	}, `SELECT tenant_id, hour, max(stamp) AS newest FROM metering_hours WHERE stamp > ? GROUP BY tenant_id, hour ORDER BY newest LIMIT ?`,
		r.since, maxTouched)
	if err != nil {
		return err
	}
	for _, t := range touches {
		if stamp, known := r.touched[t.tenantHour]; known || len(r.touched) < maxTouched {
			r.touched[t.tenantHour] = max(stamp, t.stamp)
		}
	}
	// A stamp is older than its row by as much as a Load may take.
	r.since = now - uint64(2*r.cfg.Warehouse.timeout)
	return nil
}

// due lists the hours that loaders have touched and left alone, and behind them those
// whose comparison failed and is to be tried again.
func (r *Reconciler) due(now, quiet uint64) []tenantHour {
	var due, again []tenantHour
	for h, stamp := range r.touched {
		if _, failed := r.failed[h]; !failed && stamp <= quiet {
			due = append(due, h)
		}
	}
	for h, f := range r.failed {
		if f.until <= now {
			again = append(again, h)
		}
	}
	order := func(a, b tenantHour) int {
		return cmp.Or(cmp.Compare(r.failed[a].until, r.failed[b].until), cmp.Compare(r.touched[a], r.touched[b]),
			cmp.Compare(a.hour, b.hour), strings.Compare(a.tenantID, b.tenantID))
	}
	slices.SortFunc(due, order)
	slices.SortFunc(again, order)
	return append(due, again...)
}

// slices is how many an hour has, at least one.
func (w *Warehouse) slices(ctx context.Context, h tenantHour) (int, error) {
	var n uint64
	err := w.conn.QueryRow(ctx, `SELECT uniqExact(generation, slice) FROM metering_hours WHERE tenant_id = ? AND hour = ?`, h.tenantID, h.hour).Scan(&n)
	if err == nil && n == 0 {
		err = w.conn.QueryRow(ctx, fmt.Sprintf(`SELECT uniqExact(generation, intDiv(position, %d)) FROM events
			WHERE receipt_id != '' AND tenant_id = ? AND rendered_at >= ? AND rendered_at < ?`, slicePositions),
			h.tenantID, h.hour, h.hour+hourMs).Scan(&n)
	}
	return max(1, int(n)), err
}

// nextHours is how many hours in their turn a check looks at.
const nextHours = 32

// next lists some hours below the cursor, the newest first; behind the oldest it begins
// anew. Those of events without any rollup are among them.
func (r *Reconciler) next(ctx context.Context) ([]tenantHour, error) {
	scan := func(scan func(...any) error) (h tenantHour, err error) {
		err = scan(&h.tenantID, &h.hour)
		return h, err
	}
	const page = ` ORDER BY hour DESC, tenant_id DESC LIMIT ?`
	rollups, events := filter{}, filter{}
	rollups.add("1")
	events.add("receipt_id != ''")
	if r.cursor != (tenantHour{}) {
		rollups.add("hour <= ? AND (hour, tenant_id) < (?, ?)", r.cursor.hour, r.cursor.hour, r.cursor.tenantID)
		events.add("rendered_at < ? AND (hour, tenant_id) < (?, ?)", r.cursor.hour+hourMs, r.cursor.hour, r.cursor.tenantID)
	}
	hours, err := collect(ctx, r.cfg.Warehouse, scan,
		`SELECT DISTINCT tenant_id, hour FROM metering_hours WHERE `+rollups.String()+page, append(rollups.args, nextHours)...)
	if err != nil {
		return nil, err
	}
	if len(hours) == nextHours { // else down to the oldest event
		lowest := hours[nextHours-1]
		events.add("rendered_at >= ? AND (hour, tenant_id) > (?, ?)", lowest.hour, lowest.hour, lowest.tenantID)
		if r.cursor.hour == lowest.hour {
			events.add("tenant_id > ? AND tenant_id < ?", lowest.tenantID, r.cursor.tenantID)
		}
	}
	more, err := collect(ctx, r.cfg.Warehouse, scan,
		`SELECT DISTINCT tenant_id, `+hourOf("rendered_at")+` AS hour FROM events WHERE `+events.String()+page, append(events.args, nextHours)...)
	if err != nil {
		return nil, err
	}
	hours = append(hours, more...)
	slices.SortFunc(hours, func(a, b tenantHour) int {
		return cmp.Or(cmp.Compare(b.hour, a.hour), strings.Compare(b.tenantID, a.tenantID))
	})
	hours = slices.Compact(hours)
	if len(hours) == 0 && r.cursor != (tenantHour{}) {
		r.cursor = tenantHour{}
		return r.next(ctx)
	}
	return hours[:min(len(hours), nextHours)], nil
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
		spans[within(h.hour)] = true
	}
	var f filter
	f.add("tenant_id IN (SELECT tenant_id FROM checked)")
	f.add(anyOf(spans))
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
