package conform

import (
	"cmp"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// The model: the results of a warehouse, computed the slow and plain way from
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

// first returns the lowest event that makes r a duplicate, within a day if it has its key, among rows
// in the order of their positions.
func first(rows []pipeline.Row, r pipeline.Row) (pipeline.Row, bool) {
	if r.Delivery == nil {
		return pipeline.Row{}, false
	}
	for _, p := range rows {
		if p.Compare(r.Position) >= 0 {
			break
		}
		if p.TenantID != r.TenantID || p.Delivery == nil {
			continue
		}
		sameKey := r.Delivery.Idempotency != "" && p.Delivery.Idempotency == r.Delivery.Idempotency
		sameRow := r.Delivery.Identity != sealer.RowIdentity{} && p.Delivery.Identity == r.Delivery.Identity
		if sameRow || sameKey && r.At.Sub(p.At) <= day {
			return p, true
		}
	}
	return pipeline.Row{}, false
}

// selected reports whether q selects a delivery.
func selected(r pipeline.Row, q pipeline.MeterQuery) bool {
	d := r.Delivery
	return r.TenantID == q.TenantID && d != nil && within(d.RenderedAt, q.From, q.To) &&
		(q.RightID == "" || d.RightID == q.RightID) &&
		(q.EventIDs == nil || slices.Contains(q.EventIDs, r.EventID)) &&
		(q.Hours == nil || slices.ContainsFunc(q.Hours, func(start time.Time) bool { return within(d.RenderedAt, start, start.Add(time.Hour)) })) &&
		(q.After == nil || r.Compare(*q.After) > 0) && (q.AsOf == nil || r.Compare(*q.AsOf) < 0)
}

// within reports whether from ≤ t < to, where these are given.
func within(t, from, to time.Time) bool {
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || t.Before(to))
}

// bucketOf is the start of the bucket that t is in: the last that is not after it.
// ok is false before the first.
func bucketOf(t time.Time, starts []time.Time) (start time.Time, ok bool) {
	if len(starts) == 0 {
		return time.Time{}, true
	}
	for _, s := range starts {
		if !s.After(t) {
			start, ok = s.UTC(), true
		}
	}
	return start, ok
}

// released reports whether one of the rows releases a quarantined record.
func released(rows []pipeline.Row, s pipeline.Quarantined) bool {
	return slices.ContainsFunc(rows, func(r pipeline.Row) bool {
		return r.Type == pipeline.TypeReleased && r.SubjectKind == pipeline.KindRecord && r.SubjectID == s.Position.String() &&
			(r.TenantID == s.TenantID || r.TenantID == pipeline.SystemTenant)
	})
}

// slice cuts the lines of a page.
func slice[T any](lines []T, skip, limit int) []T {
	lines = lines[min(skip, len(lines)):]
	if limit > 0 {
		lines = lines[:min(limit, len(lines))]
	}
	return lines
}

// meter sums collapsed rows as Warehouse.Metering does.
func meter(rows []pipeline.Row, q pipeline.MeterQuery) []pipeline.MeterRow {
	sums := map[pipeline.MeterRow]pipeline.MeterRow{}
	for _, r := range rows {
		if !selected(r, q) {
			continue
		}
		d := r.Delivery
		bucket, ok := bucketOf(d.RenderedAt, q.Buckets)
		if !ok {
			continue
		}
		line := pipeline.MeterRow{
			Bucket: bucket, RightID: d.RightID, Substrate: d.Substrate, BasisID: d.BasisID, MeteringBasis: d.MeteringBasis, Reason: d.Reason,
		}
		if q.By.Completion {
			line.Completion = d.Completion
		}
		if q.By.Anchor {
			line.SpatialAnchorID = d.SpatialAnchorID
		}
		if q.By.Placement {
			line.SpatialPlacementID = d.SpatialPlacementID
		}
		quantity, impressions := d.QuantityMs, d.Impressions
		if _, ok := first(rows, r); ok {
			line.MeteringBasis, line.Reason, quantity, impressions = "none", pipeline.ReasonDuplicate, 0, 0
		}
		sum, ok := sums[line]
		if !ok {
			sum = line
		}
		sum.Receipts++
		sum.QuantityMs += quantity
		sum.Impressions += impressions
		sums[line] = sum
	}
	var lines []pipeline.MeterRow
	for _, sum := range sums {
		lines = append(lines, sum)
	}
	slices.SortFunc(lines, func(a, b pipeline.MeterRow) int {
		return cmp.Or(a.Bucket.Compare(b.Bucket),
			cmp.Compare(a.RightID, b.RightID), cmp.Compare(a.Substrate, b.Substrate), cmp.Compare(a.BasisID, b.BasisID),
			cmp.Compare(a.MeteringBasis, b.MeteringBasis), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Completion, b.Completion), cmp.Compare(a.SpatialAnchorID, b.SpatialAnchorID), cmp.Compare(a.SpatialPlacementID, b.SpatialPlacementID))
	})
	return slice(lines, q.Skip, q.Limit)
}

