package clickhouse

import (
	"context"
	"slices"

	"muniment/pipeline"
)

// standing are the rows whose events were not withdrawn.
func (w *Warehouse) standing(ctx context.Context, rows []pipeline.Row) ([]pipeline.Row, error) {
	withdrawn, err := w.withdrawn(ctx)
	if err != nil || len(withdrawn) == 0 {
		return rows, err
	}
	gone := map[[2]string]bool{}
	for _, r := range withdrawn {
		gone[[2]string{r.TenantID, r.EventID}] = true
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r pipeline.Row) bool { return gone[[2]string{r.TenantID, r.EventID}] }), nil
}

// withdrawn lists what was withdrawn, with as much of each row as rollups need.
func (w *Warehouse) withdrawn(ctx context.Context) ([]pipeline.Row, error) {
	return collect(ctx, w, func(scan func(...any) error) (r pipeline.Row, err error) {
		var at, renderedAt int64
		var delivery bool
		var idempotency string
		err = scan(&r.TenantID, &r.EventID, &r.Generation, &r.Offset, &at, &renderedAt, &delivery, &idempotency)
		r.At = instant(at)
		if delivery {
			r.Delivery = &pipeline.Delivery{RenderedAt: instant(renderedAt), Idempotency: idempotency}
		}
		return r, err
	}, `SELECT tenant_id, event_id, generation, position, at, rendered_at, delivery, idempotency FROM withdrawn FINAL`)
}

// withdraw takes the rows away whose record is set aside and released, and returns
// all that ever were: a call that failed half-way is made good by the next one.
func (w *Warehouse) withdraw(ctx context.Context) ([]pipeline.Row, error) {
	err := w.exec(ctx, `INSERT INTO withdrawn (tenant_id, event_id, generation, position, at, rendered_at, delivery, idempotency)
		SELECT tenant_id, event_id, generation, position, at, rendered_at, receipt_id != '', idempotency FROM events FINAL
		WHERE (tenant_id, event_id) IN (SELECT tenant_id, event_id FROM set_aside)
			AND (tenant_id, event_id, generation, log_partition, position) IN (
				SELECT tenant_id, event_id, generation, log_partition, position FROM set_aside
				WHERE (log_partition, generation, position) NOT IN (SELECT log_partition, generation, position FROM `+held+`))`)
	if err != nil {
		return nil, err
	}
	rows, err := w.withdrawn(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		// What the event needs goes after it: where it is seen, that is there.
		for _, table := range []string{"events", "idempotency_keys", "private_parts"} {
			if err := w.conn.Exec(ctx, `DELETE FROM `+table+` WHERE tenant_id = ? AND event_id = ?`, r.TenantID, r.EventID); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}
