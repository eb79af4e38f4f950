package verify

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// keptReceipt is what a pack keeps of a metered receipt for statements. There may be millions.
type keptReceipt struct {
	id           ulid.ULID
	renderedAt   int64 // in milliseconds
	quantityMs   int64
	impressions  int64
	entry, names uint32 // in the pack, and among its names
}

// receiptNames are the values of receipts that rules may match.
type receiptNames struct{ rightID, basisID, substrate, meteringBasis, completion string }

// keepReceipts keeps the receipts of the periods of statements: what these say of them, and the disputes
// that name them, are mostly later in the log.
func (c *packCheck) keepReceipts() {
	statements := slices.DeleteFunc(slices.Clone(c.statements[c.header.TenantID]), func(s *statementFile) bool { return !s.authentic })
	places := make(map[receiptNames]uint32)
	for i := range c.ledger.Rated {
		r := &c.ledger.Rated[i]
		if !slices.ContainsFunc(statements, func(s *statementFile) bool { return s.covers(r.RenderedAt) }) {
			continue
		}
		n := receiptNames{r.Row.RightID, r.Row.BasisID, r.Row.Substrate, r.Row.MeteringBasis, r.Completion}
		place, known := places[n]
		if !known {
			place = uint32(len(c.names))
			places[n], c.names = place, append(c.names, n)
		}
		c.receipts = append(c.receipts, keptReceipt{r.ID, r.RenderedAt, r.QuantityMs, r.Impressions, r.Entry, place})
	}
}

// covers reports whether the statement depends on the receipts of a moment, in milliseconds.
func (s *statementFile) covers(at int64) bool {
	return s.said.Since.UnixMilli() <= at && at < s.said.To.UnixMilli()
}

// rulesAt returns the rules that a log holds at a size; not ok if the given packs don't show them.
func (v *verification) rulesAt(tenantID string, size uint64) (rules []settlement.Rule, ok bool) {
	if size == 0 {
		return nil, true
	}
	for _, p := range v.packs[tenantID] {
		c := p.report.pack
		if c == nil || c.header == nil || !p.report.ok() || c.header.FirstIndex >= size || c.header.TreeSize < size {
			continue
		}
		if c.header.TreeSize == size {
			return c.header.Rules(), true
		}
		before, ok := v.rulesAt(tenantID, c.header.FirstIndex)
		return settlement.RulesAt(size, before, c.conduct.rules), ok
	}
	return nil, false
}

// terms are those after the given statements, which were issued in that order, with the rules that the log
// holds at an end; nil if the given packs don't show the rules of all.
func (s *statementFile) terms(v *verification, issued []statementIssued, at *statement.PackRef) (*statement.Terms, error) {
	missing := func(size uint64, of string) (*statement.Terms, error) {
		s.say(StatementUnproven, "no given packs hold the rules at %d events, up to which %s states: the receipts can't be rated", size, of)
		return nil, nil
	}
	own, ok := v.rulesAt(s.said.TenantID, at.TreeSize)
	if !ok {
		return missing(at.TreeSize, s.said.StatementID)
	}
	var issues []statement.Issue
	rules := make(map[uint64][]settlement.Rule)
	for _, e := range issued {
		if rules[e.TreeSize] == nil {
			if rules[e.TreeSize], ok = v.rulesAt(s.said.TenantID, e.TreeSize); !ok {
				return missing(e.TreeSize, e.id)
			}
		}
		issues = append(issues, statement.Issue{
			Of: e.first(), Voids: e.VoidReason != nil, From: e.From, To: e.To, Currency: e.Currency, CounterpartyID: e.CounterpartyID, TreeSize: e.TreeSize, Rules: rules[e.TreeSize],
		})
	}
	return statement.NewTerms(v.rating, issues, own)
}

