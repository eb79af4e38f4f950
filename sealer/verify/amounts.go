package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muniment/sealer"
)

// stated is what rating needs to know of receipts; at is the place of renderedAt among the edges.
type stated struct {
	rightID, basisID, substrate, meteringBasis, completion string
	at                                                     int
	held                                                   bool
}

type statedSum struct{ receipts, quantityMs, impressions int64 }

// take counts what a pack has of the period. What its key has not signed names no pack (prepare).
func (s *statementFile) take(c *packCheck) {
	if s.named == nil || s.priced == nil || c.header.TreeSize > s.said.AsOf.TreeSize {
		return
	}
	part := &statementPart{pack: c, counts: make(map[stated]*statedSum)}
	s.parts = append(s.parts, part)
	from, to := s.said.From.UnixMilli(), s.said.To.UnixMilli()
	for i := range c.ledger.Rated {
		r := &c.ledger.Rated[i]
		if r.RenderedAt < from || r.RenderedAt >= to {
			continue
		}
		state := s.out.state(r)
		if state == sealer.ExclusionUpheld {
			continue
		}
		at, found := slices.BinarySearch(s.edges, r.RenderedAt)
		if found {
			at++
		}
		k := stated{r.Row.RightID, r.Row.BasisID, r.Row.Substrate, r.Row.MeteringBasis, r.Completion, at, state == sealer.ExclusionHeld}
		sum := part.counts[k]
		if sum == nil {
			sum = new(statedSum)
			part.counts[k] = sum
		}
		sum.receipts++
		sum.quantityMs += r.QuantityMs
		sum.impressions += r.Impressions
	}
}

// recompute computes the statement from the packs. previous is what it corrects, nil if that is not
// at hand.
func (s *statementFile) recompute(v *verification, previous *sealer.Statement) {
	counts, whole := s.counts(s.said.AsOf.TreeSize)
	if !whole {
		s.pass(StatementUnproven, "the given packs do not hold all of the log from %s up to pack %s: its receipts can't be counted", sealer.FormatTime(s.said.From.Time), s.said.AsOf.PackID)
		return
	}
	if v.rating.Rate == nil || v.rating.Adjust == nil {
		s.fail(StatementAmount, "there are settlement rules, but no Rate was given")
		return
	}
	computed := s.said
	err := sealer.Settle(v.rating, s.rules, s.metered(counts, false), s.metered(counts, true), &computed)
	if err != nil {
		s.fail(StatementAmount, "%v", err)
		return
	}
	if code, message := differsFrom(&s.said, &computed); code != "" {
		s.fail(code, "%s", message)
		return
	}
	if s.said.Correction != nil && !s.recorrect(v, previous, &computed) {
		return
	}
	var receipts int64
	for _, l := range computed.Lines {
		receipts += l.Receipts
	}
	s.pass(StatementOK, "%s recomputed from %s: %s, total %s %s, held %s", count(len(computed.Lines), "line"), count(len(s.parts), "pack"),
		count(int(receipts), "receipt"), computed.Total, computed.Currency, computed.HeldAmount)
}

// clocksApart is far more than the clocks of nodes differ: a pack that was sealed that long before
// a moment holds no receipt from after it.
const clocksApart = time.Hour

// counts adds up the packs up to a size of the log, if all are there that can hold a receipt of
// the period: no receipt is sealed before it is rendered.
func (s *statementFile) counts(size uint64) (sum map[stated]*statedSum, whole bool) {
	sum = make(map[stated]*statedSum)
	next := size
	slices.SortFunc(s.parts, func(a, b *statementPart) int { return cmp.Compare(a.pack.header.TreeSize, b.pack.header.TreeSize) })
	for _, p := range slices.Backward(s.parts) {
		h := p.pack.header
		if p.pack.failed() || h.TreeSize != next {
			continue
		}
		if h.SealedAt.Add(clocksApart).Before(s.said.From.Time) {
			return sum, true
		}
		for k, one := range p.counts {
			if sum[k] == nil {
				sum[k] = new(statedSum)
			}
			sum[k].receipts += one.receipts
			sum[k].quantityMs += one.quantityMs
			sum[k].impressions += one.impressions
		}
		next = h.FirstIndex
	}
	return sum, next == 0
}

