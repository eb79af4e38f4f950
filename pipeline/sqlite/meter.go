package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Metering implements pipeline.Warehouse.
func (w *Warehouse) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	s, err := w.sums(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("cannot sum metering of %s: %w", q.TenantID, err)
	}
	lines := map[pipeline.MeterRow]*pipeline.MeterRow{}
	for of, sum := range s.sums {
		line := s.texts[of.common].MeterRow
		line.Bucket = bucketAt(of.bucket, q.Buckets)
		if !q.By.Completion {
			line.Completion = ""
		}
		if s.spots != nil {
			line.SpatialAnchorID, line.SpatialPlacementID = s.spots[of.spot].anchor, s.spots[of.spot].placement
		}
		if of.duplicate {
			line.MeteringBasis, line.Reason, sum.quantity = "none", pipeline.ReasonDuplicate, 0
		}
		if of.duplicate || !s.texts[of.common].metered {
			sum.impressions = 0
		}
		total := lines[line]
		if total == nil {
			own := line
			total = &own
			lines[line] = total
		}
		total.Receipts += sum.receipts
		total.QuantityMs += sum.quantity
		total.Impressions += sum.impressions
	}
	list := make([]pipeline.MeterRow, 0, len(lines))
	for _, total := range lines {
		list = append(list, *total)
	}
	slices.SortFunc(list, func(a, b pipeline.MeterRow) int {
		return cmp.Or(a.Bucket.Compare(b.Bucket),
			cmp.Compare(a.RightID, b.RightID), cmp.Compare(a.Substrate, b.Substrate), cmp.Compare(a.BasisID, b.BasisID),
			cmp.Compare(a.MeteringBasis, b.MeteringBasis), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Completion, b.Completion), cmp.Compare(a.SpatialAnchorID, b.SpatialAnchorID), cmp.Compare(a.SpatialPlacementID, b.SpatialPlacementID))
	})
	list = list[min(q.Skip, len(list)):]
	if q.Limit > 0 {
		list = list[:min(q.Limit, len(list))]
	}
	return list, nil
}

// MeterTotals sums all deliveries of a window.
func (w *Warehouse) MeterTotals(ctx context.Context, q pipeline.MeterQuery) (t pipeline.MeterTotals, err error) {
	q.Buckets, q.By = nil, pipeline.MeterBy{}
	s, err := w.sums(ctx, q)
	if err != nil {
		return pipeline.MeterTotals{}, fmt.Errorf("cannot total metering of %s: %w", q.TenantID, err)
	}
	for of, sum := range s.sums {
		t.Receipts += sum.receipts
		if of.duplicate {
			t.Duplicates += sum.receipts
			continue
		}
		t.QuantityMs += sum.quantity
		if s.texts[of.common].metered {
			t.Metered += sum.receipts
			t.Impressions += sum.impressions
		}
	}
	if t.Receipts > 0 {
		t.First, t.Last = instant(s.ends.first), instant(s.ends.last)
	}
	return t, nil
}

// meterFilter is which deliveries a sum is of.
type meterFilter struct {
	bucket, common, spot int64
	duplicate            bool
}

// spot is the anchor and placement of receipts, as far as a query sums by them.
type spot struct{ anchor, placement string }

// sum has the impressions as if all its deliveries were metered; whether they are is in common.
type sum struct{ receipts, quantity, impressions, first, last int64 }

// impressions are those of a row of events, in ten-thousandths, as if it were metered.
var impressions = fmt.Sprintf("COALESCE(e.impressions, %d)", sealer.Impression)

func (s *sum) add(t sum) {
	if s.receipts == 0 {
		s.first, s.last = t.first, t.last
	}
	s.receipts, s.quantity, s.impressions = s.receipts+t.receipts, s.quantity+t.quantity, s.impressions+t.impressions
	s.first, s.last = min(s.first, t.first), max(s.last, t.last)
}

// meterTexts are what the deliveries with a number of common have in common.
type meterTexts struct {
	pipeline.MeterRow
	metered bool
}

// summed is what the selected deliveries of a query add up to.
type summed struct {
	sums  map[meterFilter]sum
	texts map[int64]meterTexts        // by number of common
	spots []spot                      // by number; nil if the query doesn't sum by them
	ends  struct{ first, last int64 } // when the first and the last of them were rendered
}

func (s *summed) add(k meterFilter, one sum) {
	have := s.sums[k]
	have.add(one)
	s.sums[k] = have
}

