// Package rate turns metered receipts and settlement rules into amounts. It is pure:
// what it returns follows from its arguments alone, so that a holder of a proof pack
// computes the same amounts, at any time and in any language.
//
//   - A rule fits a receipt if every name that it gives is the receipt's (right, basis,
//     substrate, metering basis, completion), and effectiveFrom ≤ renderedAt < effectiveUntil. When
//     the receipt was issued, or the rule was made, says nothing; nor does the rule's
//     state: retiring a rule ends its window.
//   - Of several rules that fit, the one of the highest priority rates the receipt. Of
//     those, one that names the right goes before one that does not; then one that names
//     the basis, the substrate, the metering basis, the completion; and then the one with
//     the lowest id.
//   - A line is what one rule makes of one right's receipts of one metering basis: the
//     price times the receipts, the quantity or the impressions. It is rounded once, to the
//     micro-unit, half to even, so that how receipts fall into lines favours no party.
//   - The shares of a line add up to it to the last micro-unit: each is rounded down, and
//     the units that are left go to the largest remainders, one each; of equal ones to the
//     lowest counterparty id.
//   - A rule's minimum and cap change no line. They are for the sum of its lines in what
//     is billed at once: Adjust.
//   - Whatever no rule rates is unrated, with the reason: so lines and unrated together
//     hold every receipt that was given. A line of more than Money holds is unrated, too.
//     A price that makes no sense must not keep receipts from being sealed.
//
// What is metered is decided by the caller: duplicates and suppressed deliveries are not
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

// Metered is what is rated: one metered receipt, or the sums of several with the same names.
// As a line is rounded once, both give the same amount.
type Metered struct {
	RightID, BasisID, Substrate, MeteringBasis, Completion string
	// RenderedAt is when it was rendered; of several, any moment of a period that holds all of
	// them, and in which no rule begins or ends.
	RenderedAt time.Time
	// Receipts are at least 1.
	Receipts int64
	// QuantityMs and Impressions, in ten-thousandths, are not negative.
	QuantityMs, Impressions int64
}

func (m *Metered) sums() Sums { return Sums{m.Receipts, m.QuantityMs, m.Impressions} }

// Line is what one rule makes of the receipts of one right and metering basis.
type Line struct {
	RuleID, RightID, MeteringBasis    string
	Receipts, QuantityMs, Impressions int64
	Amount                            Money
	// Shares are those of the rule's Shares, in their order.
	Shares []Money
}

// Unrated counts receipts that no line holds.
type Unrated struct {
	RightID, MeteringBasis string
	// Reason is NoRule or TooLarge.
	Reason                            string
	Receipts, QuantityMs, Impressions int64
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

// Rate rates what was metered, in whatever order it comes. It fails, as nothing can be said
// then, on two rules of one id, on a rule that Check refuses, on sums of no receipt or below
// zero, and with ErrOverflow if a line's sums can't be added up.
func Rate(rules []Rule, metered iter.Seq[Metered]) (Settlement, error) {
	s, err := settle(rules, metered)
	if err != nil {
		return Settlement{}, fmt.Errorf("cannot rate: %w", err)
	}
	return s, nil
}

func settle(rules []Rule, metered iter.Seq[Metered]) (s Settlement, err error) {
	precedence, err := NewPrecedence(rules)
	if err != nil {
		return s, err
	}
	groups := map[group]*Sums{}
	for m := range metered {
		g := group{precedence.Of(&m), m.RightID, m.MeteringBasis}
		if m.Receipts < 1 || m.QuantityMs < 0 || m.Impressions < 0 {
			return s, fmt.Errorf("%d receipts of %d ms and %d ten-thousandths of impressions", m.Receipts, m.QuantityMs, m.Impressions)
		}
		if err := count(groups, g, m.sums()); err != nil {
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

// count adds to the sums of k.
func count[K comparable](sums map[K]*Sums, k K, more Sums) error {
	s := sums[k]
	if s == nil {
		s = new(Sums)
		sums[k] = s
	}
	if !s.add(more) {
		return ErrOverflow
	}
	return nil
}

// settled makes a line of each group, or counts it as unrated.
func settled(groups map[group]*Sums) (s Settlement, err error) {
	type place struct{ rightID, meteringBasis, reason string }
	unrated := map[place]*Sums{}
	for g, t := range groups {
		reason := NoRule
		if g.rule != nil {
			amount, err := g.rule.Amount(*t)
			if err == nil {
				s.Lines = append(s.Lines, Line{g.rule.ID, g.rightID, g.meteringBasis, t.Receipts, t.QuantityMs, t.Impressions, amount, g.rule.split(amount)})
				continue
			}
			reason = TooLarge
		}
		if err := count(unrated, place{g.rightID, g.meteringBasis, reason}, *t); err != nil {
			return s, err
		}
	}
	for p, t := range unrated {
		s.Unrated = append(s.Unrated, Unrated{p.rightID, p.meteringBasis, p.reason, t.Receipts, t.QuantityMs, t.Impressions})
	}
	slices.SortFunc(s.Lines, func(a, b Line) int {
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.RuleID, b.RuleID))
	})
	slices.SortFunc(s.Unrated, func(a, b Unrated) int {
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.Reason, b.Reason))
	})
	return s, nil
}

// Precedence finds the rule that rates a receipt. It belongs to one goroutine.
type Precedence struct {
	ordered []*Rule
	fitting map[names][]*Rule
}

// names are what a rule's match asks for.
type names struct{ right, basis, substrate, metering, completion string }

// NewPrecedence fails on two rules of one id, and on a rule that Check refuses.
func NewPrecedence(rules []Rule) (*Precedence, error) {
	ordered, err := byPrecedence(rules)
	return &Precedence{ordered, map[names][]*Rule{}}, err
}

// Of is the rule that rates what was metered; nil if none does.
func (p *Precedence) Of(m *Metered) *Rule {
	n := names{m.RightID, m.BasisID, m.Substrate, m.MeteringBasis, m.Completion}
	candidates, known := p.fitting[n]
	if !known {
		for _, rule := range p.ordered {
			if rule.Match.fits(m) {
				candidates = append(candidates, rule)
			}
		}
		p.fitting[n] = candidates
	}
	if i := slices.IndexFunc(candidates, func(rule *Rule) bool { return rule.in(m.RenderedAt) }); i >= 0 {
		return candidates[i]
	}
	return nil
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
