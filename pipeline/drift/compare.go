package drift

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// finding is one difference: of an event, a pack, or a statement.
type finding struct {
	kind, tenantID, id string
	first, last        sealer.Position
	// The sums of a pack's rows minus those in its header.
	entries, receipts, quantityMs, impressions int64
	// The recomputed sums of a statement minus the stated ones.
	currency   string
	difference Difference
}

// compare checks a piece. judged is false if it can't be checked: it is no longer in the log, or not
// loaded, for example because the warehouse was replaced by an older copy.
func (c *Checker) compare(ctx context.Context, p piece) (found []finding, judged bool, err error) {
	switch p.check {
	case checkRows:
		found, judged, err = c.rows(ctx, p)
		if errors.Is(err, pipeline.ErrGone) {
			return nil, false, nil
		}
	case checkDuplicates:
		found, judged, err = c.duplicates(ctx, p)
	case checkPacks:
		found, judged, err = c.pack(ctx, p)
	case checkStatements:
		found, judged, err = c.statement(ctx, p)
	}
	return found, judged, err
}

// key identifies an event.
type key struct{ tenantID, eventID string }

func (e Event) key() key { return key{e.TenantID, e.EventID} }

func (e Event) finding(kind string) finding {
	return finding{kind: kind, tenantID: e.TenantID, id: e.EventID, first: e.Position, last: e.Position}
}

// rows compares a range of the log with the rows at its positions.
func (c *Checker) rows(ctx context.Context, p piece) (found []finding, judged bool, err error) {
	var logged []Event
	err = c.cfg.Log.Scan(ctx, p.from, p.to, func(e sealer.Entry) error {
		// The log reuses the entry's bytes after this call.
		logged = append(logged, Event{e.Position, strings.Clone(e.TenantID), strings.Clone(e.EventID)})
		return nil
	})
	if err != nil || len(logged) == 0 {
		return nil, false, err
	}
	until := logged[len(logged)-1].Next()
	if in := c.walks.log; in != nil && in.begun {
		in.at = until // a generation may have ended within the range
	}
	for run := range generations(logged) {
		some, err := c.run(ctx, run)
		if err != nil {
			return nil, false, err
		}
		found = append(found, some...)
	}
	c.metrics.checked.WithLabelValues(checkRows).Add(float64(len(logged)))
	next, ok, err := c.cfg.Loaded(ctx, until.Partition)
	return found, ok && next.Compare(until) >= 0, err
}

// generations splits a range of the log where a generation begins. Positions after a generation's end
// are in no part: a log that lost its end has rows there.
func generations(logged []Event) func(func([]Event) bool) {
	return func(yield func([]Event) bool) {
		for len(logged) > 0 {
			n := slices.IndexFunc(logged, func(e Event) bool { return e.Generation != logged[0].Generation })
			if n < 0 {
				n = len(logged)
			}
			if !yield(logged[:n]) {
				return
			}
			logged = logged[n:]
		}
	}
}

// run compares a range of one generation.
func (c *Checker) run(ctx context.Context, logged []Event) (found []finding, err error) {
	standing, err := c.cfg.Auditor.Standing(ctx, logged[0].Position, logged[len(logged)-1].Next())
	if err != nil {
		return nil, err
	}
	lowest := make(map[key]sealer.Position, len(standing))
	for _, e := range standing {
		if at, ok := lowest[e.key()]; !ok || e.Compare(at) < 0 {
			lowest[e.key()] = e.Position
		}
		if i := e.Offset - logged[0].Offset; i < 0 || i >= int64(len(logged)) || logged[i].key() != e.key() {
			found = append(found, e.finding(KindInvented))
		}
	}
	var without []Event
	seen := make(map[key]bool, len(logged))
	for _, e := range logged {
		if at, ok := lowest[e.key()]; !seen[e.key()] && (!ok || at.Compare(e.Position) > 0) {
			without = append(without, e)
		}
		seen[e.key()] = true
	}
	if len(without) > 0 {
		if without, err = c.cfg.Auditor.Unaccounted(ctx, without); err != nil {
			return nil, err
		}
	}
	for _, e := range without {
		found = append(found, e.finding(KindMissing))
	}
	return found, nil
}

