package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"
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
			SUM(receipts), SUM(CASE WHEN duplicate THEN 0 ELSE quantity_ms END)
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
	err = w.read.QueryRowContext(ctx, `SELECT COALESCE(SUM(receipts), 0),
			COALESCE(SUM(CASE WHEN metered AND NOT duplicate THEN receipts END), 0),
			COALESCE(SUM(CASE WHEN duplicate THEN receipts END), 0),
			COALESCE(SUM(CASE WHEN NOT duplicate THEN quantity_ms END), 0),
			COALESCE(MIN(first), 0), COALESCE(MAX(last), 0)
		FROM `+from, args...).Scan(&t.Receipts, &t.Metered, &t.Duplicates, &t.QuantityMs, &first, &last)
	if err != nil {
		return pipeline.MeterTotals{}, fmt.Errorf("cannot total metering of %s: %w", q.TenantID, err)
	}
	if t.Receipts > 0 {
		t.First, t.Last = instant(first), instant(last)
	}
	return t, nil
}

// decisions is what metering sums: sums of the selected deliveries, each with its bucket,
// what its deliveries have in common and whether they are duplicates. Whole hours are
// summed already; as of a position they are not.
func decisions(q pipeline.MeterQuery, buckets []time.Time) (from string, args []any) {
	var f filter
	f.add("e.tenant = (SELECT tenant FROM tenants WHERE tenant_id = ?)", q.TenantID)
	if q.RightID != "" {
		f.add(`e.common IN (SELECT common FROM common WHERE tenant = (SELECT tenant FROM tenants WHERE tenant_id = ?) AND right_id = ?)`, q.TenantID, q.RightID)
	}
	g := f
	f.before(q.AsOf)
	hours, rest := stretches(buckets, q.From, q.To).split(q.AsOf == nil)
	const group = ` GROUP BY b.bucket, e.common, e.duplicate`
	from = `(SELECT * FROM (
			SELECT b.bucket, e.common, e.duplicate, SUM(e.receipts) AS receipts, SUM(e.quantity_ms) AS quantity_ms, MIN(e.first) AS first, MAX(e.last) AS last
			FROM ` + stretchesOf + ` CROSS JOIN hours AS e
			WHERE e.hour >= b.low AND e.hour < b.high AND ` + g.String() + group + `
			UNION ALL
			SELECT b.bucket, e.common, e.duplicate, COUNT(*), SUM(e.quantity_ms), MIN(e.rendered_at), MAX(e.rendered_at)
			FROM ` + stretchesOf + ` CROSS JOIN events AS e INDEXED BY deliveries_by_time
			WHERE e.class = 0 AND e.rendered_at >= b.low AND e.rendered_at < b.high AND ` + f.String() + group + `
		) CROSS JOIN common USING (common))`
	return from, slices.Concat([]any{hours.String()}, g.args, []any{rest.String()}, f.args)
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
	f.add("e.tenant = (SELECT tenant FROM tenants WHERE tenant_id = ?)", q.TenantID)
	f.before(q.AsOf)
	var g filter
	g.add("c.type = 'object' AND json_type(c.value, '$.count') = 'integer' AND json_type(c.value, '$.rule') = 'text'")
	g.add("COALESCE(json_type(c.value, '$.rightId'), 'text') = 'text'")
	g.is("c.value ->> 'rightId'", q.RightID)
	g.is("c.value ->> 'rule'", q.Rule)
	return `(SELECT b.bucket, e.at, COALESCE(c.value ->> 'rightId', '') AS right_id, c.value ->> 'rule' AS rule, c.value ->> 'count' AS refusals
		FROM ` + stretchesOf + ` CROSS JOIN events AS e INDEXED BY refusals_by_time CROSS JOIN texts AS x USING (text)
			CROSS JOIN json_each(CAST(x.event AS TEXT), '$.data.counts') AS c
		WHERE e.class = 1 AND e.at >= b.low AND e.at < b.high AND ` + f.String() + ` AND ` + g.String() + `)`,
		slices.Concat([]any{stretches(buckets, q.From, q.To).String()}, f.args, g.args)
}

// stretch is a stretch of time from low to high, exclusive, that counts for a bucket.
type stretch struct{ bucket, low, high int64 }

type stretchList []stretch

// stretchesOf turns the argument that a stretchList is into rows b. They come first
// in a join, so that each of them is one range of an index.
const stretchesOf = `(SELECT value ->> 0 AS bucket, value ->> 1 AS low, value ->> 2 AS high FROM json_each(?)) AS b`

// stretches are the buckets in milliseconds, cut to the window. Without buckets it is the
// window, as bucket 0.
func stretches(buckets []time.Time, from, to time.Time) (list stretchList) {
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	if !from.IsZero() {
		low = pipeline.CeilMilli(from)
	}
	if !to.IsZero() {
		high = pipeline.CeilMilli(to)
	}
	if len(buckets) == 0 {
		list.add(0, low, high)
	}
	for i, start := range buckets {
		end := high
		if i+1 < len(buckets) {
			end = min(end, pipeline.CeilMilli(buckets[i+1]))
		}
		list.add(start.UnixMilli(), max(low, pipeline.CeilMilli(start)), end)
	}
	return list
}

func (s *stretchList) add(bucket, low, high int64) {
	if low < high {
		*s = append(*s, stretch{bucket, low, high})
	}
}

// split cuts the whole hours out of the stretches, in hours; without whole, none.
func (s stretchList) split(whole bool) (hours, rest stretchList) {
	for _, b := range s {
		low, high := hourOf(b.low), hourOf(b.high)
		if low*hourMs < b.low && b.low > math.MinInt64 {
			low++
		}
		if !whole || low >= high {
			rest = append(rest, b)
			continue
		}
		hours.add(b.bucket, low, high)
		if b.low > math.MinInt64 {
			rest.add(b.bucket, b.low, low*hourMs)
		}
		if b.high < math.MaxInt64 {
			rest.add(b.bucket, high*hourMs, b.high)
		}
	}
	return hours, rest
}

// String is a JSON list of [bucket, low, high).
func (s stretchList) String() string {
	list := []byte{'['}
	for i, b := range s {
		if i > 0 {
			list = append(list, ',')
		}
		list = fmt.Appendf(list, "[%d,%d,%d]", b.bucket, b.low, b.high)
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
