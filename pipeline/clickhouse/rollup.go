package clickhouse

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"

	"muniment/pipeline"
	"muniment/sealer"
)

const hourMs = int64(time.Hour / time.Millisecond)

// hourOf is the start of the hour of a column of milliseconds.
func hourOf(column string) string {
	return fmt.Sprintf("(%[1]s - positiveModulo(%[1]s, %[2]d))", column, hourMs)
}

// slice is what one row of metering_hours sums: a tenant's deliveries of one hour
// between two round log positions.
type slice struct {
	tenantID   string
	hour       int64
	generation uint32
	number     int64
}

// slicePositions is how many log positions are a slice. The migrations name it too.
const slicePositions = 8192

// sliceColumns are those of a slice, out of events or idempotency_keys.
var sliceColumns = fmt.Sprintf("tenant_id, %s AS hour, generation, intDiv(position, %d) AS slice", hourOf("rendered_at"), slicePositions)

func scanSlice(scan func(...any) error) (s slice, err error) {
	err = scan(&s.tenantID, &s.hour, &s.generation, &s.number)
	return s, err
}

// rollUp replaces the rollups that rows can have changed. The rows must be loaded.
func (w *Warehouse) rollUp(ctx context.Context, rows []pipeline.Row) error {
	touched, err := w.touched(ctx, rows)
	if err == nil && len(touched) > 0 {
		err = w.replace(ctx, maps.Keys(touched))
	}
	if err != nil {
		return fmt.Errorf("cannot replace rollups: %w", err)
	}
	return nil
}

// touched lists the slices that the rows are in, those that hold a copy of one of
// them, and those of deliveries that one of them makes a duplicate. In order, a log
// brings neither: then the first are all.
func (w *Warehouse) touched(ctx context.Context, rows []pipeline.Row) (map[slice]bool, error) {
	brought, err := ext.NewTable("brought", ext.Column("tenant_id", "String"), ext.Column("event_id", "String"),
		ext.Column("idempotency", "String"), ext.Column("generation", "UInt32"), ext.Column("position", "Int64"), ext.Column("at", "Int64"))
	if err != nil {
		return nil, err
	}
	touched := map[slice]bool{}
	for _, r := range rows {
		if r.Delivery == nil {
			continue
		}
		ms := r.Delivery.RenderedAt.UnixMilli()
		touched[slice{r.TenantID, ms - (ms%hourMs+hourMs)%hourMs, r.Generation, r.Offset / slicePositions}] = true
		if err := brought.Append(r.TenantID, r.EventID, r.Delivery.Idempotency, r.Generation, r.Offset, r.At.UnixMilli()); err != nil {
			return nil, err
		}
	}
	if len(touched) == 0 {
		return nil, nil
	}
	for _, query := range []string{
		`SELECT DISTINCT ` + sliceColumns + ` FROM events
			WHERE receipt_id != '' AND (tenant_id, event_id) IN (SELECT tenant_id, event_id FROM brought)`,
		`SELECT DISTINCT ` + sliceColumns + ` FROM idempotency_keys AS k
			INNER JOIN (SELECT tenant_id AS of, idempotency AS hash, generation AS brought_generation, position AS brought_position, at AS brought_at
				FROM brought WHERE idempotency != '') AS b ON k.tenant_id = b.of AND k.idempotency = b.hash
			WHERE (k.tenant_id, k.idempotency) IN (SELECT tenant_id, idempotency FROM brought WHERE idempotency != '')
				AND (k.generation, k.position) > (b.brought_generation, b.brought_position) AND k.at <= b.brought_at + 86400000`,
	} {
		others, err := collect(clickhouse.Context(ctx, clickhouse.WithExternalTable(brought)), w, scanSlice, query)
		if err != nil {
			return nil, err
		}
		for _, s := range others {
			touched[s] = true
		}
	}
	return touched, nil
}

// now is the time in nanoseconds by the server's clock.
func (w *Warehouse) now(ctx context.Context) (now uint64, err error) {
	err = w.conn.QueryRow(ctx, `SELECT toUInt64(toUnixTimestamp64Nano(now64(9)))`).Scan(&now)
	return now, err
}

