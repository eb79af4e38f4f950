package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muniment/pipeline"
)

// eventKey names an event.
type eventKey struct{ tenantID, eventID string }

// standing are the rows whose events were not retracted.
func standing(rows []pipeline.Row, retracted map[eventKey]keyID) []pipeline.Row {
	if len(retracted) == 0 {
		return rows
	}
	return slices.DeleteFunc(rows, func(r pipeline.Row) bool {
		_, gone := retracted[eventKey{r.TenantID, r.EventID}]
		return gone
	})
}

// retracted lists what was retracted, with the keys of deliveries.
func (w *Warehouse) retracted(ctx context.Context) (map[eventKey]keyID, error) {
	all := map[eventKey]keyID{}
	_, err := collect(ctx, w, func(scan func(...any) error) (none struct{}, err error) {
		var e eventKey
		var key keyID
		err = scan(&e.tenantID, &e.eventID, &key.idempotency, &key.row.Hash, &key.row.Day)
		key.tenantID = e.tenantID
		all[e] = key
		return none, err
	}, `SELECT tenant_id, event_id, idempotency, row_hash, row_day FROM withdrawn`)
	return all, err
}

// retract notes for good the rows whose record is set aside and released.
func (w *Warehouse) retract(ctx context.Context) error {
	return w.exec(ctx, `INSERT INTO withdrawn (tenant_id, event_id, generation, log_partition, position, idempotency, row_hash, row_day)
		SELECT tenant_id, event_id, generation, log_partition, position, idempotency, row_hash, row_day FROM events FINAL
		WHERE (tenant_id, event_id) IN (SELECT tenant_id, event_id FROM set_aside)
			AND (tenant_id, event_id, generation, log_partition, position) IN (
				SELECT tenant_id, event_id, generation, log_partition, position FROM set_aside
				WHERE (log_partition, generation, position) NOT IN (SELECT log_partition, generation, position FROM `+held+`))`)
}

// forget deletes the rows of what was retracted, and decides again about the deliveries
// with their keys. It does so for all that ever were: a call that failed half-way is made
// good by the next one.
func (w *Warehouse) forget(ctx context.Context, retracted map[eventKey]keyID) error {
	if len(retracted) == 0 {
		return nil
	}
	var events []string
	keys := map[keyID]bool{}
	for e, key := range retracted {
		events = append(events, "("+literal(e.tenantID)+", "+literal(e.eventID)+")")
		if !key.none() {
			keys[key] = true
		}
	}
	// What the event needs goes after it: where it is seen, that is there.
	for _, table := range []string{"events", "idempotency_keys", "row_identities", "private_parts"} {
		for some := range slices.Chunk(events, 1000) {
			if err := w.conn.Exec(ctx, `DELETE FROM `+table+` WHERE (tenant_id, event_id) IN (`+strings.Join(some, ", ")+`)`); err != nil {
				return fmt.Errorf("cannot delete what was retracted from %s: %w", table, err)
			}
		}
	}
	rows, err := w.withAnyOf(ctx, keys, retracted)
	if err != nil {
		return err
	}
	return insert(ctx, w, "duplicates", decisionColumns, repeats(rows, slices.Clone(rows)))
}

// literal is a text in a statement that takes no arguments.
func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
