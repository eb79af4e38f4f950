// Package rate computes amounts from metered receipts and settlement rules. A rate is what a rule asks
// for each receipt, each impression or a time shown: a price in a currency, and how it is shared among
// counterparties. The package is pure: its results depend on its arguments alone, so anyone who holds a
// proof pack computes the same amounts, at any time and in any language.
//
//   - A rule fits a receipt if the receipt has every value that the rule's match names (right,
//     basis, a campaign and a label of the right's scope, substrate, metering basis, completion),
//     and effectiveFrom ≤ renderedAt < effectiveUntil. The times at which the receipt was issued and the rule was made don't matter,
//     nor does the rule's state: retiring a rule ends its window. A rule that is retired before it
//     begins has an empty window, effectiveUntil = effectiveFrom: it fits nothing, and bounds nothing.
//   - If several rules fit, the one with the highest priority rates the receipt. Among equal
//     priorities, a rule that names the right precedes one that doesn't; then the same holds for
//     the basis, the campaign, the label, the substrate, the metering basis and the completion; the
//     lowest id decides last.
//   - A line is the amount of one rule for the receipts of one right and one metering basis: the
//     price times the receipts, the quantity or the impressions. It is rounded once, to the
//     micro-unit, half to even, so the grouping of receipts into lines favours no party.
//   - The shares of a line sum to the line exactly: each is rounded down, and the remaining
//     micro-units go to the largest remainders, one each; among equal remainders to the lowest
//     counterparty id.
//   - A rule's tiers, minimum and cap change no line. They change the sum of the rule's lines in a
//     calendar month of its time zone: Adjust.
//   - Receipts that no rule rates are unrated, with the reason, so lines and unrated together hold
//     every receipt. A line that doesn't fit in Money is unrated too: an absurd price must not stop
//     receipts from being sealed.
//
// The caller decides which receipts are metered: it passes neither duplicates nor suppressed
// deliveries. Nothing here adds lines of several rules, whose currencies may differ.
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

// Metered is one metered receipt, or the sums of several with the same names. Since a line is
// rounded once, both give the same amount.
type Metered struct {
	RightID, BasisID, Substrate, MeteringBasis, Completion string
	// Campaigns and Labels are those of the right's scope, or what the rules name of them. They are the
	// same for all receipts of a right.
	Campaigns []string
	Labels    map[string]string
	// RenderedAt is the time of rendering. For sums it is any moment of a period that contains all
	// their receipts and in which no rule begins or ends.
	RenderedAt time.Time
	// Receipts are at least 1.
	Receipts int64
	// QuantityMs and Impressions, in ten-thousandths, are not negative.
	QuantityMs, Impressions int64
}

func (m *Metered) sums() Sums { return Sums{m.Receipts, m.QuantityMs, m.Impressions} }

// Line is the amount of one rule for the receipts of one right and metering basis.
type Line struct {
	RuleID, RightID, MeteringBasis    string
	Receipts, QuantityMs, Impressions int64
	Amount                            Money
	// Shares divides Amount in the order of the rule's Shares.
	Shares []Money
}

// Unrated counts receipts that are in no line.
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
	// TooLarge: the line's amount doesn't fit in Money.
	TooLarge = "AMOUNT_TOO_LARGE"
)

// Settlement is the result of rating receipts.
type Settlement struct {
	// Lines are sorted by right, metering basis and rule, byte by byte.
	Lines []Line
	// Unrated are sorted by right, metering basis and reason.
	Unrated []Unrated
}

// Rate rates metered receipts, in any order. It fails if two rules have one id, if Check refuses a
// rule, if sums are negative or of no receipt, and with ErrOverflow if the sums of a line overflow.
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

// group identifies a line, or a count of unrated receipts.
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

// settled makes each group a line, or counts it as unrated.
func settled(groups map[group]*Sums) (s Settlement, err error) {
	type place struct{ rightID, meteringBasis, reason string }
	unrated := map[place]*Sums{}
	for g, t := range groups {
		reason := NoRule
		if g.rule != nil {
			amount, err := g.rule.Amount(*t)
			if err == nil {
				s.Lines = append(s.Lines, Line{g.rule.ID, g.rightID, g.meteringBasis, t.Receipts, t.QuantityMs, t.Impressions, amount, g.rule.Split(amount)})
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

// names are the values that a rule's match may name.
type names struct{ right, basis, substrate, metering, completion string }

// NewPrecedence fails on two rules of one id, and on a rule that Check refuses.
func NewPrecedence(rules []Rule) (*Precedence, error) {
	ordered, err := byPrecedence(rules)
	return &Precedence{ordered, map[names][]*Rule{}}, err
}

// Of returns the rule that rates m, or nil if none does.
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

// byPrecedence sorts the rules: the first one that fits a receipt rates it.
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

// ErrOverflow means that a number doesn't fit in its type.
var ErrOverflow = errors.New("the number is too large")