// recompute computes the statement from the packs. before are the events of the statements with which
// its period overlaps, previous is what it corrects, nil if that is not at hand.
func (s *statementFile) recompute(v *verification, before []statementIssued, previous *statement.Statement) {
	if v.rating.Rate == nil || v.rating.Adjust == nil || v.rating.Precedence == nil || v.rating.Months == nil {
		s.say(StatementAmount, "there are settlement rules, but no Rate was given")
		return
	}
	now, err := s.terms(v, before, &s.said.AsOf)
	then := now
	if c := s.said.Correction; c != nil && now != nil && err == nil {
		corrected := slices.IndexFunc(before, func(e statementIssued) bool { return e.id == c.Previous.StatementID })
		then, err = s.terms(v, before[:corrected], &c.Previous.AsOf)
	}
	if err != nil {
		s.say(StatementAmount, "%v", err)
		return
	}
	if now == nil || then == nil || !s.months(v, now, then, previous) {
		return
	}
	all, whole := s.receipts(now, then)
	if !s.scopes(v, now, all) {
		return
	}
	if !whole {
		s.say(StatementUnproven, "the given packs do not hold all of the log from %s up to pack %s: its receipts can't be counted", canonical.FormatTime(s.said.Since.Time), s.said.AsOf.PackID)
		return
	}
	computed := s.said
	if err := all.settle(v.rating, now, &computed); err != nil {
		s.say(StatementAmount, "%v", err)
		return
	}
	if code, message := differsFrom(&s.said, &computed); code != "" {
		s.say(code, "%s", message)
		return
	}
	if s.said.Correction != nil && !s.recorrect(v, then, now, all, previous, &computed) {
		return
	}
	var receipts int64
	for _, l := range computed.Lines {
		receipts += l.Receipts
	}
	s.say(StatementOK, "%s recomputed from %s: %s, total %s %s, held %s", count(len(computed.Lines), "line"), count(all.packs, "pack"),
		count(int(receipts), "receipt"), computed.Total, computed.Currency, computed.HeldAmount)
}

// months reports whether the statement's months, and since when it counts, are what its rules make of them,
// and finds those of the statement that it corrects.
func (s *statementFile) months(v *verification, now, then *statement.Terms, previous *statement.Statement) bool {
	computed, around, before := s.said, s.said, s.said
	around.From.Time, around.To.Time = s.said.From.Add(-zonesApart), s.said.To.Add(zonesApart)
	err := errors.Join(computed.Reach(v.rating, now), around.Reach(v.rating, now), before.Reach(v.rating, then))
	since := computed.Since
	if previous != nil {
		before.Months = previous.Months
		if previous.Since.Before(since.Time) {
			since = previous.Since
		}
	}
	s.monthsBefore = before.Months
	if fault := s.local(); fault != "" {
		s.say(StatementUnproven, "%s", fault)
		return false
	}
	switch {
	case errors.Is(err, settlement.ErrTimeZone):
		s.say(StatementUnproven, "%v: its months can't be judged", err)
	case err != nil:
		s.say(StatementRule, "%v", err)
	case s.moved(around.Months):
		s.say(StatementUnproven, "its months begin or end at other moments than by the time zones that this machine knows: %v, the statement says %v", computed.Months, s.said.Months)
	case !slices.EqualFunc(s.said.Months, computed.Months, func(a, b settlement.Month) bool {
		return sameMonth(a, b) && a.From.Equal(b.From.Time) && a.To.Equal(b.To.Time)
	}):
		s.say(StatementRule, "its rules adjust the months %v, the statement says %v", computed.Months, s.said.Months)
	case !s.said.Since.Equal(since.Time) && (s.said.Correction == nil || previous != nil || since.Before(s.said.Since.Time)):
		s.say(StatementRule, "it has to count since %s, and says %s", canonical.FormatTime(since.Time), canonical.FormatTime(s.said.Since.Time))
	default:
		return true
	}
	return false
}

