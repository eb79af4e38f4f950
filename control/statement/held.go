package statement

import (
	"context"
	"time"

	"muniment/control/dispute"
	"muniment/control/settle"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/sealer"
)

// HeldAmount returns what the deliveries that a dispute excludes are worth by the current rules, by
// currency, without amounts of 0. It ignores other disputes, minimums and caps.
func (r *rater) HeldAmount(ctx context.Context, tenantID string, x *dispute.Exclusion) ([]dispute.Amount, error) {
	rules, err := settle.Rules(ctx, r.db.Read(), tenantID, store.Instant{})
	if err != nil {
		return nil, err
	}
	records, err := settle.Records(rules)
	if err != nil {
		return nil, err
	}
	edges, err := settle.Edges(records)
	if err != nil {
		return nil, err
	}
	l := loaded{from: time.UnixMilli(0).UTC(), to: forever}
	q := pipeline.MeterQuery{TenantID: tenantID, By: pipeline.MeterBy{Completion: true}}
	if x.RightID != "" {
		l.from, l.to = x.Window.From.Time, x.Window.To.Time
		q.RightID, q.From, q.To = x.RightID, l.from, l.to
	} else {
		q.EventIDs = []string{}
		for _, id := range x.ReceiptIDs {
			q.EventIDs = append(q.EventIDs, api.EventOf(id))
		}
	}
	if q.Buckets, err = bucketsOf(l.from, l.to, edges, mostEdges); err != nil {
		return nil, err
	}
	rows, err := r.cfg.Warehouse.Metering(ctx, q)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].Reason == sealer.ReasonMetered {
			l.free = append(l.free, metered(&rows[i]))
		}
	}
	p, err := l.rated(records, plainly, currenciesOf(rules))
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