// duplicates compares the stored decisions for a range of rows with the rule.
func (c *Checker) duplicates(ctx context.Context, p piece) (found []finding, judged bool, err error) {
	misjudged, err := c.cfg.Auditor.Misjudged(ctx, p.from, p.to)
	if err != nil {
		return nil, false, err
	}
	for _, e := range misjudged {
		found = append(found, e.finding(KindDuplicates))
	}
	c.metrics.checked.WithLabelValues(checkDuplicates).Add(float64(p.to.Offset - p.from.Offset))
	next, ok, err := c.cfg.Loaded(ctx, p.to.Partition)
	return found, ok && next.Compare(p.to) >= 0, err
}

// pack compares the header of the piece's next pack with the rows of its entries.
func (c *Checker) pack(ctx context.Context, p piece) (found []finding, judged bool, err error) {
	pack, err := c.cfg.NextPack(ctx, p.after)
	if err != nil {
		return nil, false, err
	}
	if pack == nil {
		c.walks.packs.pass(p.after, "")
		return nil, true, nil
	}
	c.walks.packs.pass(p.after, pack.ID)
	next, ok, err := c.cfg.Loaded(ctx, pack.Last.Partition)
	if err != nil || !ok || next.Compare(pack.Last) <= 0 {
		return nil, false, err
	}
	rows, lines, err := c.cfg.Auditor.Sum(ctx, pack.TenantID, pack.First, pack.Last)
	if err != nil {
		return nil, false, err
	}
	c.metrics.checked.WithLabelValues(checkPacks).Inc()
	f, apart := pack.apart(rows, lines)
	if !apart && c.cfg.Metering != nil {
		f, apart, err = c.hours(ctx, pack)
	}
	if err == nil && !apart && c.cfg.MeterTotals != nil {
		apart, err = c.rendered(ctx, pack)
	}
	if err != nil {
		return nil, false, err
	}
	if apart {
		found = append(found, f)
	}
	return found, true, nil
}

// statement compares the piece's next statement with its recomputation.
func (c *Checker) statement(ctx context.Context, p piece) (found []finding, judged bool, err error) {
	s, err := c.cfg.NextStatement(ctx, p.after)
	if err != nil {
		return nil, false, err
	}
	if s == nil {
		c.walks.statements.pass(p.after, "")
		return nil, true, nil
	}
	c.walks.statements.pass(p.after, s.ID)
	next, ok, err := c.cfg.Loaded(ctx, s.AsOf.Partition)
	if err != nil || !ok || next.Compare(s.AsOf) < 0 {
		return nil, false, err
	}
	difference, err := c.cfg.Restate(ctx, s)
	if err != nil {
		return nil, false, err
	}
	c.metrics.checked.WithLabelValues(checkStatements).Inc()
	if difference != nil {
		found = append(found, finding{kind: KindStatement, tenantID: s.TenantID, id: s.ID, first: s.AsOf, last: s.AsOf, currency: s.Currency, difference: *difference})
	}
	return found, true, nil
}

// apart returns the difference between a pack's rows and its header, and whether there is one.
func (p *Pack) apart(rows int64, lines []pipeline.MeterRow) (f finding, apart bool) {
	f = finding{kind: KindPack, tenantID: p.TenantID, id: p.ID, first: p.First, last: p.Last, entries: rows - p.Count}
	left := map[pack.MeterRow][3]int64{}
	add := func(line pack.MeterRow, sign int64) {
		receipts, quantityMs, impressions := sign*line.Receipts, sign*line.QuantityMs, sign*line.Impressions
		f.receipts += receipts
		f.quantityMs += quantityMs
		f.impressions += impressions
		line.Receipts, line.QuantityMs, line.Impressions = 0, 0, 0
		sum := left[line]
		left[line] = [3]int64{sum[0] + receipts, sum[1] + quantityMs, sum[2] + impressions}
	}
	for _, line := range p.Metering {
		add(line, -1)
	}
	for i := range lines {
		add(lines[i].Sealed(), 1)
	}
	maps.DeleteFunc(left, func(_ pack.MeterRow, sum [3]int64) bool { return sum == [3]int64{} })
	return f, f.entries != 0 || len(left) > 0
}

