package sqlite

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"muniment/pipeline"
)

// Metering sums the recorded decisions by bucket, right, substrate, basis and
// reason.
func (w *Warehouse) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	from, args := decisions(q, q.Buckets)
	rows, err := collect(ctx, w.read, func(scan func(...any) error) (r pipeline.MeterRow, err error) {
		var bucket int64
		err = scan(&bucket, &r.RightID, &r.Substrate, &r.BasisID, &r.MeteringBasis, &r.Reason, &r.Receipts, &r.QuantityMs)
		r.Bucket = bucketAt(bucket, q.Buckets)
		return r, err
	}, `SELECT bucket, right_id, substrate, basis_id,
			CASE WHEN duplicate THEN 'none' ELSE metering_basis END AS metering_basis,
			CASE WHEN duplicate THEN '`+pipeline.ReasonDuplicate+`' ELSE reason END AS reason,
			COUNT(*), SUM(CASE WHEN duplicate THEN 0 ELSE quantity_ms END)
		FROM `+from+`
		GROUP BY 1, 2, 3, 4, 5, 6
		ORDER BY 1, 2, 3, 4, 5, 6 LIMIT ? OFFSET ?`, append(args, atMost(q.Limit), q.Skip)...)
	if err != nil {
		return nil, fmt.Errorf("cannot sum metering of %s: %w", q.TenantID, err)
	}
	return rows, nil
}

// MeterTotals sums all deliveries of a window.
func (w *Warehouse) MeterTotals(ctx context.Context, q pipeline.MeterQuery) (t pipeline.MeterTotals, err error) {
	from, args := decisions(q, nil)
	var first, last int64
	err = w.read.QueryRowContext(ctx, `SELECT COUNT(*),
			COALESCE(SUM(metered AND NOT duplicate), 0), COALESCE(SUM(duplicate), 0),
			COALESCE(SUM(CASE WHEN duplicate THEN 0 ELSE quantity_ms END), 0),
			COALESCE(MIN(rendered_at), 0), COALESCE(MAX(rendered_at), 0)
		FROM `+from, args...).Scan(&t.Receipts, &t.Metered, &t.Duplicates, &t.QuantityMs, &first, &last)
	if err != nil {
		return pipeline.MeterTotals{}, fmt.Errorf("cannot total metering of %s: %w", q.TenantID, err)
	}
	if t.Receipts > 0 {
		t.First, t.Last = instant(first), instant(last)
	}
	return t, nil
}

// decisions is what metering sums: the selected deliveries, each with its bucket
// and whether it is a duplicate.
func decisions(q pipeline.MeterQuery, buckets []time.Time) (from string, args []any) {
	var f filter
	f.add("e.tenant_id = ?", q.TenantID)
	f.is("e.right_id", q.RightID)
	f.before(q.AsOf)
	return `(SELECT b.bucket, e.right_id, e.substrate, e.basis_id, e.metering_basis, e.reason, e.metered, e.quantity_ms, e.rendered_at,
			e.idempotency IS NOT NULL AND EXISTS (SELECT 1 ` + earlier + `) AS duplicate
		FROM ` + stretchesOf + ` CROSS JOIN events AS e INDEXED BY decisions_by_time
		WHERE e.rendered_at >= b.low AND e.rendered_at < b.high AND ` + f.String() + `)`,
		append([]any{stretches(buckets, q.From, q.To)}, f.args...)
}

// Refusals sums the counts of gate.refusals events by bucket, right and rule.
func (w *Warehouse) Refusals(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.RefusalRow, error) {
	from, args := refusals(q, q.Buckets)
	rows, err := collect(ctx, w.read, func(scan func(...any) error) (r pipeline.RefusalRow, err error) {
		var bucket int64
		err = scan(&bucket, &r.RightID, &r.Rule, &r.Refusals)
		r.Bucket = bucketAt(bucket, q.Buckets)
		return r, err
	}, `SELECT bucket, right_id, rule, SUM(refusals) FROM `+from+`
		GROUP BY 1, 2, 3
		ORDER BY 1, 2, 3 LIMIT ? OFFSET ?`, append(args, atMost(q.Limit), q.Skip)...)
	if err != nil {
		return nil, fmt.Errorf("cannot sum refusals of %s: %w", q.TenantID, err)
	}
	return rows, nil
}