// local describes what contradicts the local times of the period, by the time zones that this machine knows;
// empty if nothing does.
func (s *statementFile) local() string {
	zone, err := time.LoadLocation(s.said.TimeZone)
	if err != nil {
		return fmt.Sprintf("the time zone %q of its dates is not known here", s.said.TimeZone)
	}
	if computed := s.said; computed.Local(zone) != nil || computed.LocalFrom != s.said.LocalFrom || computed.LocalTo != s.said.LocalTo {
		return fmt.Sprintf("in %s, as this machine knows it, its period is %s to %s; it says %s to %s", s.said.TimeZone, computed.LocalFrom, computed.LocalTo, s.said.LocalFrom, s.said.LocalTo)
	}
	return ""
}

// zonesApart is more than the rules of a time zone change.
const zonesApart = 26 * time.Hour

// moved reports whether a month of the statement begins or ends otherwise than in others, which are by the time
// zones that this machine knows, and by no more than the rules of zones change.
func (s *statementFile) moved(known []settlement.Month) bool {
	return slices.ContainsFunc(s.said.Months, func(m settlement.Month) bool {
		i := slices.IndexFunc(known, func(k settlement.Month) bool { return sameMonth(k, m) })
		if i < 0 {
			return false
		}
		begin, end := m.From.Sub(known[i].From.Time).Abs(), m.To.Sub(known[i].To.Time).Abs()
		return begin+end > 0 && begin < zonesApart && end < zonesApart
	})
}

func sameMonth(a, b settlement.Month) bool {
	return a.Month == b.Month && a.TimeZone == b.TimeZone
}

// clocksApart is far more than the clocks of nodes differ: a pack that was sealed that long before
// a moment holds no receipt from after it.
const clocksApart = time.Hour

// statedReceipts are the receipts of a statement: sums over those that no terms distinguish.
type statedReceipts struct {
	free, held []settlement.Metered
	packs      int
}

// statedKey is what the receipts of one sum have in common: behind how many edges and ends they are.
type statedKey struct {
	receiptNames
	edge, end int
	held      bool
}

// settle computes statements about the receipts.
func (c statedReceipts) settle(by settlement.Rating, t *statement.Terms, s *statement.Statement) error {
	return statement.Settle(by, t, slices.Values(c.free), slices.Values(c.held), s)
}

// below returns the receipts below a leaf, which must be an end of the terms.
func (c statedReceipts) below(leaf uint64) statedReceipts {
	behind := func(m settlement.Metered) bool { return m.Leaf >= leaf }
	return statedReceipts{slices.DeleteFunc(slices.Clone(c.free), behind), slices.DeleteFunc(slices.Clone(c.held), behind), c.packs}
}

// receipts adds up the packs up to the end of the log that is stated, if all are there that can hold a
// receipt of the period: no receipt is sealed before it is rendered.
func (s *statementFile) receipts(terms ...*statement.Terms) (all statedReceipts, whole bool) {
	var edges []int64
	var ends []uint64
	moments := s.said.Edges()
	for _, m := range s.monthsBefore {
		moments = append(moments, m.From.Time, m.To.Time)
	}
	for _, t := range terms {
		moments, ends = append(moments, t.Edges()...), append(ends, t.Ends()...)
	}
	for _, at := range moments {
		edges = append(edges, at.UnixMilli())
	}
	slices.Sort(edges)
	slices.Sort(ends)
	sums, rights := make(map[statedKey]*settlement.Metered), make(map[string]*settlement.Right)
	for i := range s.said.Rights {
		rights[s.said.Rights[i].RightID] = &s.said.Rights[i]
	}
	next := s.said.AsOf.TreeSize
	for _, c := range slices.Backward(s.packs) {
		h := c.header
		if c.failed() || h.TreeSize != next {
			continue
		}
		if h.SealedAt.Add(clocksApart).Before(s.said.Since.Time) {
			next = 0
			break
		}
		all.packs++
		for i := range c.receipts {
			s.count(sums, c, &c.receipts[i], edges, ends)
		}
		next = h.FirstIndex
	}
	for k, sum := range sums {
		sum.Right = rights[k.rightID]
		if k.held {
			all.held = append(all.held, *sum)
		} else {
			all.free = append(all.free, *sum)
		}
	}
	return all, next == 0
}

