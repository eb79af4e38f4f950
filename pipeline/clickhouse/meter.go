package clickhouse

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Metering sums the recorded decisions by bucket, right, substrate, basis, reason, and
// what q.By names.
func (w *reader) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	c := newCut(q.Buckets)
	ctx, from, args, err := metered(ctx, q, c)
	if err != nil {
		return nil, fmt.Errorf("cannot sum metering of %s: %w", q.TenantID, err)
	}
	names, places := further(q.By)
	rows, err := collect(ctx, w.servers, func(scan func(...any) error) (r pipeline.MeterRow, err error) {
		var bucket int64
		to := []any{&bucket, &r.RightID, &r.Substrate, &r.BasisID, &r.MeteringBasis, &r.Reason, &r.Receipts, &r.QuantityMs, &r.Impressions}
		for _, of := range places {
			to = append(to, of(&r))
		}
		err = scan(to...)
		r.Bucket = c.start(bucket)
		return r, err
	}, `SELECT bucket, `+summed+names+` FROM `+narrowly(c.bucket("rendered_at"), names, from)+`
		GROUP BY 1, 2, 3, 4, 5, 6`+names+`
		ORDER BY 1, 2, 3, 4, 5, 6`+names+` LIMIT ? OFFSET ?`, append(args, atMost(q.Limit), q.Skip)...)
	if err != nil {
		return nil, fmt.Errorf("cannot sum metering of %s: %w", q.TenantID, err)
	}
	return rows, nil
}

// further are the columns behind the others that by names, each after a comma, and where a
// line has them.
func further(by pipeline.MeterBy) (names string, places []func(*pipeline.MeterRow) *string) {
	if by.Completion {
		names += ", completion"
		places = append(places, func(r *pipeline.MeterRow) *string { return &r.Completion })
	}
	if by.Anchor {
		names += ", spatial_anchor_id"
		places = append(places, func(r *pipeline.MeterRow) *string { return &r.SpatialAnchorID })
	}
	if by.Placement {
		names += ", spatial_placement_id"
		places = append(places, func(r *pipeline.MeterRow) *string { return &r.SpatialPlacementID })
	}
	return names, places
}

// MeterTotals sums all deliveries of a window.
func (w *reader) MeterTotals(ctx context.Context, q pipeline.MeterQuery) (t pipeline.MeterTotals, err error) {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	ctx, from, args, err := metered(ctx, q, cut{})
	if err != nil {
		return pipeline.MeterTotals{}, fmt.Errorf("cannot total metering of %s: %w", q.TenantID, err)
	}
	var first, last time.Time
	err = w.conn.QueryRow(ctx, `SELECT toInt64(count()), toInt64(countIf(metered AND NOT duplicate)), toInt64(countIf(duplicate)),
			sum(counted_ms), sum(counted_impressions), min(rendered_at), max(rendered_at)
		FROM `+from, args...).Scan(&t.Receipts, &t.Metered, &t.Duplicates, &t.QuantityMs, &t.Impressions, &first, &last)
	if err != nil {
		return pipeline.MeterTotals{}, fmt.Errorf("cannot total metering of %s: %w", q.TenantID, err)
	}
	if t.Receipts > 0 {
		t.First, t.Last = first.UTC(), last.UTC()
	}
	return t, nil
}

// metered selects the deliveries of a query, which must run with the returned context.
func metered(ctx context.Context, q pipeline.MeterQuery, c cut) (_ context.Context, from string, args []any, err error) {
	if err := q.Check(); err != nil {
		return nil, "", nil, err
	}
	var f filter
	f.add("tenant_id = ?", q.TenantID)
	f.during("rendered_at", q.From, q.To)
	c.limit(&f, "rendered_at")
	f.is("right_id", q.RightID)
	f.before(q.AsOf)
	f.after(q.After)
	if q.After != nil {
		// FINAL reads what an index of positions would leave out, as a copy with a lower one may be there. So
		// the ids of what is behind the position are found without it, and lie together in the table.
		f.add("event_id IN (SELECT event_id FROM events WHERE tenant_id = ? AND "+behind(*q.After, q.AsOf)+")", q.TenantID)
	}
	if q.Hours != nil {
		f.add(hoursOf(q.Hours))
	}
	if q.EventIDs != nil {
		wanted, err := ext.NewTable("wanted", ext.Column("event_id", "String"))
		if err != nil {
			return nil, "", nil, err
		}
		for _, id := range q.EventIDs {
			if err := wanted.Append(id); err != nil {
				return nil, "", nil, err
			}
		}
		ctx = clickhouse.Context(ctx, clickhouse.WithExternalTable(wanted))
		f.add("event_id IN (SELECT event_id FROM wanted)")
	}
	from, args = decisions(q.TenantID, f)
	return ctx, from, args, nil
}

// mostRanges is up to how many ranges of hours a condition compares with, which an index of rendered_at
// serves; of more it looks each row's hour up.
const mostRanges = 64

