package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muniment.example/pipeline"
)

// eventKey names an event.
type eventKey struct{ tenantID, eventID string }

// withoutRetracted are the rows whose events were not retracted.
func withoutRetracted(rows []pipeline.Row, retracted map[eventKey]keyID) []pipeline.Row {
	if len(retracted) == 0 {
		return rows
	}
	return slices.DeleteFunc(rows, func(r pipeline.Row) bool {
		_, gone := retracted[eventKey{r.TenantID, r.EventID}]
		return gone
	})
}

// retracted lists what was retracted, with the keys of deliveries.
func (w *servers) retracted(ctx context.Context) (map[eventKey]keyID, error) {
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

// toRetract are the rows that are to be retracted: those whose record is quarantined and released.
const toRetract = `events FINAL
	WHERE (tenant_id, event_id) IN (SELECT tenant_id, event_id FROM set_aside)
		AND (tenant_id, event_id, generation, log_partition, position) IN (
			SELECT tenant_id, event_id, generation, log_partition, position FROM set_aside
			WHERE (log_partition, generation, position) NOT IN (SELECT log_partition, generation, position FROM ` + held + `))`

// retract stores which rows are retracted. No pack has them that control knows; but control may have been
// restored to an older state since the sums of a pack with them were copied.
func (w *Warehouse) retract(ctx context.Context) error {
	if err := w.giveUpCopies(ctx, toRetract); err != nil {
		return err
	}
	return w.exec(ctx, `INSERT INTO withdrawn (tenant_id, event_id, generation, log_partition, position, idempotency, row_hash, row_day)
		SELECT tenant_id, event_id, generation, log_partition, position, idempotency, row_hash, row_day FROM `+toRetract)
}

// forget deletes retracted rows, and decides anew about the deliveries with their keys. It
// does so for all that were ever retracted, so that it completes a call that failed half-way.
func (w *Warehouse) forget(ctx context.Context, retracted map[eventKey]keyID) error {
	if len(retracted) == 0 {
		return nil
	}
	var events []string
	keys := lookUps{}
	for e, key := range retracted {
		events = append(events, "("+literal(e.tenantID)+", "+literal(e.eventID)+")")
		if !key.none() {
			keys[key] = 0
		}
	}
	// What an event needs is deleted after it, as a visible event must have it.
	for _, table := range []string{"events", "idempotency_keys", "row_identities"} {
		for some := range slices.Chunk(events, 1000) {
			if err := w.conn.Exec(ctx, `DELETE FROM `+table+` WHERE (tenant_id, event_id) IN (`+strings.Join(some, ", ")+`)`); err != nil {
				return fmt.Errorf("cannot delete what was retracted from %s: %w", table, err)
			}
		}
	}
	// The deletes above only mark rows. Private parts are deleted physically, because Erase
	// would not find a marked one.
	for i, e := range events {
		events[i] = "(tenant_id, event_id) = " + e
	}
	if err := w.deletePrivate(ctx, events); err != nil {
		return err
	}
	since, err := w.keysSince(ctx, 0)
	if err != nil {
		return err
	}
	rows, err := w.withAnyOf(ctx, keys, retracted, since)
	if err == nil {
		err = w.keysStill(ctx, 0, since)
	}
	if err != nil {
		return err
	}
	return insert(ctx, w.servers, "duplicates", decisionColumns, repeats(rows, slices.Clone(rows)))
}

// literal is a text in a statement that takes no arguments.
func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