// hours compares what is stored of a pack by hour and day with the rows of its entries, whose header agrees
// with them. A row of an hour that is not stored counts in the hour before it. Without one the row is left out,
// but then what is stored comes to less than the header.
func (c *Checker) hours(ctx context.Context, p *Pack) (finding, bool, error) {
	f := finding{kind: KindPack, tenantID: p.TenantID, id: p.ID, first: p.First, last: p.Last}
	var starts []time.Time
	for i := range p.Hours {
		starts = append(starts, p.Hours[i].Bucket)
	}
	slices.SortFunc(starts, time.Time.Compare)
	starts = slices.CompactFunc(starts, time.Time.Equal)
	after := p.First
	after.Offset--
	hours, days := newDifference(p.Hours), newDifference(p.Days)
	for from := 0; from < len(starts); from += hoursAtOnce {
		some := starts[from:min(from+hoursAtOnce, len(starts))]
		q := pipeline.MeterQuery{TenantID: p.TenantID, After: &after, AsOf: new(p.Last.Next()), Buckets: some, By: pipeline.MeterBy{Completion: true}}
		if from+len(some) < len(starts) {
			q.To = starts[from+len(some)]
		}
		rows, err := c.cfg.Metering(ctx, q)
		if err != nil {
			return f, false, err
		}
		for _, row := range rows {
			hours.add(row, 1)
			row.Bucket = row.Bucket.Truncate(24 * time.Hour)
			days.add(row, 1)
		}
	}
	_, less := p.apart(p.Count, p.Hours)
	return f, less || hours.any() || days.any(), nil
}

// rendered reports whether the earliest and the latest renderedAt that are stored of a pack are not those of
// the rows of its entries.
func (c *Checker) rendered(ctx context.Context, p *Pack) (apart bool, err error) {
	after := p.First
	after.Offset--
	totals, err := c.cfg.MeterTotals(ctx, pipeline.MeterQuery{TenantID: p.TenantID, After: &after, AsOf: new(p.Last.Next())})
	for _, of := range []Rendered{p.RenderedByHour, p.RenderedByDay} {
		apart = apart || !of.First.Equal(totals.First) || !of.Last.Equal(totals.Last)
	}
	return apart, err
}

// hoursAtOnce is how many hours one query adds up.
const hoursAtOnce = 2000

// difference is rows minus what is stored, by all but their sums.
type difference map[pipeline.MeterRow][3]int64

func newDifference(stored []pipeline.MeterRow) difference {
	d := difference{}
	for _, row := range stored {
		d.add(row, -1)
	}
	return d
}

func (d difference) add(row pipeline.MeterRow, sign int64) {
	receipts, quantityMs, impressions := sign*row.Receipts, sign*row.QuantityMs, sign*row.Impressions
	row.Receipts, row.QuantityMs, row.Impressions = 0, 0, 0
	was := d[row]
	d[row] = [3]int64{was[0] + receipts, was[1] + quantityMs, was[2] + impressions}
}

func (d difference) any() bool {
	for _, sum := range d {
		if sum != [3]int64{} {
			return true
		}
	}
	return false
}

// both returns the findings that two checks of a piece have in common.
func both(before, now []finding) []finding {
	was := make(map[finding]bool, len(before))
	for _, f := range before {
		was[f] = true
	}
	return slices.DeleteFunc(now, func(f finding) bool { return !was[f] })
}

// report logs the findings, in one line for each tenant and kind.
func (c *Checker) report(ctx context.Context, found []finding) {
	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.tenantID, b.tenantID))
	})
	for len(found) > 0 {
		f, n := found[0], 1
		for ; n < len(found) && found[n].kind == f.kind && found[n].tenantID == f.tenantID; n++ {
			if g := found[n]; g.first.Compare(f.first) < 0 {
				f.first, f.id = g.first, g.id
			} else if g.last.Compare(f.last) > 0 {
				f.last = g.last
			}
		}
		found = found[n:]
		what := []any{"kind", f.kind, "tenant", f.tenantID, "from", f.first.String(), "to", f.last.String(), "count", n, "first", f.id}
		if f.kind == KindStatement {
			what = append(what, "currency", f.currency, "receipts", f.difference.Receipts, "total", f.difference.Total, "held_amount", f.difference.HeldAmount)
		}
		if f.kind == KindPack {
			what = append(what, "entries", f.entries, "receipts", f.receipts, "quantity_ms", f.quantityMs,
				"impressions", float64(f.impressions)/sealer.Impression)
		}
		c.cfg.Logger.ErrorContext(ctx, "drift: log, warehouse, packs and statements disagree", what...)
	}
}