const hourMs = dayMs / 24

// sums sums the selected deliveries, and finds when the first and the last of them were
// rendered. It groups rows itself: SQLite would sort all of them.
func (w *Warehouse) sums(ctx context.Context, q pipeline.MeterQuery) (s summed, err error) {
	if err := q.Check(); err != nil {
		return s, err
	}
	tx, err := w.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // one state for all queries
	if err != nil {
		return s, err
	}
	defer tx.Rollback()
	s.sums = map[meterFilter]sum{}
	f := selection(q)
	window := spansOfBuckets(q.Buckets, q.From, q.To)
	if q.Hours != nil {
		window = window.within(q.Hours)
	}
	if q.EventIDs != nil || q.By.Anchor || q.By.Placement || q.After != nil {
		err = s.addRows(ctx, tx, q, window, f)
	} else {
		err = s.addSpans(ctx, tx, window, f)
	}
	if err == nil {
		s.texts, err = commonTexts(ctx, tx, s.sums)
	}
	s.ends.first, s.ends.last = math.MaxInt64, math.MinInt64
	for _, one := range s.sums {
		s.ends.first, s.ends.last = min(s.ends.first, one.first), max(s.ends.last, one.last)
	}
	return s, err
}

// selection keeps what a query selects of a tenant's rows, but for its window.
func selection(q pipeline.MeterQuery) (f filter) {
	f.add("e.tenant = (SELECT tenant FROM tenants WHERE tenant_id = ?)", q.TenantID)
	if q.RightID != "" {
		f.add(`e.common IN (SELECT common FROM common WHERE tenant = (SELECT tenant FROM tenants WHERE tenant_id = ?) AND right_id = ?)`, q.TenantID, q.RightID)
	}
	f.after(q.After)
	f.before(q.AsOf)
	return f
}

// addSpans adds up the rows of spans from an index by renderedAt.
func (s *summed) addSpans(ctx context.Context, tx *sql.Tx, rest bucketSpans, f filter) error {
	return each(ctx, tx, func(scan func(...any) error) error {
		var k meterFilter
		one := sum{receipts: 1}
		err := scan(&k.bucket, &k.common, &k.duplicate, &one.quantity, &one.impressions, &one.first)
		one.last = one.first
		s.add(k, one)
		return err
	}, `SELECT b.bucket, e.common, e.duplicate, e.quantity_ms, `+impressions+`, e.rendered_at
		FROM `+spanRows+` CROSS JOIN events AS e INDEXED BY deliveries_by_time
		WHERE e.class = 0 AND e.rendered_at >= b.low AND e.rendered_at < b.high AND `+f.String(),
		append([]any{rest.String()}, f.args...)...)
}

// addRows adds up the rows that are named or behind a position, and rows by anchor and placement.
func (s *summed) addRows(ctx context.Context, tx *sql.Tx, q pipeline.MeterQuery, window bucketSpans, f filter) error {
	if len(window) == 0 || q.EventIDs != nil && len(q.EventIDs) == 0 {
		return nil
	}
	query, args := rowsOf(q, window, f)
	numbers := map[spot]int64{}
	return each(ctx, tx, func(scan func(...any) error) error {
		var k meterFilter
		var at spot
		one := sum{receipts: 1}
		if err := scan(&k.common, &k.duplicate, &one.quantity, &one.impressions, &one.first, &at.anchor, &at.placement); err != nil {
			return err
		}
		bucket, ok := window.at(one.first)
		if !ok {
			return nil
		}
		number, ok := numbers[at]
		if !ok {
			number = int64(len(s.spots))
			numbers[at], s.spots = number, append(s.spots, at)
		}
		k.bucket, k.spot, one.last = bucket, number, one.first
		s.add(k, one)
		return nil
	}, query, args...)
}

