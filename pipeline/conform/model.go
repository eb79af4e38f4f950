package conform

import (
	"cmp"
	"slices"
	"time"

	"muniment/pipeline"
	"muniment/sealer"
)

// The model: what a warehouse answers, worked out the slow and plain way from
// all rows that were ever loaded, copies included.

// collapse keeps, of each event, the copy at the lowest position, and returns
// them in the order of their positions.
func collapse(rows []pipeline.Row) []pipeline.Row {
	type key struct{ tenant, event string }
	lowest := map[key]pipeline.Row{}
	for _, r := range rows {
		k := key{r.TenantID, r.EventID}
		if have, ok := lowest[k]; !ok || r.Compare(have.Position) < 0 {
			lowest[k] = r
		}
	}
	var kept []pipeline.Row
	for _, r := range lowest {
		kept = append(kept, r)
	}
	slices.SortFunc(kept, func(a, b pipeline.Row) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), a.Compare(b.Position))
	})
	return kept
}

const day = 24 * time.Hour

// first returns the lowest event that makes r a duplicate, among rows in the
// order of their positions.
func first(rows []pipeline.Row, r pipeline.Row, window time.Duration) (pipeline.Row, bool) {
	if r.Delivery == nil || r.Delivery.Idempotency == "" {
		return pipeline.Row{}, false
	}
	for _, p := range rows {
		if p.Compare(r.Position) >= 0 {
			break
		}
		if p.TenantID == r.TenantID && p.Delivery != nil && p.Delivery.Idempotency == r.Delivery.Idempotency &&
			r.At.Sub(p.At) <= window {
			return p, true
		}
	}
	return pipeline.Row{}, false
}

// meter sums collapsed rows as Warehouse.Metering does; window is a day.
func meter(rows []pipeline.Row, q pipeline.MeterQuery, window time.Duration) []pipeline.MeterRow {
	sums := map[pipeline.MeterRow]pipeline.MeterRow{}
	for _, r := range rows {
		d := r.Delivery
		if r.TenantID != q.TenantID || d == nil ||
			!q.From.IsZero() && d.RenderedAt.Before(q.From) ||
			!q.To.IsZero() && !d.RenderedAt.Before(q.To) ||
			q.RightID != "" && d.RightID != q.RightID ||
			q.AsOf != nil && r.Compare(*q.AsOf) >= 0 {
			continue
		}
		line := pipeline.MeterRow{RightID: d.RightID, Substrate: d.Substrate, BasisID: d.BasisID, MeteringBasis: d.MeteringBasis, Reason: d.Reason}
		quantity := d.QuantityMs
		if _, ok := first(rows, r, window); ok {
			line.MeteringBasis, line.Reason, quantity = "none", pipeline.ReasonDuplicate, 0
		}
		sum, ok := sums[line]
		if !ok {
			sum = line
		}
		sum.Receipts++
		sum.QuantityMs += quantity
		sums[line] = sum
	}
	var lines []pipeline.MeterRow
	for _, sum := range sums {
		lines = append(lines, sum)
	}
	slices.SortFunc(lines, func(a, b pipeline.MeterRow) int {
		return cmp.Or(cmp.Compare(a.RightID, b.RightID), cmp.Compare(a.Substrate, b.Substrate), cmp.Compare(a.BasisID, b.BasisID),
			cmp.Compare(a.MeteringBasis, b.MeteringBasis), cmp.Compare(a.Reason, b.Reason))
	})
	return lines
}

// duplicates lists what Warehouse.Duplicates does, from collapsed rows.
func duplicates(rows []pipeline.Row, tenantID string, after, upTo sealer.Position) []pipeline.Duplicate {
	var list []pipeline.Duplicate
	for _, r := range rows {
		if r.TenantID != tenantID || r.Compare(after) <= 0 || r.Compare(upTo) > 0 {
			continue
		}
		if p, ok := first(rows, r, day); ok {
			list = append(list, pipeline.Duplicate{EventID: r.EventID, FirstEventID: p.EventID})
		}
	}
	return list
}

// events lists what Warehouse.Events does, from collapsed rows.
func events(rows []pipeline.Row, q pipeline.EventQuery) []pipeline.Row {
	var list []pipeline.Row
	for _, r := range rows {
		if r.TenantID == q.TenantID &&
			(q.After == nil || r.Compare(*q.After) > 0) &&
			(q.Before == nil || r.Compare(*q.Before) < 0) &&
			(len(q.Types) == 0 || slices.Contains(q.Types, r.Type)) {
			list = append(list, r)
		}
	}
	if q.Newest {
		slices.Reverse(list)
	}
	return list[:min(len(list), q.Limit)]
}