// meterTotals sums what Warehouse.MeterTotals does, from collapsed rows.
func meterTotals(rows []pipeline.Row, q pipeline.MeterQuery) (t pipeline.MeterTotals) {
	for _, r := range rows {
		if !selected(r, q) {
			continue
		}
		at := r.Delivery.RenderedAt
		if t.Receipts == 0 || at.Before(t.First) {
			t.First = at
		}
		if t.Receipts == 0 || at.After(t.Last) {
			t.Last = at
		}
		t.Receipts++
		if _, ok := first(rows, r); ok {
			t.Duplicates++
			continue
		}
		t.QuantityMs += r.Delivery.QuantityMs
		t.Impressions += r.Delivery.Impressions
		if r.Delivery.Metered {
			t.Metered++
		}
	}
	return t
}

// refusal is one count of a gate.refusals event.
type refusal struct {
	at    time.Time
	right string
	rule  string
	count int64
}

// reports are the lists of counts of the gate.refusals events that q selects, from collapsed rows.
func reports(rows []pipeline.Row, q pipeline.RefusalQuery, list string) iter.Seq2[time.Time, map[string]any] {
	return func(yield func(time.Time, map[string]any) bool) {
		for _, r := range rows {
			var text struct{ Data map[string]json.RawMessage }
			var counts []any
			if r.TenantID != q.TenantID || r.Type != pipeline.TypeRefusals || !within(r.At, q.From, q.To) ||
				q.AsOf != nil && r.Compare(*q.AsOf) >= 0 || json.Unmarshal(r.Event, &text) != nil || json.Unmarshal(text.Data[list], &counts) != nil {
				continue
			}
			for _, one := range counts {
				c, _ := one.(map[string]any)
				if n, whole := c["count"].(float64); whole && n == math.Trunc(n) && !yield(r.At, c) {
					return
				}
			}
		}
	}
}

// refused lists the counts of rules that q selects, from collapsed rows.
func refused(rows []pipeline.Row, q pipeline.RefusalQuery) (list []refusal) {
	for at, c := range reports(rows, q, "counts") {
		rule, named := c["rule"].(string)
		right, under := c["rightId"].(string)
		if _, given := c["rightId"]; given && !under || !named || q.RightID != "" && right != q.RightID || q.Rule != "" && rule != q.Rule {
			continue
		}
		list = append(list, refusal{at, right, rule, int64(c["count"].(float64))})
	}
	return list
}

// unrecognisedName is one count of a name in a gate.refusals event.
type unrecognisedName struct {
	at          time.Time
	name, meant string
	count       int64
}

// misspelt lists the counts of names that q selects, from collapsed rows.
func misspelt(rows []pipeline.Row, q pipeline.RefusalQuery) (list []unrecognisedName) {
	for at, c := range reports(rows, q, "unrecognised") {
		name, named := c["name"].(string)
		meant, known := c["meant"].(string)
		if named && known {
			list = append(list, unrecognisedName{at, name, meant, int64(c["count"].(float64))})
		}
	}
	return list
}

// unrecognised sums what Warehouse.Unrecognised does, from collapsed rows.
func unrecognised(rows []pipeline.Row, q pipeline.RefusalQuery) []pipeline.UnrecognisedRow {
	sums := map[pipeline.UnrecognisedRow]int64{}
	for _, one := range misspelt(rows, q) {
		if bucket, ok := bucketOf(one.at, q.Buckets); ok {
			sums[pipeline.UnrecognisedRow{Bucket: bucket, Name: one.name, Meant: one.meant}] += one.count
		}
	}
	var lines []pipeline.UnrecognisedRow
	for line, n := range sums {
		line.Deliveries = n
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b pipeline.UnrecognisedRow) int {
		return cmp.Or(b.Bucket.Compare(a.Bucket), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Meant, b.Meant))
	})
	return slice(lines, q.Skip, q.Limit)
}

