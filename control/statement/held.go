package statement

import (
	"context"
	"time"

	"muniment.example/control/dispute"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
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
	rules, err := r.rulesNow(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	t, err := r.current(ctx, tenantID, q.from, q.to, rules)
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
	amounts := []dispute.Amount{}
	for _, t := range p.totals() {
		if t.Amount != "0" {
			amounts = append(amounts, dispute.Amount{Currency: t.Currency, Amount: t.Amount})
		}
	}
	return amounts, nil
}
