package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"

	"muniment.example/pipeline"
	"muniment.example/pipeline/drift"
	"muniment.example/sealer"
)

var _ drift.Auditor = (*reader)(nil)

// between keeps the rows of a partition at from ≤ position < to.
func between(from, to sealer.Position) string {
	return fmt.Sprintf("log_partition = %d AND place >= %s AND place < %s", from.Partition, place(from), place(to))
}

// auditedColumns are what scanEvent reads.
const auditedColumns = `tenant_id, event_id, generation, log_partition, position`

func scanEvent(scan func(...any) error) (e drift.Event, err error) {
	err = scan(&e.TenantID, &e.EventID, &e.Generation, &e.Partition, &e.Offset)
	return e, err
}

// Standing implements drift.Auditor.
func (w *reader) Standing(ctx context.Context, from, to sealer.Position) ([]drift.Event, error) {
	list, err := collect(ctx, w.servers, scanEvent, `SELECT `+auditedColumns+` FROM events WHERE `+between(from, to))
	if err != nil {
		return nil, fmt.Errorf("cannot list the rows from %s to %s: %w", from, to, err)
	}
	return list, nil
}

// Unaccounted implements drift.Auditor. It reads what was retracted last: that is written
// before the row is deleted.
func (w *reader) Unaccounted(ctx context.Context, events []drift.Event) (_ []drift.Event, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot account for events without a row: %w", err)
		}
	}()
	wanted, err := ext.NewTable("wanted", ext.Column("tenant_id", "String"), ext.Column("event_id", "String"))
	if err != nil {
		return nil, err
	}
	first, last := events[0].Position, events[0].Position
	for _, e := range events {
		if err := wanted.Append(e.TenantID, e.EventID); err != nil {
			return nil, err
		}
		if e.Compare(first) < 0 {
			first = e.Position
		}
		if e.Compare(last) > 0 {
			last = e.Position
		}
	}
	rows, err := collect(clickhouse.Context(ctx, clickhouse.WithExternalTable(wanted)), w.servers, scanEvent,
		`SELECT `+auditedColumns+` FROM events WHERE (tenant_id, event_id) IN (SELECT tenant_id, event_id FROM wanted)`)
	if err != nil {
		return nil, err
	}
	lowest := map[eventKey]sealer.Position{}
	for _, r := range rows {
		key := eventKey{r.TenantID, r.EventID}
		if at, ok := lowest[key]; !ok || r.Compare(at) < 0 {
			lowest[key] = r.Position
		}
	}
	quarantined, err := collect(ctx, w.servers, func(scan func(...any) error) (p sealer.Position, err error) {
		err = scan(&p.Generation, &p.Partition, &p.Offset)
		return p, err
	}, `SELECT generation, log_partition, position FROM set_aside
		WHERE log_partition = ? AND (generation, position) >= (?, ?) AND (generation, position) <= (?, ?)`,
		first.Partition, first.Generation, first.Offset, last.Generation, last.Offset)
	if err != nil {
		return nil, err
	}
	retracted, err := w.retracted(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(events), func(e drift.Event) bool {
		key := eventKey{e.TenantID, e.EventID}
		at, stands := lowest[key]
		_, gone := retracted[key]
		return stands && at.Compare(e.Position) <= 0 || gone || slices.Contains(quarantined, e.Position)
	}), nil
}

// Misjudged implements drift.Auditor.
func (w *reader) Misjudged(ctx context.Context, from, to sealer.Position) (list []drift.Event, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot decide anew from %s to %s: %w", from, to, err)
		}
	}()
	type judged struct {
		drift.Event
		keyed
		decided bool
	}
	deliveries, err := collect(ctx, w.servers, func(scan func(...any) error) (j judged, err error) {
		var at time.Time
		var key keyID
		err = scan(&j.TenantID, &j.EventID, &j.Generation, &j.Partition, &j.Offset, &at, &key.idempotency, &key.row.Hash, &key.row.Day, &j.decided)
		key.tenantID = j.TenantID
		j.keyed = keyed{key, j.EventID, j.Position, at.UnixMilli(), key.hashed()}
		return j, err
	}, `SELECT `+auditedColumns+`, at, idempotency, row_hash, row_day, (generation, position) IN (
			SELECT generation, position FROM duplicates WHERE log_partition = ? AND `+holds+`) AS decided
		FROM events FINAL WHERE receipt_id != '' AND `+between(from, to), from.Partition)
	if err != nil {
		return nil, err
	}
	retracted, err := w.retracted(ctx)
	if err != nil {
		return nil, err
	}
	var keys []keyed
	wanted := lookUps{}
	for _, j := range deliveries {
		if !j.none() {
			keys = append(keys, j.keyed)
			wanted.add(j.keyed)
		}
	}
	oldest := wanted.idempotent().oldest()
	since, err := w.keysSince(ctx, oldest)
	if err != nil {
		return nil, err
	}
	past, err := w.withAnyOf(ctx, wanted, retracted, since)
	if err == nil {
		err = w.keysStill(ctx, oldest, since)
	}
	if err != nil {
		return nil, err
	}
	repeated := map[sealer.Position]bool{}
	for _, d := range repeats(keys, slices.Concat(past, keys)) {
		repeated[d.position] = true
	}
	for _, j := range deliveries {
		if j.decided != repeated[j.Position] {
			list = append(list, j.Event)
		}
	}
	return list, nil
}

// Sum implements drift.Auditor.
func (w *reader) Sum(ctx context.Context, tenantID string, first, last sealer.Position) (rows int64, lines []pipeline.MeterRow, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot sum the rows of %s from %s to %s: %w", tenantID, first, last, err)
		}
	}()
	var f filter
	f.add("tenant_id = ?", tenantID)
	f.add(between(first, last.Next()))
	counts, err := collect(ctx, w.servers, func(scan func(...any) error) (n int64, err error) { return n, scan(&n) },
		`SELECT toInt64(count()) FROM events FINAL WHERE `+f.String(), f.args...)
	if err != nil {
		return 0, nil, err
	}
	from, args := decisions(tenantID, f)
	lines, err = collect(ctx, w.servers, func(scan func(...any) error) (r pipeline.MeterRow, err error) {
		err = scan(&r.RightID, &r.Substrate, &r.BasisID, &r.MeteringBasis, &r.Reason, &r.Receipts, &r.QuantityMs, &r.Impressions)
		return r, err
	}, `SELECT `+summed+` FROM `+narrowly("0", "", from)+` GROUP BY 1, 2, 3, 4, 5`, args...)
	return counts[0], lines, err
}
