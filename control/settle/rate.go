package settle

import (
	"iter"

	"muniment/control/settle/rate"
	"muniment/sealer"
)

var _ sealer.Rate = Rate

// Rate applies control/settle/rate to the records of a pack. Sealing and verifying both use it.
func Rate(rules []sealer.SettlementRule, receipts iter.Seq[sealer.Metered]) (lines []sealer.SettlementLine, unrated []sealer.Unrated, err error) {
	parsed, err := parse(rules)
	if err != nil {
		return nil, nil, err
	}
	settled, err := rate.Rate(parsed, func(yield func(rate.Metered) bool) {
		for m := range receipts {
			if !yield(rate.Metered(m)) {
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
			Impressions: l.Impressions, Amount: l.Amount.String(), Shares: shares,
		})
	}
	for _, u := range settled.Unrated {
		unrated = append(unrated, sealer.Unrated(u))
	}
	return lines, unrated, nil
}

func parse(records []sealer.SettlementRule) ([]rate.Rule, error) {
	rules := make([]rate.Rule, 0, len(records))
	for _, r := range records {
		rule, err := rate.ParseRule(r.Record)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// Precedence returns rate.NewPrecedence of the rules in records.
func Precedence(records []sealer.SettlementRule) (*rate.Precedence, error) {
	rules, err := parse(records)
	if err != nil {
		return nil, err
	}
	return rate.NewPrecedence(rules)
}
