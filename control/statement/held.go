package statement

import (
	"context"
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

// Worth returns what each of some deliveries is worth alone, as HeldAmount does of all that a dispute excludes; nothing
// for one that is not billed, or repeats another.
func (r *rater) Worth(ctx context.Context, tenantID string, deliveries []pipeline.Row) ([][]dispute.Amount, error) {
	worth := make([][]dispute.Amount, len(deliveries))
	if len(deliveries) == 0 {
		return worth, nil
	}
	first, last := deliveries[0].Delivery.RenderedAt, deliveries[0].Delivery.RenderedAt
	ids := make([]string, len(deliveries))
	for i, row := range deliveries {
		ids[i] = row.EventID
		if at := row.Delivery.RenderedAt; at.Before(first) {
			first = at
		} else if at.After(last) {
			last = at
		}
	}
	repeats := map[string]bool{}
	if err := r.repeats(ctx, tenantID, ids, repeats); err != nil {
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

// repeats finds the duplicates among events: it halves those that have some and others.
func (r *rater) repeats(ctx context.Context, tenantID string, ids []string, found map[string]bool) error {
	of, err := r.cfg.Warehouse.MeterTotals(ctx, pipeline.MeterQuery{TenantID: tenantID, EventIDs: ids})
	switch {
	case err != nil || of.Duplicates == 0:
		return err
	case of.Duplicates == of.Receipts:
		for _, id := range ids {
			found[id] = true
		}
		return nil
	}
	middle := len(ids) / 2
	if err := r.repeats(ctx, tenantID, ids[:middle], found); err != nil {
		return err
	}
	return r.repeats(ctx, tenantID, ids[middle:], found)
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