// metered are the counts as rating takes them: those that are held, or the others.
func (s *statementFile) metered(counts map[stated]*statedSum, held bool) func(yield func(sealer.Metered) bool) {
	return func(yield func(sealer.Metered) bool) {
		for k, sum := range counts {
			at := s.said.From.Time
			if k.at > 0 {
				at = time.UnixMilli(max(s.edges[k.at-1], s.said.From.UnixMilli())).UTC()
			}
			m := sealer.Metered{
				RightID: k.rightID, BasisID: k.basisID, Substrate: k.substrate, MeteringBasis: k.meteringBasis, Completion: k.completion, RenderedAt: at,
				Receipts: sum.receipts, QuantityMs: sum.quantityMs, Impressions: sum.impressions,
			}
			if k.held == held && !yield(m) {
				return
			}
		}
	}
}

// differsFrom describes the first difference between a statement and what was computed; the code is
// empty if there is none.
func differsFrom(s, computed *sealer.Statement) (sealer.Code, string) {
	key := func(l sealer.StatementLine) string {
		return strings.Join([]string{l.RightID, l.MeteringBasis, l.RuleID}, " ")
	}
	made := make(map[string]sealer.StatementLine)
	for _, l := range computed.Lines {
		made[key(l)] = l
	}
	for i, l := range s.Lines {
		c, ok := made[key(l)]
		delete(made, key(l))
		name := fmt.Sprintf("line %d (right %s, metering basis %s, rule %s)", i, l.RightID, l.MeteringBasis, l.RuleID)
		switch {
		case !ok:
			return StatementReceipts, name + ": the packs hold no receipts for it"
		case l.RuleLeaf != c.RuleLeaf || l.Unit != c.Unit || l.Price != c.Price:
			return StatementRule, fmt.Sprintf("%s: by leaf %d the rule is %s a %s, the statement says %s a %s of leaf %d", name, c.RuleLeaf, c.Price, c.Unit, l.Price, l.Unit, l.RuleLeaf)
		case l.Receipts != c.Receipts || l.QuantityMs != c.QuantityMs || l.Impressions != c.Impressions:
			return StatementReceipts, fmt.Sprintf("%s: the packs hold %d receipts, %d ms, %s impressions; the statement says %d, %d, %s",
				name, c.Receipts, c.QuantityMs, c.Impressions, l.Receipts, l.QuantityMs, l.Impressions)
		case l.Amount != c.Amount:
			return StatementAmount, fmt.Sprintf("%s: the amount is %s, the statement says %s", name, c.Amount, l.Amount)
		case !slices.Equal(l.Shares, c.Shares):
			return StatementShares, fmt.Sprintf("%s: the shares are %v, the statement says %v", name, c.Shares, l.Shares)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		return StatementReceipts, "the statement lacks the line of " + name
	}
	switch {
	case !slices.EqualFunc(s.Adjustments, computed.Adjustments, func(a, b sealer.StatementAdjustment) bool {
		return a.Amount == b.Amount && a.Reason == b.Reason && a.RuleID == b.RuleID && a.RuleLeaf == b.RuleLeaf && slices.Equal(a.Shares, b.Shares)
	}):
		return StatementRule, fmt.Sprintf("minimums and caps make %v, the statement says %v", computed.Adjustments, s.Adjustments)
	case !slices.Equal(s.Unrated, computed.Unrated):
		return StatementReceipts, fmt.Sprintf("%v are unrated, the statement says %v", computed.Unrated, s.Unrated)
	case !slices.Equal(s.Payees, computed.Payees), s.Total != computed.Total:
		return StatementTotal, fmt.Sprintf("the payees get %v, %s in all; the statement says %v, %s", computed.Payees, computed.Total, s.Payees, s.Total)
	case s.HeldAmount != computed.HeldAmount:
		return StatementTotal, fmt.Sprintf("%s is held, the statement says %s", computed.HeldAmount, s.HeldAmount)
	}
	return "", ""
}