// count adds a receipt to the sum of those like it.
func (s *statementFile) count(sums map[statedKey]*settlement.Metered, c *packCheck, r *keptReceipt, edges []int64, ends []uint64) {
	n := &c.names[r.names]
	if !s.covers(r.renderedAt) {
		return
	}
	state := s.out.state(r, n.rightID)
	if state == statement.ExclusionUpheld {
		return
	}
	leaf := c.header.FirstIndex + uint64(r.entry)
	edge, _ := slices.BinarySearch(edges, r.renderedAt+1)
	end, _ := slices.BinarySearch(ends, leaf+1)
	k := statedKey{*n, edge, end, state == statement.ExclusionHeld}
	sum := sums[k]
	if sum == nil {
		sum = &settlement.Metered{
			RightID: n.rightID, BasisID: n.basisID, Substrate: n.substrate, MeteringBasis: n.meteringBasis, Completion: n.completion,
			RenderedAt: time.UnixMilli(r.renderedAt).UTC(), Leaf: leaf,
		}
		sums[k] = sum
	}
	sum.Receipts++
	sum.QuantityMs += r.quantityMs
	sum.Impressions += r.impressions
}

// differsFrom describes the first difference between a statement and what was computed; the code is
// empty if there is none.
func differsFrom(s, computed *statement.Statement) (sealer.Code, string) {
	key := func(l statement.Line) string {
		return strings.Join([]string{l.RightID, l.MeteringBasis, l.RuleID, fmt.Sprint(l.RuleLeaf)}, " ")
	}
	made := make(map[string]statement.Line)
	for _, l := range computed.Lines {
		made[key(l)] = l
	}
	for i, l := range s.Lines {
		c, ok := made[key(l)]
		delete(made, key(l))
		name := fmt.Sprintf("line %d (right %s, metering basis %s, rule %s of leaf %d)", i, l.RightID, l.MeteringBasis, l.RuleID, l.RuleLeaf)
		switch {
		case !ok:
			return StatementReceipts, name + ": the packs hold no receipts for it"
		case l.Unit != c.Unit || l.Price != c.Price:
			return StatementRule, fmt.Sprintf("%s: the rule is %s a %s, the statement says %s a %s", name, c.Price, c.Unit, l.Price, l.Unit)
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
	case !slices.EqualFunc(s.Rights, computed.Rights, settlement.SameRight):
		return StatementRule, fmt.Sprintf("its rules name %v of the rights of its receipts, the statement says %v", computed.Rights, s.Rights)
	case !slices.EqualFunc(s.Adjustments, computed.Adjustments, func(a, b statement.Adjustment) bool {
		return a.Amount == b.Amount && a.Month == b.Month && a.TimeZone == b.TimeZone && a.Reason == b.Reason && a.RuleID == b.RuleID && a.RuleLeaf == b.RuleLeaf && slices.Equal(a.Shares, b.Shares)
	}):
		return StatementRule, fmt.Sprintf("tiers, minimums and caps make %v, the statement says %v", computed.Adjustments, s.Adjustments)
	case !slices.Equal(s.Unrated, computed.Unrated):
		return StatementReceipts, fmt.Sprintf("%v are unrated, the statement says %v", computed.Unrated, s.Unrated)
	case !slices.Equal(s.Payees, computed.Payees), s.Total != computed.Total:
		return StatementTotal, fmt.Sprintf("the payees get %v, %s in all; the statement says %v, %s", computed.Payees, computed.Total, s.Payees, s.Total)
	case s.HeldAmount != computed.HeldAmount:
		return StatementTotal, fmt.Sprintf("%s is held, the statement says %s", computed.HeldAmount, s.HeldAmount)
	}
	return "", ""
}