// hoursOf keeps the rows of some hours, which rise.
func hoursOf(hours []time.Time) string {
	var ranges, starts []string
	for i := 0; i < len(hours); {
		first := i
		for i++; i < len(hours) && hours[i].Equal(hours[i-1].Add(time.Hour)); i++ {
		}
		ranges = append(ranges, fmt.Sprintf("rendered_at >= %s AND rendered_at < %s", moment(hours[first].UnixMilli()), moment(hours[i-1].Add(time.Hour).UnixMilli())))
	}
	switch {
	case len(ranges) == 0:
		return "0"
	case len(ranges) <= mostRanges:
		return "(" + strings.Join(ranges, " OR ") + ")"
	}
	for _, start := range hours {
		starts = append(starts, strconv.FormatInt(start.UnixMilli(), 10))
	}
	const ms = "toUnixTimestamp64Milli(rendered_at)"
	return ms + " - positiveModulo(" + ms + ", 3600000) IN (" + strings.Join(starts, ", ") + ")"
}

// decisions is what metering sums: the deliveries that f keeps, each with whether
// it is a duplicate and what it counts for.
func decisions(tenantID string, f filter) (from string, args []any) {
	return `(SELECT right_id, substrate, basis_id, completion, spatial_anchor_id, spatial_placement_id, rendered_at, metered, metering_basis, reason, line, if(duplicate, 0, quantity_ms) AS counted_ms,
			if(duplicate, 0, impressions) AS counted_impressions,
			(generation, position) IN (SELECT generation, position FROM duplicates WHERE tenant_id = ? AND ` + holds + `) AS duplicate
		FROM events FINAL WHERE type = '` + sealer.TypeDelivery + `' AND ` + f.String() + `)`, slices.Concat([]any{tenantID}, f.args)
}

// narrowly sums decisions by bucket and narrow columns, which costs less than by texts, and by
// the columns that names has, each after a comma; summed sums by texts what is left.
func narrowly(bucket, names, from string) string {
	return `(SELECT ` + bucket + ` AS bucket, duplicate` + names + `, any(right_id) AS right_id, any(substrate) AS substrate, any(basis_id) AS basis_id,
			any(metering_basis) AS basis, any(reason) AS why, toInt64(count()) AS n, sum(counted_ms) AS ms, sum(counted_impressions) AS im
		FROM ` + from + ` GROUP BY bucket, duplicate, line` + names + `)`
}

const summed = `toString(right_id) AS of_right, toString(substrate) AS of_substrate, toString(basis_id) AS of_basis,
	if(duplicate, 'none', toString(basis)) AS counted_basis, if(duplicate, '` + pipeline.ReasonDuplicate + `', toString(why)) AS counted_reason,
	sum(n), sum(ms), sum(im)`

// Refusals sums the counts of gate.refusals events by bucket, right and rule.
func (w *reader) Refusals(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.RefusalRow, error) {
	c := newCut(q.Buckets)
	from, args := refusals(q, c, ofTenant(q.TenantID))
	rows, err := collect(ctx, w.servers, func(scan func(...any) error) (r pipeline.RefusalRow, err error) {
		var bucket int64
		err = scan(&bucket, &r.RightID, &r.Rule, &r.Refusals)
		r.Bucket = c.start(bucket)
		return r, err
	}, `SELECT `+c.bucket("at")+` AS bucket, right_id, rule, sum(refusals) FROM `+from+`
		GROUP BY 1, 2, 3
		ORDER BY 1, 2, 3 LIMIT ? OFFSET ?`, append(args, atMost(q.Limit), q.Skip)...)
	if err != nil {
		return nil, fmt.Errorf("cannot sum refusals of %s: %w", q.TenantID, err)
	}
	return rows, nil
}

// RefusalTotals sums all refusals of a window.
func (w *reader) RefusalTotals(ctx context.Context, q pipeline.RefusalQuery) (t pipeline.RefusalTotals, err error) {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	counts, args := refusals(q, cut{}, ofTenant(q.TenantID))
	if q.RightID == "" && q.Rule == "" {
		names, more := unrecognised(q, cut{})
		counts, args = `(SELECT at, refusals FROM `+counts+` UNION ALL SELECT at, 0 FROM `+names+`)`, append(args, more...)
	}
	var n int64
	var first, last time.Time
	err = w.conn.QueryRow(ctx, `SELECT toInt64(count()), sum(refusals), min(at), max(at)
		FROM `+counts, args...).
		Scan(&n, &t.Refusals, &first, &last)
	if err != nil {
		return pipeline.RefusalTotals{}, fmt.Errorf("cannot total refusals of %s: %w", q.TenantID, err)
	}
	if n > 0 {
		t.First, t.Last = first.UTC(), last.UTC()
	}
	return t, nil
}

