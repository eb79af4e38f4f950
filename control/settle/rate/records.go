package rate

import (
	"iter"
	"time"

	"muniment/sealer"
)

// Rating computes the settlement of packs and statements. Who seals and who verifies both use it.
var Rating = sealer.Rating{Rate: rateRecords, Adjust: adjust, Precedence: precedence}

// precedence applies NewPrecedence to rules in the form that their events have.
func precedence(records []sealer.SettlementRule) (func(*sealer.Metered) int, error) {
	rules, err := ParseRules(records)
	if err != nil {
		return nil, err
	}
	p, err := NewPrecedence(rules)
	if err != nil {
		return nil, err
	}
	places := make(map[*Rule]int)
	for i := range rules {
		places[&rules[i]] = i
	}
	return func(m *sealer.Metered) int {
		of := metered(m)
		if rule := p.Of(&of); rule != nil {
			return places[rule]
		}
		return -1
	}, nil
}

func metered(m *sealer.Metered) Metered {
	return Metered{m.RightID, m.BasisID, m.Substrate, m.MeteringBasis, m.Completion, m.RenderedAt, m.Receipts, m.QuantityMs, m.Impressions}
}

// rateRecords applies Rate to rules in the form that their events have.
func rateRecords(records []sealer.SettlementRule, receipts iter.Seq[sealer.Metered]) (lines []sealer.SettlementLine, unrated []sealer.Unrated, err error) {
	rules, err := ParseRules(records)
	if err != nil {
		return nil, nil, err
	}
	settled, err := Rate(rules, func(yield func(Metered) bool) {
		for m := range receipts {
			if !yield(metered(&m)) {
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

// ParseRules parses rules in the form that their events have.
func ParseRules(records []sealer.SettlementRule) ([]Rule, error) {
	rules := make([]Rule, 0, len(records))
	for _, r := range records {
		rule, err := ParseRule(r.Record)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// adjust applies Rule.Adjust to all lines that one rule makes in a period. A rule that is never in
// force during the period adjusts nothing.
func adjust(rule sealer.SettlementRule, lines []sealer.SettlementLine, from, to time.Time) (amount string, shares []string, err error) {
	r, err := ParseRule(rule.Record)
	if err != nil {
		return "", nil, err
	}
	if !r.InForce(from, to) {
		return "", nil, nil
	}
	var sum Money
	for _, l := range lines {
		m, err := ParseMoney(l.Amount)
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
