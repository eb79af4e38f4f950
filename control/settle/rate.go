package settle

import (
	"iter"

	"muniment/control/settle/rate"
	"muniment/sealer"
)

var _ sealer.Rate = Rate

// Rate is control/settle/rate as packs are sealed and verified with it.
func Rate(rules []sealer.SettlementRule, receipts iter.Seq[sealer.Metered]) (lines []sealer.SettlementLine, unrated []sealer.Unrated, err error) {
	parsed := make([]rate.Rule, 0, len(rules))
	for _, r := range rules {
		rule, err := rate.ParseRule(r.Record)
		if err != nil {
			return nil, nil, err
		}
		parsed = append(parsed, rule)
	}
	settled, err := rate.Rate(parsed, func(yield func(rate.Receipt) bool) {
		for m := range receipts {
			if !yield(rate.Receipt(m)) {
				return
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	for _, l := range settled.Lines {
		shares := make([]string, len(l.Shares))
		for i, s := range l.Shares {
			shares[i] = s.String()
		}
		lines = append(lines, sealer.SettlementLine{
			RuleID: l.RuleID, RightID: l.RightID, MeteringBasis: l.MeteringBasis, Receipts: l.Receipts, QuantityMs: l.QuantityMs,
			Amount: l.Amount.String(), Shares: shares,
		})
	}
	for _, u := range settled.Unrated {
		unrated = append(unrated, sealer.Unrated(u))
	}
	return lines, unrated, nil
}