// Unrecognised sums the counts of names of gate.refusals events by bucket, name and meant.
func (w *reader) Unrecognised(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.UnrecognisedRow, error) {
	c := newCut(q.Buckets)
	from, args := unrecognised(q, c)
	rows, err := collect(ctx, w.servers, func(scan func(...any) error) (r pipeline.UnrecognisedRow, err error) {
		var bucket int64
		err = scan(&bucket, &r.Name, &r.Meant, &r.Deliveries)
		r.Bucket = c.start(bucket)
		return r, err
	}, `SELECT `+c.bucket("at")+` AS bucket, name, meant, sum(deliveries) FROM `+from+`
		GROUP BY 1, 2, 3
		ORDER BY 1 DESC, 2, 3 LIMIT ? OFFSET ?`, append(args, atMost(q.Limit), q.Skip)...)
	if err != nil {
		return nil, fmt.Errorf("cannot sum unrecognised names of %s: %w", q.TenantID, err)
	}
	return rows, nil
}

// RefusalsByRule implements pipeline.RuleCounter.
func (w *reader) RefusalsByRule(ctx context.Context, from, to time.Time) ([]pipeline.RefusalRow, error) {
	counts, args := refusals(pipeline.RefusalQuery{From: from, To: to}, cut{}, filter{})
	rows, err := collect(ctx, w.servers, func(scan func(...any) error) (r pipeline.RefusalRow, err error) {
		return r, scan(&r.Rule, &r.Refusals)
	}, `SELECT rule, sum(refusals) FROM `+counts+` GROUP BY 1 ORDER BY 2 DESC, 1`, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot sum refusals by rule: %w", err)
	}
	return rows, nil
}

func ofTenant(id string) (f filter) {
	f.add("tenant_id = ?", id)
	return f
}

// refusals selects the counts of the rules of events that f keeps.
func refusals(q pipeline.RefusalQuery, c cut, f filter) (from string, args []any) {
	var g filter
	g.add("JSONType(one, 'rule') = 'String' AND (JSONType(one, 'rightId') = 'String' OR NOT JSONHas(one, 'rightId'))")
	g.is("right_id", q.RightID)
	g.is("rule", q.Rule)
	return counted("JSONExtractString(one, 'rightId') AS right_id, JSONExtractString(one, 'rule') AS rule, JSONExtractInt(one, 'count') AS refusals", "counts", q, c, f, g)
}

// unrecognised selects the counts of a tenant's names.
func unrecognised(q pipeline.RefusalQuery, c cut) (from string, args []any) {
	var g filter
	g.add("JSONType(one, 'name') = 'String' AND JSONType(one, 'meant') = 'String'")
	return counted("JSONExtractString(one, 'name') AS name, JSONExtractString(one, 'meant') AS meant, JSONExtractInt(one, 'count') AS deliveries",
		"unrecognised", q, c, ofTenant(q.TenantID), g)
}

// counted selects columns of one, the members of a list of counts in the texts of events that f keeps,
// if g keeps them.
func counted(columns, list string, q pipeline.RefusalQuery, c cut, f, g filter) (from string, args []any) {
	f.during("at", q.From, q.To)
	c.limit(&f, "at")
	f.before(q.AsOf)
	g.add("JSONType(one) = 'Object' AND JSONType(one, 'count') IN ('Int64', 'UInt64')")
	return `(SELECT at, ` + columns + `
		FROM (SELECT at, arrayJoin(JSONExtractArrayRaw(event, 'data', '` + list + `')) AS one
			FROM events FINAL WHERE type = '` + pipeline.TypeRefusals + `' AND ` + f.String() + `)
		WHERE ` + g.String() + `)`, append(f.args, g.args...)
}

// cut is the buckets of a question; none is one bucket of all time.
type cut struct {
	// starts are in milliseconds, rising; at says what each stands for.
	starts []int64
	at     map[int64]time.Time
}

func newCut(buckets []time.Time) cut {
	c := cut{at: map[int64]time.Time{}}
	for _, b := range buckets {
		ms := pipeline.CeilMilli(b)
		if _, ok := c.at[ms]; !ok {
			c.starts = append(c.starts, ms)
		}
		c.at[ms] = b.UTC() // of two that begin together the first is empty
	}
	return c
}

// limit leaves out what is before the first bucket.
func (c cut) limit(f *filter, column string) {
	if len(c.starts) > 0 {
		f.add(column + " >= " + moment(c.starts[0]))
	}
}

// bucket is the start of the bucket that a column of milliseconds is in.
func (c cut) bucket(column string) string {
	if len(c.starts) == 0 {
		return "toInt64(0)"
	}
	list := []byte("roundDown(toUnixTimestamp64Milli(" + column + "), [")
	for i, ms := range c.starts {
		if i > 0 {
			list = append(list, ", "...)
		}
		list = append(append(list, "toInt64("...), strconv.FormatInt(ms, 10)...)
		list = append(list, ')')
	}
	return string(append(list, "])"...))
}

// start is the bucket that a line's milliseconds stand for.
func (c cut) start(ms int64) time.Time { return c.at[ms] }

// atMost is a LIMIT: 0 for all.
func atMost(limit int) int64 {
	if limit == 0 {
		return math.MaxInt64
	}
	return int64(limit)
}