// within is the condition that a row was rendered in an hour, named by its begin.
func within(hour int64) string {
	return fmt.Sprintf("rendered_at >= %d AND rendered_at < %d", hour, hour+hourMs)
}

// anyOf is met by what meets one of some conditions.
func anyOf(conditions map[string]bool) string {
	return "(" + strings.Join(slices.Sorted(maps.Keys(conditions)), " OR ") + ")"
}

// replace computes the rollups of some slices anew.
func (w *Warehouse) replace(ctx context.Context, touchedSlices iter.Seq[slice]) error {
	touched, err := ext.NewTable("touched", ext.Column("tenant_id", "String"), ext.Column("hour", "Int64"),
		ext.Column("generation", "UInt32"), ext.Column("slice", "Int64"))
	if err != nil {
		return err
	}
	places, hours := map[string]bool{}, map[string]bool{}
	for s := range touchedSlices {
		if err := touched.Append(s.tenantID, s.hour, s.generation, s.number); err != nil {
			return err
		}
		begin := sealer.Position{Generation: s.generation, Offset: s.number * slicePositions}
		end := sealer.Position{Generation: s.generation, Offset: begin.Offset + slicePositions}
		places["place >= "+place(begin)+" AND place < "+place(end)] = true
		hours[within(s.hour)] = true
	}
	// The stamp is taken by the clock of the server, before anything is read: who has
	// changed something afterwards will replace the slice after us.
	stamp, err := w.now(ctx)
	if err != nil {
		return err
	}
	var f filter
	f.add("tenant_id IN (SELECT tenant_id FROM touched)")
	// Partitions are at places of their own: within one, the hour keeps apart what stands
	// at the places of another.
	for _, spans := range []map[string]bool{places, hours} {
		if len(spans) <= 100 { // more would take longer to parse than they spare
			f.add(anyOf(spans))
		}
	}
	f.add("(tenant_id, " + hourOf("rendered_at") + fmt.Sprintf(", generation, intDiv(position, %d)) IN (SELECT tenant_id, hour, generation, slice FROM touched)", slicePositions))
	from := lowest(f)
	// A place that was read once never goes back, even if a copy at a lower one has
	// replaced the row that stood there: hence the second half.
	return w.exec(clickhouse.Context(ctx, clickhouse.WithExternalTable(touched)), `
		INSERT INTO metering_hours (tenant_id, hour, generation, slice, place, stamp, lines)
		SELECT tenant_id, hour, generation, slice, max(top), toUInt64(`+fmt.Sprint(stamp)+`), groupArrayIf(line, receipts > 0) FROM (
			SELECT `+sliceColumns+`, max(place) AS top, count() AS receipts,
				(right_id, toString(substrate), basis_id, counted_basis, counted_reason, toInt64(receipts), sum(counted_ms)) AS line
			FROM `+from+`
			GROUP BY tenant_id, hour, generation, slice, right_id, toString(substrate), basis_id, counted_basis, counted_reason
			UNION ALL
			SELECT tenant_id, hour, generation, slice, place AS top, toUInt64(0) AS receipts, ('', '', '', '', '', toInt64(0), toInt64(0)) AS line
			FROM metering_hours FINAL
			WHERE (tenant_id, hour, generation, slice) IN (SELECT tenant_id, hour, generation, slice FROM touched))
		GROUP BY tenant_id, hour, generation, slice`)
}

// lowest is as decisions, for rows that lie close together and are all copies that f
// keeps of their events. FINAL would read much of the tenants' history for them: they
// are found by f, and the lowest copies of their events by key.
func lowest(f filter) (from string) {
	kept := `SELECT tenant_id, event_id FROM events WHERE receipt_id != '' AND ` + f.String()
	return judged(`(SELECT `+decided+` FROM events WHERE receipt_id != '' AND `+f.String()+` AND (tenant_id, event_id, place) IN (
			SELECT tenant_id, event_id, min(place) FROM events WHERE (tenant_id, event_id) IN (`+kept+`) GROUP BY tenant_id, event_id)
		LIMIT 1 BY tenant_id, event_id)`,
		`(SELECT tenant_id, idempotency, at FROM events WHERE `+f.String()+`)`)
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