// rowsOf selects what addRows adds up.
func rowsOf(q pipeline.MeterQuery, window bucketSpans, f filter) (query string, args []any) {
	f.add("e.rendered_at >= ? AND e.rendered_at < ?", window[0].low, window[len(window)-1].high)
	index, delivery := "INDEXED BY deliveries_by_time", "e.class = 0"
	if q.After != nil {
		// Little is behind the position, so the primary key serves best: the other term keeps SQLite from the
		// index of deliveries.
		index, delivery = "", "+e.class = 0"
	}
	if q.EventIDs != nil {
		index = "INDEXED BY events_by_id"
		keys := make([]any, len(q.EventIDs))
		for i, id := range q.EventIDs {
			keys[i] = eventKey(id)
		}
		f.add("e.event_id IN (?"+strings.Repeat(", ?", len(keys)-1)+")", keys...)
	}
	anchor, placement := "''", "''"
	if q.By.Anchor {
		anchor = "COALESCE(e.spatial_anchor_id, '')"
	}
	if q.By.Placement {
		placement = "COALESCE(e.spatial_placement_id, '')"
	}
	return `SELECT e.common, e.duplicate, e.quantity_ms, ` + impressions + `, e.rendered_at, ` + anchor + `, ` + placement + `
		FROM events AS e ` + index + ` WHERE ` + delivery + ` AND ` + f.String(), f.args
}

// commonTexts reads what the deliveries of sums have in common.
func commonTexts(ctx context.Context, tx *sql.Tx, sums map[meterFilter]sum) (map[int64]meterTexts, error) {
	texts := map[int64]meterTexts{}
	for k := range sums {
		texts[k.common] = meterTexts{}
	}
	numbers, err := json.Marshal(slices.Collect(maps.Keys(texts)))
	if err != nil {
		return nil, err
	}
	return texts, each(ctx, tx, func(scan func(...any) error) error {
		var number int64
		var t meterTexts
		err := scan(&number, &t.RightID, &t.Substrate, &t.BasisID, &t.MeteringBasis, &t.Reason, &t.Completion, &t.metered)
		texts[number] = t
		return err
	}, `SELECT common, right_id, substrate, basis_id, metering_basis, reason, completion, metered FROM common
		WHERE common IN (SELECT value FROM json_each(?))`, string(numbers))
}

