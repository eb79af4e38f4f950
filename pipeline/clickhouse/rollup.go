package clickhouse

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"

	"muniment/pipeline"
)

const hourMs = int64(time.Hour / time.Millisecond)

// hourOf is the start of the hour of a column of milliseconds.
func hourOf(column string) string {
	return fmt.Sprintf("(%[1]s - positiveModulo(%[1]s, %[2]d))", column, hourMs)
}

// tenantHour is one rollup.
type tenantHour struct {
	tenantID string
	hour     int64
}

// rollUp replaces the rollups of the hours whose decisions rows can have changed.
// The rows must be loaded.
func (w *Warehouse) rollUp(ctx context.Context, rows []pipeline.Row) error {
	hours, err := w.touched(ctx, rows)
	if err == nil && len(hours) > 0 {
		err = w.replaceHours(ctx, hours)
	}
	if err != nil {
		return fmt.Errorf("cannot replace rollups: %w", err)
	}
	return nil
}

// touched lists the hours of the rows themselves, and those of deliveries with one
// of their hashes: a row that comes late may make a duplicate of one that is there.
func (w *Warehouse) touched(ctx context.Context, rows []pipeline.Row) (map[tenantHour]bool, error) {
	brought, err := ext.NewTable("brought", ext.Column("tenant_id", "String"), ext.Column("idempotency", "String"))
	if err != nil {
		return nil, err
	}
	hours, keys := map[tenantHour]bool{}, 0
	for _, r := range rows {
		if r.Delivery == nil {
			continue
		}
		ms := r.Delivery.RenderedAt.UnixMilli()
		hours[tenantHour{r.TenantID, ms - ((ms%hourMs)+hourMs)%hourMs}] = true
		if r.Delivery.Idempotency != "" {
			keys++
			if err := brought.Append(r.TenantID, r.Delivery.Idempotency); err != nil {
				return nil, err
			}
		}
	}
	if keys == 0 {
		return hours, nil
	}
	others, err := collect(clickhouse.Context(ctx, clickhouse.WithExternalTable(brought)), w,
		func(scan func(...any) error) (h tenantHour, err error) {
			err = scan(&h.tenantID, &h.hour)
			return h, err
		}, `SELECT DISTINCT tenant_id, `+hourOf("rendered_at")+` FROM idempotency_keys
			WHERE (tenant_id, idempotency) IN (SELECT tenant_id, idempotency FROM brought)`)
	for _, h := range others {
		hours[h] = true
	}
	return hours, err
}

// replaceHours computes the rollups of some hours anew.
func (w *Warehouse) replaceHours(ctx context.Context, hours map[tenantHour]bool) error {
	touched, err := ext.NewTable("touched", ext.Column("tenant_id", "String"), ext.Column("hour", "Int64"))
	if err != nil {
		return err
	}
	var first, last int64
	some := false
	for h := range hours {
		if err := touched.Append(h.tenantID, h.hour); err != nil {
			return err
		}
		if !some {
			first, last, some = h.hour, h.hour, true
		}
		first, last = min(first, h.hour), max(last, h.hour)
	}
	// The stamp is taken by the one clock of the server, before anything is read: who
	// has changed something afterwards will replace the hour after us.
	var stamp uint64
	if err := w.conn.QueryRow(ctx, `SELECT toUInt64(toUnixTimestamp64Nano(now64(9)))`).Scan(&stamp); err != nil {
		return err
	}
	var f filter
	f.add("tenant_id IN (SELECT tenant_id FROM touched)")
	f.add("rendered_at >= ? AND rendered_at < ?", first, last+hourMs)
	f.add("(tenant_id, " + hourOf("rendered_at") + ") IN (SELECT tenant_id, hour FROM touched)")
	from, args := decisions(f)
	// A place that was read once never goes back, even if a copy at a lower one has
	// replaced the row that stood there: hence the second half.
	return w.conn.Exec(clickhouse.Context(ctx, clickhouse.WithExternalTable(touched)), `
		INSERT INTO metering_hours (tenant_id, hour, place, stamp, lines)
		SELECT tenant_id, hour, max(top), toUInt64(`+fmt.Sprint(stamp)+`), groupArrayIf(line, receipts > 0) FROM (
			SELECT tenant_id, `+hourOf("rendered_at")+` AS hour, max(place) AS top, count() AS receipts,
				(right_id, toString(substrate), basis_id, counted_basis, counted_reason, toInt64(receipts), sum(counted_ms)) AS line
			FROM `+from+`
			GROUP BY tenant_id, hour, right_id, toString(substrate), basis_id, counted_basis, counted_reason
			UNION ALL
			SELECT tenant_id, hour, place AS top, toUInt64(0) AS receipts, ('', '', '', '', '', toInt64(0), toInt64(0)) AS line
			FROM metering_hours FINAL WHERE (tenant_id, hour) IN (SELECT tenant_id, hour FROM touched))
		GROUP BY tenant_id, hour`, args...)
}

// Drift compares the rollups with the deduplicated rows, hour by hour and line by
// line, for the hours that lie in the window (zero is open), and returns by how many
// receipts and how many milliseconds they are apart. Both are 0 unless a batch is
// being loaded. An empty tenantID compares all tenants.
func (w *Warehouse) Drift(ctx context.Context, tenantID string, from, to time.Time) (receipts, quantityMs int64, err error) {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	var rows, hours filter
	for column, f := range map[string]*filter{"rendered_at": &rows, "hour": &hours} {
		f.add("1")
		f.is("tenant_id", tenantID)
		f.during(column, from, to)
	}
	live, args := decisions(rows)
	err = w.conn.QueryRow(ctx, `SELECT toInt64(sum(abs(receipts))), toInt64(sum(abs(quantity_ms))) FROM (
			SELECT sum(receipts) AS receipts, sum(quantity_ms) AS quantity_ms FROM (
				SELECT tenant_id, `+hourOf("rendered_at")+` AS hour,
					(right_id, toString(substrate), basis_id, counted_basis, counted_reason) AS line,
					toInt64(1) AS receipts, counted_ms AS quantity_ms
				FROM `+live+`
				UNION ALL
				SELECT tenant_id, hour, (one.1, one.2, one.3, one.4, one.5) AS line, -one.6 AS receipts, -one.7 AS quantity_ms
				FROM metering_hours FINAL ARRAY JOIN lines AS one WHERE `+hours.String()+`)
			GROUP BY tenant_id, hour, line)`, append(args, hours.args...)...).Scan(&receipts, &quantityMs)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot compare rollups: %w", err)
	}
	return receipts, quantityMs, nil
}
