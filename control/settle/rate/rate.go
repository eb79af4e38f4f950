// Package rate turns metered receipts and settlement rules into amounts. It is pure:
// what it returns follows from its arguments alone, so that whoever holds a proof pack
// comes to the same amounts, at any time and in any language.
//
//   - A rule fits a receipt if every name that it gives is the receipt's (right, basis,
//     substrate, metering basis), and effectiveFrom ≤ renderedAt < effectiveUntil. When
//     the receipt was issued, or the rule was made, says nothing; nor does the rule's
//     state: retiring a rule ends its window.
//   - Of several rules that fit, the one of the highest priority rates the receipt. Of
//     those, one that names the right goes before one that does not; then one that names
//     the basis, the substrate, the metering basis; and then the one with the lowest id.
//   - A line is what one rule makes of one right's receipts of one metering basis: the
//     price times the receipts, or times the quantity. It is rounded once, to the
//     micro-unit, half to even, so that how receipts fall into lines favours nobody.
//   - The shares of a line add up to it to the last micro-unit: each is rounded down, and
//     the units that are left go to the largest remainders, one each; of equal ones to the
//     lowest counterparty id.
//   - Whatever no rule rates is unrated, with the reason: so lines and unrated together
//     hold every receipt that was given. A line of more than Money holds is unrated, too.
//     A price that makes no sense must not keep receipts from being sealed.
//
// What is metered is decided by who asks: duplicates and suppressed deliveries are not
// handed in. Nothing here adds up lines of several rules, which may be of several
// currencies.
package rate

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Receipt is what is rated of a metered receipt.
type Receipt struct {
	RightID, BasisID, Substrate, MeteringBasis string
	RenderedAt                                 time.Time
	// QuantityMs is not negative.
	QuantityMs int64
}

// Line is what one rule makes of the receipts of one right and metering basis.
type Line struct {
	RuleID, RightID, MeteringBasis string
	Receipts, QuantityMs           int64
	Amount                         Money
	// Shares are those of the rule's Shares, in their order.
	Shares []Money
}

// Unrated counts receipts that no line holds.
type Unrated struct {
	RightID, MeteringBasis string
	// Reason is NoRule or TooLarge.
	Reason               string
	Receipts, QuantityMs int64
}

// The reasons why receipts are unrated.
const (
	// NoRule: no rule fits.
	NoRule = "NO_RULE"
	// TooLarge: the line's amount is more than Money holds.
	TooLarge = "AMOUNT_TOO_LARGE"
)

// Settlement is what rules make of receipts.
type Settlement struct {
	// Lines are sorted by right, metering basis and rule, byte by byte.
	Lines []Line
	// Unrated are sorted by right, metering basis and reason.
	Unrated []Unrated
}

// Rate rates receipts, in whatever order they come. It fails, as nothing can be said
// then, on two rules of one id, on a rule that Check refuses, on a negative quantity,
// and with ErrOverflow if a line's quantities can't be added up.
func Rate(rules []Rule, receipts iter.Seq[Receipt]) (Settlement, error) {
	s, err := settle(rules, receipts)
	if err != nil {
		return Settlement{}, fmt.Errorf("cannot rate: %w", err)
	}
	return s, nil
}

func settle(rules []Rule, receipts iter.Seq[Receipt]) (s Settlement, err error) {
	ordered, err := byPrecedence(rules)
	if err != nil {
		return s, err
	}
	type names struct{ right, basis, substrate, metering string }
	fitting := map[names][]*Rule{}
	groups := map[group]*tally{}
	for r := range receipts {
		n := names{r.RightID, r.BasisID, r.Substrate, r.MeteringBasis}
		candidates, known := fitting[n]
		if !known {
			for _, rule := range ordered {
				if rule.Match.fits(&r) {
					candidates = append(candidates, rule)
				}
			}
			fitting[n] = candidates
		}
		g := group{rightID: r.RightID, meteringBasis: r.MeteringBasis}
		if i := slices.IndexFunc(candidates, func(rule *Rule) bool { return rule.in(r.RenderedAt) }); i >= 0 {
			g.rule = candidates[i]
		}
		if r.QuantityMs < 0 {
			return s, fmt.Errorf("a quantity of %d ms", r.QuantityMs)
		}
		if err := count(groups, g, tally{1, r.QuantityMs}); err != nil {
			return s, err
		}
	}
	return settled(groups)
}

// group is what a line or a count is of.
type group struct {
	rule                   *Rule // nil: none fits
	rightID, meteringBasis string
}

type tally struct{ receipts, quantityMs int64 }

// count adds to the tally of k.
func count[K comparable](tallies map[K]*tally, k K, more tally) error {
	t := tallies[k]
	if t == nil {
		t = new(tally)
		tallies[k] = t
	}
	t.receipts += more.receipts
	if t.quantityMs += more.quantityMs; t.quantityMs < 0 {
		return ErrOverflow
	}
	return nil
}

// settled makes a line of each group, or counts it as unrated.
func settled(groups map[group]*tally) (s Settlement, err error) {
	type place struct{ rightID, meteringBasis, reason string }
	unrated := map[place]*tally{}
	for g, t := range groups {
		reason := NoRule
		if g.rule != nil {
			amount, err := g.rule.Amount(t.receipts, t.quantityMs)
			if err == nil {
				s.Lines = append(s.Lines, Line{g.rule.ID, g.rightID, g.meteringBasis, t.receipts, t.quantityMs, amount, g.rule.split(amount)})
				continue
			}
			reason = TooLarge
		}
		if err := count(unrated, place{g.rightID, g.meteringBasis, reason}, *t); err != nil {
			return s, err
		}
	}
	for p, t := range unrated {
		s.Unrated = append(s.Unrated, Unrated{p.rightID, p.meteringBasis, p.reason, t.receipts, t.quantityMs})
	}
	slices.SortFunc(s.Lines, func(a, b Line) int {
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.RuleID, b.RuleID))
	})
	slices.SortFunc(s.Unrated, func(a, b Unrated) int {
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.Reason, b.Reason))
	})
	return s, nil
}

// byPrecedence are the rules in the order in which they are asked.
func byPrecedence(rules []Rule) ([]*Rule, error) {
	ordered := make([]*Rule, 0, len(rules))
	ids := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		if err := r.Check(); err != nil {
			return nil, fmt.Errorf("rule %q: %w", r.ID, err)
		}
		if ids[r.ID] {
			return nil, fmt.Errorf("two rules with the id %q", r.ID)
		}
		ids[r.ID] = true
		ordered = append(ordered, r)
	}
	slices.SortFunc(ordered, func(a, b *Rule) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.Match.weight(), a.Match.weight()), strings.Compare(a.ID, b.ID))
	})
	return ordered, nil
}

// ErrOverflow says that a number is larger than its type holds.
var ErrOverflow = errors.New("the number is too large")