// Refusals sums the counts of gate.refusals events by bucket, right and rule.
func (w *Warehouse) Refusals(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.RefusalRow, error) {
	from, args := refusals(q, q.Buckets, ofTenant(q.TenantID))
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
	counts, args := refusals(q, nil, ofTenant(q.TenantID))
	if q.RightID == "" && q.Rule == "" {
		names, more := unrecognised(q, nil)
		counts, args = `(SELECT at, refusals FROM `+counts+` UNION ALL SELECT at, 0 FROM `+names+`)`, append(args, more...)
	}
	var n, first, last int64
	err = w.read.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(refusals), 0), COALESCE(MIN(at), 0), COALESCE(MAX(at), 0)
		FROM `+counts, args...).Scan(&n, &t.Refusals, &first, &last)
	if err != nil {
		return pipeline.RefusalTotals{}, fmt.Errorf("cannot total refusals of %s: %w", q.TenantID, err)
	}
	if n > 0 {
		t.First, t.Last = instant(first), instant(last)
	}
	return t, nil
}

// Unrecognised sums the counts of names of gate.refusals events by bucket, name and meant.
func (w *Warehouse) Unrecognised(ctx context.Context, q pipeline.RefusalQuery) ([]pipeline.UnrecognisedRow, error) {
	from, args := unrecognised(q, q.Buckets)
	rows, err := collect(ctx, w.read, func(scan func(...any) error) (r pipeline.UnrecognisedRow, err error) {
		var bucket int64
		err = scan(&bucket, &r.Name, &r.Meant, &r.Deliveries)
		r.Bucket = bucketAt(bucket, q.Buckets)
		return r, err
	}, `SELECT bucket, name, meant, SUM(deliveries) FROM `+from+`
		GROUP BY 1, 2, 3
		ORDER BY 1 DESC, 2, 3 LIMIT ? OFFSET ?`, append(args, atMost(q.Limit), q.Skip)...)
	if err != nil {
		return nil, fmt.Errorf("cannot sum unrecognised names of %s: %w", q.TenantID, err)
	}
	return rows, nil
}

// RefusalsByRule implements pipeline.RuleCounter. It reads one range of the index for each tenant.
func (w *Warehouse) RefusalsByRule(ctx context.Context, from, to time.Time) ([]pipeline.RefusalRow, error) {
	var all filter
	all.add("e.tenant IN (SELECT tenant FROM tenants)")
	counts, args := refusals(pipeline.RefusalQuery{From: from, To: to}, nil, all)
	rows, err := collect(ctx, w.read, func(scan func(...any) error) (r pipeline.RefusalRow, err error) {
		return r, scan(&r.Rule, &r.Refusals)
	}, `SELECT rule, SUM(refusals) FROM `+counts+` GROUP BY 1 ORDER BY 2 DESC, 1`, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot sum refusals by rule: %w", err)
	}
	return rows, nil
}

func ofTenant(id string) (f filter) {
	f.add("e.tenant = (SELECT tenant FROM tenants WHERE tenant_id = ?)", id)
	return f
}

// refusals selects the counts of the rules of events that f keeps, each with its bucket.
func refusals(q pipeline.RefusalQuery, buckets []time.Time, f filter) (from string, args []any) {
	var g filter
	g.add("json_type(c.value, '$.rule') = 'text' AND COALESCE(json_type(c.value, '$.rightId'), 'text') = 'text'")
	g.is("c.value ->> 'rightId'", q.RightID)
	g.is("c.value ->> 'rule'", q.Rule)
	return counted("COALESCE(c.value ->> 'rightId', '') AS right_id, c.value ->> 'rule' AS rule, c.value ->> 'count' AS refusals", "counts", q, buckets, f, g)
}

// unrecognised selects the counts of a tenant's names, each with its bucket.
func unrecognised(q pipeline.RefusalQuery, buckets []time.Time) (from string, args []any) {
	var g filter
	g.add("json_type(c.value, '$.name') = 'text' AND json_type(c.value, '$.meant') = 'text'")
	return counted("c.value ->> 'name' AS name, c.value ->> 'meant' AS meant, c.value ->> 'count' AS deliveries", "unrecognised", q, buckets, ofTenant(q.TenantID), g)
}

// counted selects columns of c, the members of a list of counts in the texts of events that f keeps,
// if g keeps them. The texts are canonical JSON, as the loader has checked; they are cast to TEXT
// because SQLite takes a BLOB for its own binary form.
func counted(columns, list string, q pipeline.RefusalQuery, buckets []time.Time, f, g filter) (from string, args []any) {
	f.before(q.AsOf)
	return `(SELECT b.bucket, e.at, ` + columns + `
		FROM ` + spanRows + ` CROSS JOIN events AS e INDEXED BY refusals_by_time CROSS JOIN texts AS x USING (text)
			CROSS JOIN json_each(CAST(x.event AS TEXT), '$.data.` + list + `') AS c
		WHERE e.class = 1 AND e.at >= b.low AND e.at < b.high AND ` + f.String() + `
			AND c.type = 'object' AND json_type(c.value, '$.count') = 'integer' AND ` + g.String() + `)`, // json_type fails for what is no JSON
		slices.Concat([]any{spansOfBuckets(buckets, q.From, q.To).String()}, f.args, g.args)
}

// bucketSpan is the time from low to high, exclusive, that counts for a bucket.
type bucketSpan struct{ bucket, low, high int64 }

type bucketSpans []bucketSpan

// spanRows makes rows b of an argument that is a bucketSpans. They are first in a join, so
// that each of them is one range of an index.
const spanRows = `(SELECT value ->> 0 AS bucket, value ->> 1 AS low, value ->> 2 AS high FROM json_each(?)) AS b`

// spansOfBuckets are the buckets in milliseconds, cut to the window. Without buckets it is the
// window, as bucket 0.
func spansOfBuckets(buckets []time.Time, from, to time.Time) (list bucketSpans) {
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

func (s *bucketSpans) add(bucket, low, high int64) {
	if low < high {
		*s = append(*s, bucketSpan{bucket, low, high})
	}
}

// within cuts the spans to hours, which rise.
func (s bucketSpans) within(hours []time.Time) (list bucketSpans) {
	for _, b := range s {
		first, _ := slices.BinarySearchFunc(hours, b.low, func(start time.Time, low int64) int {
			return cmp.Compare(start.UnixMilli()+hourMs, low+1)
		})
		for _, start := range hours[first:] {
			if start.UnixMilli() >= b.high {
				break
			}
			list.add(b.bucket, max(b.low, start.UnixMilli()), min(b.high, start.UnixMilli()+hourMs))
		}
	}
	return list
}

// at is the bucket of a moment.
func (s bucketSpans) at(ms int64) (bucket int64, ok bool) {
	i, _ := slices.BinarySearchFunc(s, ms, func(b bucketSpan, ms int64) int {
		if b.high <= ms {
			return -1
		}
		return 1
	})
	if i == len(s) || ms < s[i].low {
		return 0, false
	}
	return s[i].bucket, true
}

// String is a JSON list of [bucket, low, high).
func (s bucketSpans) String() string {
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
