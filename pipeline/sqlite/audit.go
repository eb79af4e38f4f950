package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"muniment.example/pipeline"
	"muniment.example/pipeline/drift"
	"muniment.example/sealer"
)

var _ drift.Auditor = (*Warehouse)(nil)

// standing selects the rows e of tenants t, of a partition between two positions, which are
// the arguments (see bounds).
const standing = `tenants AS t CROSS JOIN events AS e USING (tenant)
	WHERE e.log_partition = ? AND (e.generation, e.position) >= (?, ?) AND (e.generation, e.position) < (?, ?)`

func bounds(from, to sealer.Position) []any {
	return []any{from.Partition, from.Generation, from.Offset, to.Generation, to.Offset}
}

// Standing implements drift.Auditor.
func (w *Warehouse) Standing(ctx context.Context, from, to sealer.Position) ([]drift.Event, error) {
	list, err := collect(ctx, w.read, func(scan func(...any) error) (e drift.Event, err error) {
		var id any
		err = scan(&e.TenantID, &id, &e.Generation, &e.Partition, &e.Offset)
		e.EventID = eventID(id)
		return e, err
	}, `SELECT t.tenant_id, e.event_id, e.generation, e.log_partition, e.position FROM `+standing, bounds(from, to)...)
	if err != nil {
		return nil, fmt.Errorf("cannot list the rows from %s to %s: %w", from, to, err)
	}
	return list, nil
}

// Unaccounted implements drift.Auditor.
func (w *Warehouse) Unaccounted(ctx context.Context, events []drift.Event) (list []drift.Event, err error) {
	stmt, err := w.read.PrepareContext(ctx, `SELECT
		EXISTS (SELECT 1 FROM set_aside WHERE (log_partition, generation, position) = (?1, ?2, ?3))
		OR EXISTS (SELECT 1 FROM tenants WHERE tenant_id = ?4 AND dropped)
		OR EXISTS (SELECT 1 FROM tenants CROSS JOIN withdrawn USING (tenant) WHERE tenant_id = ?4 AND event_id = ?5)
		OR EXISTS (SELECT 1 FROM tenants CROSS JOIN events AS e INDEXED BY events_by_id USING (tenant)
			WHERE tenant_id = ?4 AND event_id = ?5 AND (e.generation, e.position) <= (?2, ?3))`)
	if err != nil {
		return nil, err
	}
	defer stmt.Close()
	for _, e := range events {
		var accounted bool
		if err := stmt.QueryRowContext(ctx, e.Partition, e.Generation, e.Offset, e.TenantID, eventKey(e.EventID)).Scan(&accounted); err != nil {
			return nil, fmt.Errorf("cannot account for event %s at %s: %w", e.EventID, e.Position, err)
		}
		if !accounted {
			list = append(list, e)
		}
	}
	return list, nil
}

// judgedDelivery is a delivery, and whether it is stored as a duplicate.
type judgedDelivery struct {
	drift.Event
	tenant  int64
	key     any // of dedupKey
	decided int // how many of its row and the table duplicates say that it is one: 0, 1 or 2
}

// Misjudged implements drift.Auditor. It also lists deliveries of which the row and the table
// of duplicates disagree.
func (w *Warehouse) Misjudged(ctx context.Context, from, to sealer.Position) (list []drift.Event, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot decide anew from %s to %s: %w", from, to, err)
		}
	}()
	deliveries, err := collect(ctx, w.read, func(scan func(...any) error) (j judgedDelivery, err error) {
		var id any
		err = scan(&j.TenantID, &j.tenant, &id, &j.Generation, &j.Partition, &j.Offset, &j.key, &j.decided)
		j.EventID = eventID(id)
		return j, err
	}, `SELECT t.tenant_id, t.tenant, e.event_id, e.generation, e.log_partition, e.position, e.dedup_key,
			COALESCE(e.duplicate, FALSE) + EXISTS (SELECT 1 FROM duplicates AS d
				WHERE (d.tenant, d.generation, d.position, d.log_partition) = (e.tenant, e.generation, e.position, e.log_partition))
		FROM `+standing, bounds(from, to)...)
	if err != nil {
		return nil, err
	}
	repeats, err := repeating(ctx, w.read, deliveries)
	if err != nil {
		return nil, err
	}
	for i, j := range deliveries {
		if repeats[i] && j.decided != 2 || !repeats[i] && j.decided != 0 {
			list = append(list, j.Event)
		}
	}
	return list, nil
}

