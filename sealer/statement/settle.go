package statement

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/settlement"
)

// Reach sets the statement's Months, by the terms' own rules in its currency in which its counterparty has a
// share, and Since. It returns ErrMonths if they are too many.
func (s *Statement) Reach(by settlement.Rating, terms *Terms) error {
	s.Months, s.Since = []settlement.Month{}, s.From
	for _, r := range terms.own.list {
		if !r.bounds() || !r.pays(s.Currency, s.CounterpartyID) {
			continue
		}
		months, err := by.Months(r.rule, s.From.Time, s.To.Time)
		if err != nil {
			return err
		}
		s.Months = append(s.Months, months...)
	}
	slices.SortFunc(s.Months, compareMonths)
	s.Months = slices.CompactFunc(s.Months, func(a, b settlement.Month) bool { return compareMonths(a, b) == 0 })
	if len(s.Months) > settlement.MaxMonths {
		return settlement.ErrMonths
	}
	for _, m := range s.Months {
		if m.From.Before(s.Since.Time) {
			s.Since = m.From
		}
	}
	return nil
}

func compareMonths(a, b settlement.Month) int {
	return cmp.Or(strings.Compare(a.TimeZone, b.TimeZone), strings.Compare(a.Month, b.Month))
}

// Edges are the moments between which its receipts may not be summed, besides those of Terms; in any order.
func (s *Statement) Edges() []time.Time {
	edges := []time.Time{s.From.Time}
	for _, m := range s.Months {
		edges = append(edges, m.From.Time, m.To.Time)
	}
	return edges
}

// Settle computes lines, adjustments, payees, unrated, total and held amount of statements about
// one period, with the same months, and Rights. The caller has set all else, including the names of payees, and Months
// and Since, see Reach. receipts are those from Since on that are stated, held those that are held; equal
// ones may be summed, see Terms and Edges. It returns ErrAmount if a sum is too large.
func Settle(by settlement.Rating, terms *Terms, receipts, held iter.Seq[settlement.Metered], statements ...*Statement) error {
	if len(statements) == 0 {
		return nil
	}
	stated, err := terms.rateAll(by, receipts, statements[0])
	if err != nil {
		return err
	}
	rights := terms.rights(receipts, held)
	all := stated
	if more := slices.Collect(held); len(more) > 0 {
		if all, err = terms.rateAll(by, slices.Values(slices.AppendSeq(more, receipts)), statements[0]); err != nil {
			return err
		}
	}
	for _, s := range statements {
		s.Rights = rights
		more := *s
		if err = s.settle(by, terms, stated); err == nil {
			err = more.settle(by, terms, all)
		}
		if err != nil {
			return fmt.Errorf("cannot settle the statement %s: %w", s.StatementID, err)
		}
		total, _ := parseMicros(more.Total) // both were just written
		own, _ := parseMicros(s.Total)
		if total, err = addMicros(total, -own); err != nil {
			return err
		}
		s.HeldAmount = formatMicros(total)
	}
	return nil
}

// rights returns what the rules name of the rights of receipts.
func (t *Terms) rights(of ...iter.Seq[settlement.Metered]) []settlement.Right {
	known := make(map[string]settlement.Right)
	for _, receipts := range of {
		for m := range receipts {
			if m.Right != nil {
				known[m.RightID] = *m.Right
			}
		}
	}
	return t.names.Of(slices.Collect(maps.Values(known)))
}

// ratedPeriod are the lines of a period.
type ratedPeriod struct {
	lines   []ratedLine
	unrated []Unrated
	// months are the lines of each month of a statement, by rule.
	months []map[string][]ratedLine
}

// ratedLine is a line with the text that rates it.
type ratedLine struct {
	settlement.Line
	by *ruleText
}

// rateAll rates the receipts of a statement's period, and those of each of its months.
func (t *Terms) rateAll(by settlement.Rating, receipts iter.Seq[settlement.Metered], s *Statement) (r ratedPeriod, err error) {
	within := func(from, to canonical.Moment) iter.Seq[settlement.Metered] {
		return func(yield func(settlement.Metered) bool) {
			for m := range receipts {
				if !m.RenderedAt.Before(from.Time) && m.RenderedAt.Before(to.Time) && !yield(m) {
					return
				}
			}
		}
	}
	if r, err = t.rate(by, within(s.From, s.To)); err != nil {
		return r, err
	}
	for _, month := range s.Months {
		of, err := t.rate(by, within(month.From, month.To))
		if err != nil {
			return r, err
		}
		byRule := make(map[string][]ratedLine)
		for _, l := range of.lines {
			byRule[l.RuleID] = append(byRule[l.RuleID], l)
		}
		r.months = append(r.months, byRule)
	}
	return r, nil
}

