package statement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muniment.example/control/dispute"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer/settlement"
)

// HeldAmount returns what the deliveries that a dispute excludes are worth, by the rules by which they
// were stated, or else the current ones; by currency, without amounts of 0. It ignores other disputes, minimums and caps.
func (r *rater) HeldAmount(ctx context.Context, tenantID string, x *dispute.Exclusion) ([]dispute.Amount, error) {
	q := question{tenantID: tenantID, from: time.UnixMilli(0).UTC(), to: forever, rightID: x.RightID}
	if x.RightID != "" {
		q.from, q.to = x.Window.From.Time, x.Window.To.Time
	} else {
		q.eventIDs = []string{}
		for _, id := range x.ReceiptIDs {
			q.eventIDs = append(q.eventIDs, api.EventOf(id))
		}
		rendered, err := r.cfg.Warehouse.MeterTotals(ctx, pipeline.MeterQuery{TenantID: tenantID, EventIDs: q.eventIDs})
		if err != nil || rendered.Receipts == 0 {
			return []dispute.Amount{}, err
		}
		q.from, q.to = rendered.First, rendered.Last.Add(time.Millisecond)
	}
	t, err := r.termsNow(ctx, tenantID, q.from, q.to)
	if err != nil {
		return nil, err
	}
	l := periodReceipts{from: q.from, to: q.to}
	q.terms = []*terms{t}
	if l.periodSums, err = count(ctx, r.cfg.Sums, q); err != nil {
		return nil, err
	}
	p, err := l.rated(t, ratingOf)
	if err != nil {
		return nil, err
	}
	return p.amounts(), nil
}

// patience is how long Worth may take: what asks for it shows the rest without.
const patience = 5 * time.Second

// Worth returns what each of some deliveries is worth alone, as HeldAmount does of all that a dispute excludes; nothing
// for one that is not billed, or repeats another. It fails rather than take longer than patience.
func (r *rater) Worth(ctx context.Context, tenantID string, deliveries []pipeline.Row) ([][]dispute.Amount, error) {
	worth := make([][]dispute.Amount, len(deliveries))
	if len(deliveries) == 0 {
		return worth, nil
	}
	rendered := func(a, b pipeline.Row) int { return a.Delivery.RenderedAt.Compare(b.Delivery.RenderedAt) }
	first, last := slices.MinFunc(deliveries, rendered).Delivery.RenderedAt, slices.MaxFunc(deliveries, rendered).Delivery.RenderedAt
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	repeats, err := r.repeats(ctx, tenantID, deliveries)
	if err != nil {
		return nil, err
	}
	t, err := r.termsNow(ctx, tenantID, first, last.Add(time.Millisecond))
	if err != nil {
		return nil, err
	}
	known, err := rightsOf(ctx, tenantID, []*terms{t}, func(yield func(string) bool) {
		for _, row := range deliveries {
			if !yield(row.Delivery.RightID) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for i, row := range deliveries {
		worth[i] = []dispute.Amount{}
		d := row.Delivery
		if !d.Metered || repeats[row.EventID] {
			continue
		}
		l := periodReceipts{from: d.RenderedAt, to: d.RenderedAt.Add(time.Millisecond)}
		l.free = []settlement.Metered{{
			RightID: d.RightID, BasisID: d.BasisID, Substrate: d.Substrate, MeteringBasis: d.MeteringBasis, Completion: d.Completion, Right: known[d.RightID],
			RenderedAt: d.RenderedAt, Leaf: t.leafOf(row.Position), Receipts: 1, QuantityMs: d.QuantityMs, Impressions: d.Impressions,
		}}
		p, err := l.rated(t, ratingOf)
		if err != nil {
			return nil, err
		}
		worth[i] = p.amounts()
	}
	return worth, nil
}

// asked bounds the queries of repeats.
const asked = 32

// repeats finds the duplicates among some deliveries. A warehouse counts them by right and moment, to the millisecond. What of
// one right and moment has some and others is halved, that of all moments by one query.
func (r *rater) repeats(ctx context.Context, tenantID string, deliveries []pipeline.Row) (found map[string]bool, err error) {
	type moment struct {
		at      int64
		rightID string
	}
	type part struct {
		ids        []string
		duplicates int64
	}
	whole, buckets := map[moment]part{}, []time.Time{}
	for _, row := range deliveries {
		m := moment{row.Delivery.RenderedAt.UnixMilli(), row.Delivery.RightID}
		whole[m] = part{ids: append(whole[m].ids, row.EventID)}
		buckets = append(buckets, row.Delivery.RenderedAt)
	}
	slices.SortFunc(buckets, time.Time.Compare)
	buckets = slices.CompactFunc(buckets, time.Time.Equal)
	ask := func(parts map[moment]part) error {
		q := pipeline.MeterQuery{TenantID: tenantID, Buckets: buckets, To: buckets[len(buckets)-1].Add(time.Millisecond), EventIDs: []string{}}
		for _, p := range parts {
			q.EventIDs = append(q.EventIDs, p.ids...)
		}
		lines, err := r.cfg.Warehouse.Metering(ctx, q)
		for _, line := range lines {
			m := moment{line.Bucket.UnixMilli(), line.RightID}
			if p, named := parts[m]; named && line.Reason == pipeline.ReasonDuplicate {
				p.duplicates += line.Receipts
				parts[m] = p
			}
		}
		return err
	}
	found = map[string]bool{}
	mixed := map[moment][]part{}
	take := func(m moment, p part) {
		switch {
		case p.duplicates >= int64(len(p.ids)):
			for _, id := range p.ids {
				found[id] = true
			}
		case p.duplicates > 0:
			mixed[m] = append(mixed[m], p)
		}
	}
	if err := ask(whole); err != nil {
		return nil, err
	}
	for m, p := range whole {
		take(m, p)
	}
	for n := 1; ; n++ {
		halves := map[moment]part{}
		for m, parts := range mixed {
			if last := len(parts) - 1; last >= 0 {
				halves[m] = part{ids: parts[last].ids[:len(parts[last].ids)/2]}
			}
		}
		if len(halves) == 0 {
			return found, nil
		}
		if n == asked {
			return nil, fmt.Errorf("%d queries don't tell which of %d deliveries repeat others that were rendered in the same millisecond", asked, len(deliveries))
		}
		if err := ask(halves); err != nil {
			return nil, err
		}
		for m, half := range halves {
			last := len(mixed[m]) - 1
			p := mixed[m][last]
			mixed[m] = mixed[m][:last]
			take(m, half)
			take(m, part{p.ids[len(half.ids):], p.duplicates - half.duplicates})
		}
	}
}

// termsNow returns the terms of now for a period.
func (c *core) termsNow(ctx context.Context, tenantID string, from, to time.Time) (*terms, error) {
	rules, err := c.rulesNow(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	return c.current(ctx, tenantID, from, to, rules)
}

// amounts are the totals by currency, without those of 0.
func (p *projection) amounts() []dispute.Amount {
	amounts := []dispute.Amount{}
	for _, t := range p.totals() {
		if t.Amount != "0" {
			amounts = append(amounts, dispute.Amount{Currency: t.Currency, Amount: t.Amount})
		}
	}
	return amounts
}