// repeating finds those of the deliveries, by index, that repeat another, by the stored keys
// and rows.
func repeating(ctx context.Context, db *sql.DB, deliveries []judgedDelivery) (repeats map[int]bool, err error) {
	var keyed [][7]int64
	for i, j := range deliveries {
		if j.key == nil {
			continue
		}
		k := [7]int64{int64(i), j.tenant, hashOf(j.key), int64(j.Generation), j.Offset, int64(j.Partition)}
		if isRow(j.key) {
			k[6] = 1
		}
		keyed = append(keyed, k)
	}
	text, err := json.Marshal(keyed)
	if err != nil {
		return nil, err
	}
	found, err := collect(ctx, db, func(scan func(...any) error) (i int, err error) {
		err = scan(&i)
		return i, err
	}, `SELECT DISTINCT c.value ->> 0 FROM json_each(?) AS c
		CROSS JOIN events AS e ON (e.tenant, e.generation, e.position, e.log_partition) = (c.value ->> 1, c.value ->> 3, c.value ->> 4, c.value ->> 5)
		CROSS JOIN spans AS s ON c.value ->> 6 OR s.latest >= e.at - `+fmt.Sprint(dayMs)+`
		CROSS JOIN keys AS k ON k.span = s.span AND k.tenant = e.tenant AND k.hash = c.value ->> 2 AND (k.generation, k.position) < (e.generation, e.position)
		CROSS JOIN events AS f ON (f.tenant, f.generation, f.position, f.log_partition) = (k.tenant, k.generation, k.position, k.log_partition)
		WHERE f.dedup_key = e.dedup_key AND (c.value ->> 6 OR f.at >= e.at - `+fmt.Sprint(dayMs)+`)`, string(text))
	if err != nil {
		return nil, err
	}
	repeats = map[int]bool{}
	for _, i := range found {
		repeats[i] = true
	}
	return repeats, nil
}

// Sum implements drift.Auditor.
func (w *Warehouse) Sum(ctx context.Context, tenantID string, first, last sealer.Position) (rows int64, lines []pipeline.MeterRow, err error) {
	type line struct {
		pipeline.MeterRow
		delivery bool
	}
	all, err := collect(ctx, w.read, func(scan func(...any) error) (l line, err error) {
		err = scan(&l.delivery, &l.RightID, &l.Substrate, &l.BasisID, &l.MeteringBasis, &l.Reason, &l.Receipts, &l.QuantityMs, &l.Impressions)
		return l, err
	}, `SELECT delivery, right_id, substrate, basis_id, metering_basis, reason, SUM(receipts), SUM(quantity_ms), SUM(impressions) FROM (
			SELECT s.class = 0 AS delivery, COALESCE(right_id, '') AS right_id, COALESCE(substrate, '') AS substrate, COALESCE(basis_id, '') AS basis_id,
				COALESCE(CASE WHEN s.duplicate THEN 'none' ELSE metering_basis END, '') AS metering_basis,
				COALESCE(CASE WHEN s.duplicate THEN '`+pipeline.ReasonDuplicate+`' ELSE reason END, '') AS reason,
				s.receipts, CASE WHEN s.duplicate THEN 0 ELSE s.quantity_ms END AS quantity_ms,
				CASE WHEN metered AND NOT s.duplicate THEN s.impressions ELSE 0 END AS impressions
			FROM (SELECT e.common, e.class, e.duplicate, COUNT(*) AS receipts, COALESCE(SUM(e.quantity_ms), 0) AS quantity_ms,
					SUM(`+impressions+`) AS impressions
				FROM tenants AS t CROSS JOIN events AS e USING (tenant)
				WHERE t.tenant_id = ? AND (e.generation, e.position) >= (?, ?) AND (e.generation, e.position) <= (?, ?)
				GROUP BY e.common, e.class, e.duplicate) AS s CROSS JOIN common USING (common))
		GROUP BY 1, 2, 3, 4, 5, 6`, tenantID, first.Generation, first.Offset, last.Generation, last.Offset)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot sum the rows of %s from %s to %s: %w", tenantID, first, last, err)
	}
	for _, l := range all {
		rows += l.Receipts
		if l.delivery {
			lines = append(lines, l.MeterRow)
		}
	}
	return rows, lines, nil
}