// rate rates receipts, those of one text at once.
func (t *Terms) rate(by settlement.Rating, receipts iter.Seq[settlement.Metered]) (r ratedPeriod, err error) {
	groups := make(map[*ruleText][]settlement.Metered) // nil: no rule
	for m := range receipts {
		rule, _ := t.rule(&m)
		groups[rule] = append(groups[rule], m)
	}
	unrated := make(map[settlement.Unrated]*settlement.Unrated) // by the names
	for text, some := range groups {
		var rules []settlement.Rule
		if text != nil {
			rules = append(rules, text.rule)
		}
		lines, rest, err := by.Rate(rules, slices.Values(some))
		if err != nil {
			return r, err
		}
		for _, l := range lines {
			r.lines = append(r.lines, ratedLine{l, text})
		}
		for _, u := range rest {
			of := settlement.Unrated{RightID: u.RightID, MeteringBasis: u.MeteringBasis, Reason: u.Reason}
			if unrated[of] == nil {
				unrated[of] = &of
			}
			sum := unrated[of]
			sum.Receipts, sum.QuantityMs, sum.Impressions = sum.Receipts+u.Receipts, sum.QuantityMs+u.QuantityMs, sum.Impressions+u.Impressions
		}
	}
	slices.SortFunc(r.lines, func(a, b ratedLine) int {
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.RuleID, b.RuleID), cmp.Compare(a.by.rule.Leaf, b.by.rule.Leaf))
	})
	for _, u := range unrated {
		r.unrated = append(r.unrated, Unrated{
			Impressions: sealer.FormatImpressions(u.Impressions), MeteringBasis: u.MeteringBasis, QuantityMs: u.QuantityMs, Reason: u.Reason, Receipts: u.Receipts, RightID: u.RightID,
		})
	}
	slices.SortFunc(r.unrated, func(a, b Unrated) int {
		return cmp.Or(strings.Compare(a.RightID, b.RightID), strings.Compare(a.MeteringBasis, b.MeteringBasis), strings.Compare(a.Reason, b.Reason))
	})
	return r, nil
}

func (s *Statement) settle(by settlement.Rating, terms *Terms, r ratedPeriod) error {
	names, payees := make(map[string]string), sums{}
	for _, p := range s.Payees {
		names[p.CounterpartyID] = p.Name
	}
	s.Lines, s.Adjustments, s.Payees, s.Unrated = []Line{}, []Adjustment{}, []Payee{}, append([]Unrated{}, r.unrated...)
	for _, l := range r.lines {
		if l.by.Currency != s.Currency {
			continue
		}
		shares, err := s.shares(l.by, l.Shares, payees)
		if err != nil {
			return err
		}
		if len(shares) > 0 {
			s.Lines = append(s.Lines, Line{
				Amount: l.Amount, Impressions: sealer.FormatImpressions(l.Impressions), MeteringBasis: l.MeteringBasis, Price: l.by.Price, QuantityMs: l.QuantityMs, Receipts: l.Receipts,
				RightID: l.RightID, RuleID: l.RuleID, RuleLeaf: l.by.rule.Leaf, Shares: shares, Unit: l.by.Unit,
			})
		}
	}
	for _, t := range terms.ownByID() {
		for i, month := range s.Months {
			if !t.bounds() || t.Currency != s.Currency || t.TimeZone != month.TimeZone {
				continue
			}
			if err := s.adjust(by, t, month, r.months[i][t.ID], payees); err != nil {
				return err
			}
		}
	}
	total := int64(0)
	for _, id := range slices.Sorted(maps.Keys(payees)) {
		s.Payees = append(s.Payees, Payee{Amount: formatMicros(payees[id]), CounterpartyID: id, Name: names[id]})
		var err error
		if total, err = addMicros(total, payees[id]); err != nil {
			return err
		}
	}
	s.Total = formatMicros(total)
	return nil
}

// adjust adds the adjustments of a rule in a month, in which it has made the given lines in all currencies.
func (s *Statement) adjust(by settlement.Rating, t *ruleText, month settlement.Month, rated []ratedLine, payees sums) error {
	var lines, older []settlement.Line
	for _, l := range rated {
		switch {
		case l.by.Currency != s.Currency:
		case l.by.Unit == t.Unit && l.by.Price == t.Price:
			lines = append(lines, l.Line)
		default:
			older = append(older, l.Line)
		}
	}
	made, err := by.Adjust(t.rule, lines, older, month.From.Time, month.To.Time)
	if err != nil {
		return err
	}
	for _, a := range made {
		shares, err := s.shares(t, a.Shares, payees)
		if err != nil {
			return err
		}
		if len(shares) > 0 {
			s.Adjustments = append(s.Adjustments, Adjustment{
				Amount: a.Amount, Month: month.Month, Reason: a.Reason, RuleID: t.ID, RuleLeaf: t.rule.Leaf, Shares: shares, TimeZone: month.TimeZone,
			})
		}
	}
	return nil
}

// shares returns the parts of a line that the statement shows, and adds them to payees. A line of
// nothing has no parts.
func (s *Statement) shares(t *ruleText, parts []string, payees sums) (shown []Share, err error) {
	for i, part := range parts {
		share := t.Shares[i]
		if s.CounterpartyID != nil && *s.CounterpartyID != share.CounterpartyID {
			continue
		}
		if err := payees.add(share.CounterpartyID, part); err != nil {
			return nil, err
		}
		shown = append(shown, Share{Amount: part, Bps: share.Bps, CounterpartyID: share.CounterpartyID})
	}
	return shown, nil
}
