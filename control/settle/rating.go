package settle

import (
	"context"
	"time"

	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Rating is how packs and statements are computed.
var Rating = sealer.Rating{Rate: Rate, Adjust: Adjust}

var _ sealer.Adjust = Adjust

// Adjust is rate.Rule.Adjust for lines of one rule, all of its lines of a period. A rule that is in
// force at no time of the period adjusts nothing.
func Adjust(rule sealer.SettlementRule, lines []sealer.SettlementLine, from, to time.Time) (amount string, shares []string, err error) {
	r, err := rate.ParseRule(rule.Record)
	if err != nil {
		return "", nil, err
	}
	if !r.EffectiveFrom.Before(to) || !r.EffectiveUntil.IsZero() && !from.Before(r.EffectiveUntil) {
		return "", nil, nil
	}
	var sum rate.Money
	for _, l := range lines {
		m, err := rate.ParseMoney(l.Amount)
		if err != nil {
			return "", nil, err
		}
		if sum += m; sum < 0 {
			return "", nil, sealer.ErrAmount
		}
	}
	adjustment, parts := r.Adjust(sum)
	if adjustment == 0 {
		return "", nil, nil
	}
	for _, p := range parts {
		shares = append(shares, p.String())
	}
	return adjustment.String(), shares, nil
}

// Edges are the moments at which rules begin and end.
func Edges(records []sealer.SettlementRule) (edges []time.Time, err error) {
	rules, err := parse(records)
	for _, r := range rules {
		edges = append(edges, r.EffectiveFrom)
		if !r.EffectiveUntil.IsZero() {
			edges = append(edges, r.EffectiveUntil)
		}
	}
	return edges, err
}

// Records are rules as their events have them.
func Records(rules []Rule) (records []sealer.SettlementRule, err error) {
	for i := range rules {
		text, err := sealer.Canonical(&rules[i])
		if err != nil {
			return nil, err
		}
		records = append(records, sealer.SettlementRule{Leaf: uint64(i), Record: text})
	}
	return records, nil
}

// Propose is the rule that would be created of what is asked for at a moment; what is wrong with
// it is VALIDATION_FAILED of the fields in the given member.
func Propose(ctx context.Context, q store.Querier, tenantID, member string, asked *NewRule, now time.Time) (Rule, error) {
	r, faults := asked.rule(tenantID, asked.EffectiveFrom)
	r.settle(store.At(now))
	more, err := r.faults(ctx, q)
	faults = append(faults, more...)
	if err == nil && len(faults) > 0 {
		for i := range faults {
			faults[i].Field = member + "." + faults[i].Field
		}
		err = api.Invalid(faults...)
	}
	return r, err
}