// refusals sums what Warehouse.Refusals does, from collapsed rows.
func refusals(rows []pipeline.Row, q pipeline.RefusalQuery) []pipeline.RefusalRow {
	sums := map[pipeline.RefusalRow]int64{}
	for _, one := range refused(rows, q) {
		if bucket, ok := bucketOf(one.at, q.Buckets); ok {
			sums[pipeline.RefusalRow{Bucket: bucket, RightID: one.right, Rule: one.rule}] += one.count
		}
	}
	var lines []pipeline.RefusalRow
	for line, n := range sums {
		line.Refusals = n
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b pipeline.RefusalRow) int {
		return cmp.Or(a.Bucket.Compare(b.Bucket), cmp.Compare(a.RightID, b.RightID), cmp.Compare(a.Rule, b.Rule))
	})
	return slice(lines, q.Skip, q.Limit)
}

// byRule sums what RuleCounter.RefusalsByRule does, from collapsed rows.
func byRule(rows []pipeline.Row, from, to time.Time) (lines []pipeline.RefusalRow) {
	sums := map[string]int64{}
	for tenant := range tenantsOf(rows) {
		for _, one := range refused(rows, pipeline.RefusalQuery{TenantID: tenant, From: from, To: to}) {
			sums[one.rule] += one.count
		}
	}
	for rule, n := range sums {
		lines = append(lines, pipeline.RefusalRow{Rule: rule, Refusals: n})
	}
	slices.SortFunc(lines, func(a, b pipeline.RefusalRow) int {
		return cmp.Or(cmp.Compare(b.Refusals, a.Refusals), cmp.Compare(a.Rule, b.Rule))
	})
	return lines
}

func tenantsOf(rows []pipeline.Row) map[string]bool {
	all := map[string]bool{}
	for _, r := range rows {
		all[r.TenantID] = true
	}
	return all
}

// refusalTotals sums what Warehouse.RefusalTotals does, from collapsed rows.
func refusalTotals(rows []pipeline.Row, q pipeline.RefusalQuery) (t pipeline.RefusalTotals) {
	counts := refused(rows, q)
	if q.RightID == "" && q.Rule == "" {
		for _, one := range misspelt(rows, q) {
			counts = append(counts, refusal{at: one.at})
		}
	}
	for i, one := range counts {
		t.Refusals += one.count
		if i == 0 || one.at.Before(t.First) {
			t.First = one.at
		}
		if i == 0 || one.at.After(t.Last) {
			t.Last = one.at
		}
	}
	return t
}

// duplicates lists what Warehouse.Duplicates does, from collapsed rows.
func duplicates(rows []pipeline.Row, tenantID string, after, upTo sealer.Position) []pipeline.Duplicate {
	var list []pipeline.Duplicate
	for _, r := range rows {
		if r.TenantID != tenantID || r.Compare(after) <= 0 || r.Compare(upTo) > 0 {
			continue
		}
		if p, ok := first(rows, r); ok {
			list = append(list, repeats(r, p))
		}
	}
	return list
}

// events lists what Warehouse.Events does, from collapsed rows.
func events(rows []pipeline.Row, q pipeline.EventQuery) []pipeline.Row {
	is := func(value, wanted string) bool { return wanted == "" || value == wanted }
	var list []pipeline.Row
	for _, r := range rows {
		if r.TenantID == q.TenantID &&
			(q.After == nil || r.Compare(*q.After) > 0) &&
			(q.Before == nil || r.Compare(*q.Before) < 0) &&
			(len(q.Types) == 0 || slices.Contains(q.Types, r.Type)) && !(q.NoDeliveries && r.Delivery != nil) &&
			strings.HasSuffix(r.EventID, q.EventIDEnd) && is(r.ActorKind, q.ActorKind) && is(r.ActorID, q.ActorID) &&
			is(r.SubjectKind, q.SubjectKind) && is(r.SubjectID, q.SubjectID) && (len(q.SubjectIDs) == 0 || slices.Contains(q.SubjectIDs, r.SubjectID)) && (q.DataSubject == "" || r.IsAbout(sealer.NewPerson(q.DataSubject))) &&
			within(r.At, q.From, q.To) && searched(r.Delivery, q) {
			list = append(list, r)
		}
	}
	if q.Newest {
		slices.Reverse(list)
	}
	return list[:min(len(list), q.Limit)]
}

// searched reports whether a row passes the filters that only deliveries pass.
func searched(d *pipeline.Delivery, q pipeline.EventQuery) bool {
	if d == nil {
		return q.RightID == "" && q.SpatialAnchorID == "" && q.CorrelationID == "" && q.RenderedFrom.IsZero() && q.RenderedTo.IsZero()
	}
	is := func(value, wanted string) bool { return wanted == "" || value == wanted }
	return is(d.RightID, q.RightID) && is(d.SpatialAnchorID, q.SpatialAnchorID) && is(d.CorrelationID, q.CorrelationID) &&
		within(d.RenderedAt, q.RenderedFrom, q.RenderedTo)
}