// RefusalTotals sums all refusals of a window.
func (w *Warehouse) RefusalTotals(ctx context.Context, q pipeline.RefusalQuery) (t pipeline.RefusalTotals, err error) {
	from, args := refusals(q, nil)
	var n, first, last int64
	err = w.read.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(refusals), 0), COALESCE(MIN(at), 0), COALESCE(MAX(at), 0)
		FROM `+from, args...).Scan(&n, &t.Refusals, &first, &last)
	if err != nil {
		return pipeline.RefusalTotals{}, fmt.Errorf("cannot total refusals of %s: %w", q.TenantID, err)
	}
	if n > 0 {
		t.First, t.Last = instant(first), instant(last)
	}
	return t, nil
}

// refusals takes the counts out of the events' texts, each with its bucket. The
// texts are canonical JSON, as the loader has checked; as a BLOB, SQLite would take
// them for its own binary form.
func refusals(q pipeline.RefusalQuery, buckets []time.Time) (from string, args []any) {
	var f filter
	f.add("e.tenant_id = ?", q.TenantID)
	f.add("e.type = '" + pipeline.TypeRefusals + "'")
	f.before(q.AsOf)
	var g filter
	g.add("c.type = 'object' AND json_type(c.value, '$.count') = 'integer' AND json_type(c.value, '$.rule') = 'text'")
	g.add("COALESCE(json_type(c.value, '$.rightId'), 'text') = 'text'")
	g.is("c.value ->> 'rightId'", q.RightID)
	g.is("c.value ->> 'rule'", q.Rule)
	return `(SELECT b.bucket, e.at, COALESCE(c.value ->> 'rightId', '') AS right_id, c.value ->> 'rule' AS rule, c.value ->> 'count' AS refusals
		FROM ` + stretchesOf + ` CROSS JOIN events AS e INDEXED BY refusals_by_time
			CROSS JOIN json_each(CAST(e.event AS TEXT), '$.data.counts') AS c
		WHERE e.at >= b.low AND e.at < b.high AND ` + f.String() + ` AND ` + g.String() + `)`,
		append(append([]any{stretches(buckets, q.From, q.To)}, f.args...), g.args...)
}

// stretchesOf turns the argument that stretches made into rows b. They come first
// in a join, so that each of them is one range of an index.
const stretchesOf = `(SELECT value ->> 0 AS bucket, value ->> 1 AS low, value ->> 2 AS high FROM json_each(?)) AS b`

// stretches is a JSON list of [bucket, low, high) in milliseconds: the buckets, cut
// to the window. Without buckets it is the window, as bucket 0.
func stretches(buckets []time.Time, from, to time.Time) string {
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	if !from.IsZero() {
		low = pipeline.CeilMilli(from)
	}
	if !to.IsZero() {
		high = pipeline.CeilMilli(to)
	}
	list := []byte{'['}
	add := func(bucket, low, high int64) {
		if low >= high {
			return
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(strconv.AppendInt(append(list, '['), bucket, 10), ',')
		list = append(strconv.AppendInt(list, low, 10), ',')
		list = append(strconv.AppendInt(list, high, 10), ']')
	}
	if len(buckets) == 0 {
		add(0, low, high)
	}
	for i, start := range buckets {
		end := high
		if i+1 < len(buckets) {
			end = min(end, pipeline.CeilMilli(buckets[i+1]))
		}
		add(start.UnixMilli(), max(low, pipeline.CeilMilli(start)), end)
	}
	return string(append(list, ']'))
}

// bucketAt is the start of a line's bucket; the zero time when there are none.
func bucketAt(ms int64, buckets []time.Time) time.Time {
	if len(buckets) == 0 {
		return time.Time{}
	}
	return instant(ms)
}

// atMost is SQLite's LIMIT: negative for all.
func atMost(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}
