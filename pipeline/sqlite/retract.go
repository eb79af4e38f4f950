package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// retract removes the rows whose record is quarantined and released: records that the batch
// quarantines or releases, and rows of the batch whose record was quarantined before.
func (l *load) retract(b pipeline.Batch) error {
	maybe := map[sealer.Position]bool{}
	for _, s := range b.Quarantined {
		maybe[s.Position] = true
	}
	for _, n := range l.rows {
		if n.Type == pipeline.TypeReleased {
			if p, err := sealer.ParsePosition(n.SubjectID); err == nil {
				maybe[p] = true
			}
		}
	}
	if len(l.rows) > 0 {
		low, high := l.rows[0].Position, l.rows[0].Position
		for _, n := range l.rows {
			if n.Position.Compare(low) < 0 {
				low = n.Position
			}
			if n.Position.Compare(high) > 0 {
				high = n.Position
			}
		}
		rows, err := l.QueryContext(l.ctx, `SELECT generation, position FROM set_aside
			WHERE log_partition = ? AND (generation, position) BETWEEN (?, ?) AND (?, ?)`,
			b.Partition, low.Generation, low.Offset, high.Generation, high.Offset)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			p := sealer.Position{Partition: b.Partition}
			if err := rows.Scan(&p.Generation, &p.Offset); err != nil {
				return err
			}
			maybe[p] = true
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	for p := range maybe {
		if err := l.retractAt(p); err != nil {
			return fmt.Errorf("cannot retract the event at %s: %w", p, err)
		}
	}
	return nil
}

func (l *load) retractAt(position sealer.Position) error {
	var tenantID, eventID string
	p := placeOf(position)
	err := l.QueryRowContext(l.ctx, `SELECT tenant_id, event_id FROM set_aside AS s
		WHERE (log_partition, generation, position) = (?1, ?2, ?3)
			AND NOT EXISTS (SELECT 1 FROM held WHERE (log_partition, generation, position) = (?1, ?2, ?3))`,
		p.partition, p.generation, p.position).Scan(&tenantID, &eventID)
	if err != nil {
		return none(err)
	}
	var tenant int64
	err = l.QueryRowContext(l.ctx, `SELECT tenant FROM tenants CROSS JOIN events USING (tenant)
		WHERE tenant_id = ? AND (generation, position, log_partition) = (?, ?, ?) AND event_id = ?`,
		tenantID, p.generation, p.position, p.partition, eventKey(eventID)).Scan(&tenant)
	if err != nil {
		return none(err)
	}
	if err := l.exec(`INSERT INTO withdrawn (event_id, tenant) VALUES (?, ?)`, eventKey(eventID), tenant); err != nil {
		return err
	}
	return l.remove(tenant, p)
}

// none returns nil for sql.ErrNoRows.
func none(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// remove deletes a row and all that was derived from it, and decides anew which rows with its
// key are duplicates.
func (l *load) remove(tenant int64, p place) error {
	var key any
	var class, text int64
	err := l.QueryRowContext(l.ctx, `SELECT class, text, dedup_key FROM events WHERE (tenant, generation, position, log_partition) = (?, ?, ?, ?)`,
		tenant, p.generation, p.position, p.partition).Scan(&class, &text, &key)
	if err != nil {
		return err
	}
	if class == classDelivery {
		err = l.removeText(tenant, text)
	} else {
		err = l.exec(`DELETE FROM texts WHERE text = ?`, text)
	}
	if err != nil {
		return err
	}
	at := []any{tenant, p.generation, p.position, p.partition}
	const here = ` WHERE (tenant, generation, position, log_partition) = (?, ?, ?, ?)`
	for _, statement := range []string{
		`DELETE FROM events` + here,
		`DELETE FROM duplicates` + here,
	} {
		if err := l.exec(statement, at...); err != nil {
			return err
		}
	}
	if class != classDelivery {
		return nil
	}
	if err := l.exec(`UPDATE tenants SET deliveries = deliveries - 1 WHERE tenant = ?`, tenant); err != nil || key == nil {
		return err
	}
	if err := l.exec(`DELETE FROM keys`+here+` AND hash = ? AND span IN (SELECT span FROM spans)`, append(at, hashOf(key))...); err != nil {
		return err
	}
	return l.decideAnew(tenant, key)
}

// decideAnew decides which rows with a key are duplicates.
func (l *load) decideAnew(tenant int64, key any) error {
	type one struct {
		place
		at        int64
		duplicate bool
	}
	rows, err := l.QueryContext(l.ctx, `SELECT e.generation, e.position, e.log_partition, e.at, e.duplicate
		FROM spans AS s CROSS JOIN keys AS k ON k.span = s.span AND k.tenant = ? AND k.hash = ?
			CROSS JOIN events AS e USING (tenant, generation, position, log_partition)
		WHERE e.dedup_key = ? ORDER BY 1, 2`, tenant, hashOf(key), key)
	if err != nil {
		return err
	}
	defer rows.Close()
	var all []one
	for rows.Next() {
		var o one
		if err := rows.Scan(&o.generation, &o.position, &o.partition, &o.at, &o.duplicate); err != nil {
			return err
		}
		all = append(all, o)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for i, o := range all {
		at := []any{tenant, o.generation, o.position, o.partition}
		const here = ` WHERE (tenant, generation, position, log_partition) = (?, ?, ?, ?)`
		if err := l.exec(`DELETE FROM duplicates`+here, at...); err != nil {
			return err
		}
		duplicate := false
		for _, p := range all[:i] {
			if p.before(o.place) && (isRow(key) || p.at >= o.at-dayMs) {
				duplicate = true
				if err := l.storeDuplicate(tenant, o.place, p.place); err != nil {
					return err
				}
				break
			}
		}
		if duplicate == o.duplicate {
			continue
		}
		if err := l.exec(`UPDATE events SET duplicate = ?`+here, append([]any{duplicate}, at...)...); err != nil {
			return err
		}
	}
	return nil
}

// drop deletes all data of tenants that are dropped (pipeline.TypeDropped), and marks them:
// later rows of theirs are ignored.
func (l *load) drop(b pipeline.Batch) error {
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Type != pipeline.TypeDropped || r.SubjectID != r.TenantID {
			continue
		}
		t, err := l.tenantOf(r.TenantID)
		if err != nil {
			return err
		}
		if t.dropped {
			continue
		}
		for _, statement := range []string{
			`DELETE FROM texts WHERE text IN (SELECT text FROM events WHERE tenant = ? AND class > 0)`,
			`DELETE FROM text_blocks WHERE tenant = ?`,
			`DELETE FROM events WHERE tenant = ?`,
			`DELETE FROM duplicates WHERE tenant = ?`,
			`DELETE FROM keys WHERE tenant = ? AND span IN (SELECT span FROM spans)`,
			`DELETE FROM search_marks WHERE tenant = ? AND span IN (SELECT span FROM spans)`,
			`DELETE FROM search_times WHERE tenant = ?`,
			`DELETE FROM common WHERE tenant = ?`,
			`UPDATE tenants SET dropped = TRUE, deliveries = 0 WHERE tenant = ?`,
		} {
			if err := l.exec(statement, t.number); err != nil {
				return fmt.Errorf("cannot drop %s: %w", r.TenantID, err)
			}
		}
		l.tenants[r.TenantID] = tenant{t.number, true}
		delete(l.tails, t.number)
	}
	return nil
}
