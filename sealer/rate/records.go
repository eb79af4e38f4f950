package rate

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"muniment.example/sealer/calendar"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/settlement"
)

// Rating computes the settlement of packs and statements. Who seals and who verifies both use it.
var Rating = settlement.Rating{Rate: rateRecords, Adjust: adjust, Precedence: precedence, Months: months}

// precedence applies NewPrecedence to rules in the form that their events have.
func precedence(records []settlement.Rule) (func(*settlement.Metered) int, error) {
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
	return func(m *settlement.Metered) int {
		of := metered(m)
		if rule := p.Of(&of); rule != nil {
			return places[rule]
		}
		return -1
	}, nil
}

func metered(m *settlement.Metered) Metered {
	of := Metered{
		RightID: m.RightID, BasisID: m.BasisID, Substrate: m.Substrate, MeteringBasis: m.MeteringBasis, Completion: m.Completion,
		RenderedAt: m.RenderedAt, Receipts: m.Receipts, QuantityMs: m.QuantityMs, Impressions: m.Impressions,
	}
	if m.Right != nil {
		of.Campaigns, of.Labels = m.Right.Campaigns, m.Right.Labels
	}
	return of
}

// rateRecords applies Rate to rules in the form that their events have.
func rateRecords(records []settlement.Rule, receipts iter.Seq[settlement.Metered]) (lines []settlement.Line, unrated []settlement.Unrated, err error) {
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
		lines = append(lines, settlement.Line{
			RuleID: l.RuleID, RightID: l.RightID, MeteringBasis: l.MeteringBasis, Receipts: l.Receipts, QuantityMs: l.QuantityMs,
			Impressions: l.Impressions, Amount: l.Amount.String(), Shares: shares,
		})
	}
	for _, u := range settled.Unrated {
		unrated = append(unrated, settlement.Unrated(u))
	}
	return lines, unrated, nil
}

// ParseRules parses rules in the form that their events have.
func ParseRules(records []settlement.Rule) ([]Rule, error) {
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

// adjust applies Rule.Adjust to all lines that one rule makes in a month; older are those at another price.
// A rule that is never in force during the month adjusts nothing.
func adjust(rule settlement.Rule, lines, older []settlement.Line, from, to time.Time) (made []settlement.Adjustment, err error) {
	r, err := ParseRule(rule.Record)
	if err != nil || !r.InForce(from, to) {
		return nil, err
	}
	var sum Money
	var volumes [2]Sums
	for i, list := range [][]settlement.Line{lines, older} {
		for _, l := range list {
			m, err := ParseMoney(l.Amount)
			if err != nil {
				return nil, err
			}
			if sum += m; sum < 0 || !volumes[i].add(Sums{l.Receipts, l.QuantityMs, l.Impressions}) {
				return nil, settlement.ErrAmount
			}
		}
	}
	adjustments, err := r.Adjust(sum, volumes[0], volumes[1])
	if errors.Is(err, ErrOverflow) {
		err = settlement.ErrAmount
	}
	for _, a := range adjustments {
		of := settlement.Adjustment{Reason: a.Reason, Amount: a.Amount.String()}
		for _, p := range a.Shares {
			of.Shares = append(of.Shares, p.String())
		}
		made = append(made, of)
	}
	return made, err
}

// months lists the calendar months in the rule's zone that end at from < end ≤ to, and in which the rule has
// something to adjust: a minimum, a cap or tiers, while it is in force.
func months(rule settlement.Rule, from, to time.Time) (list []settlement.Month, err error) {
	r, err := ParseRule(rule.Record)
	if err != nil || r.Minimum == nil && r.Cap == nil && len(r.Tiers) == 0 {
		return nil, err
	}
	zone, err := calendar.Zone(r.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("the time zone %q of the settlement rule %s %w", r.TimeZone, r.ID, settlement.ErrTimeZone)
	}
	// The months that overlap with the rule's window; or the one of from, in which it may have ended before.
	if r.EffectiveFrom.After(from) {
		from = r.EffectiveFrom
	}
	end := to
	if !r.EffectiveUntil.IsZero() && r.EffectiveUntil.Before(to) {
		end = r.EffectiveUntil
	}
	if !from.Before(end) {
		end = from.Add(1)
	}
	calendar := calendar.Calendar{Unit: calendar.Month, Zone: zone}
	starts, ok := calendar.Starts(from, end, settlement.MaxMonths)
	if !ok {
		return nil, settlement.ErrMonths
	}
	for _, at := range starts {
		if next := calendar.Next(at); at.Year() >= 1970 && !next.After(to) && r.InForce(at, next) {
			list = append(list, settlement.Month{From: canonical.Moment{Time: at.UTC()}, Month: at.Format("2006-01"), TimeZone: r.TimeZone, To: canonical.Moment{Time: next.UTC()}})
		}
	}
	return list, nil
}
