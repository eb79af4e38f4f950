package statement

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"muniment.example/sealer/rate"
	"muniment.example/sealer/statement"
)

// model is what an accountant keeps of a tenant: plain lists, and for each receipt by whom it is stated.
type model struct {
	plays    []*modelPlay
	rules    []modelRule // those of now
	disputes []*modelDispute
	chains   []*modelChain // first statements, as they were issued
	issued   []*modelChain // of each statement that was issued, with corrections and voids
}

// modelPlay is a receipt.
type modelPlay struct {
	id, right string
	at        time.Time
	// statedBy are the live chains that state it, all by the rule.
	statedBy map[*modelChain]bool
	rule     *modelRule
}

// modelRule is a text of a rule: a price of each receipt, in millionths, and who gets it, in parts of ten
// thousand.
type modelRule struct {
	id, right   string // right: empty for any
	campaign    string // empty for any
	label       rate.Label
	currency    string
	price       int64
	priority    int64
	from, until time.Time // until: zero for ever
	payees      []string
	bps         []int64
	leaf        uint64
	// In the month of a zone, the units above a number may have another price, or all have it if there are
	// more than that. Bounds are in millionths, nil for none.
	zone         string
	tier         *modelTier
	minimum, cap *int64
}

type modelTier struct {
	above, price int64
	all          bool
}

// months are those that end within the days of the histories, by zone.
var months = map[string][2]time.Time{
	"UTC":                {time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)},
	"America/Denver":     {time.Date(2026, 10, 1, 6, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)},
	"Pacific/Kiritimati": {time.Date(2026, 9, 30, 10, 0, 0, 0, time.UTC), time.Date(2026, 10, 31, 10, 0, 0, 0, time.UTC)},
}

// modelDispute is about receipts, or about a right in a window.
type modelDispute struct {
	id       string
	receipts []string
	right    string
	from, to time.Time
	state    string // HELD, UPHELD or REJECTED
}

// meets reports whether the dispute may be about receipts of a period. Those that it names are of one right
// and moment.
func (d *modelDispute) meets(from, to time.Time) bool {
	return d.from.Before(to) && from.Before(d.to)
}

// modelChain is a first statement with its corrections.
type modelChain struct {
	first    string // id
	from, to time.Time
	since    time.Time // from when on receipts count in months
	currency string
	payee    string // empty: all
	last     string // id of the newest
	said     modelStatement
	sum      int64 // of the first total and all differences
	voided   bool
}

// modelStatement is what a statement has to say.
type modelStatement struct {
	lines       map[modelLine]modelSum
	adjusted    map[string]int64 // what is shown, by rule and reason
	paid        map[string]int64 // by payee
	total, held int64
	unrated     map[string]int64 // receipts by right
}

type modelLine struct {
	right, rule string
	leaf        uint64
}

// modelSum is of the receipts of a line; shown is what it shows of the amount.
type modelSum struct{ receipts, amount, shown int64 }

func (d *modelDispute) about(p *modelPlay) bool {
	if d.right != "" {
		return p.right == d.right && !p.at.Before(d.from) && p.at.Before(d.to)
	}
	return slices.Contains(d.receipts, p.id)
}

// disputed returns HELD, UPHELD or nothing.
func (m *model) disputed(p *modelPlay) (state string) {
	for _, d := range m.disputes {
		if d.about(p) && d.state != "REJECTED" {
			state = max(state, d.state)
		}
	}
	return state
}

// rated is the rule of a receipt: that by which it is stated, else the best of now.
func (m *model) rated(p *modelPlay) *modelRule {
	if len(p.statedBy) > 0 {
		return p.rule
	}
	var best *modelRule
	for i := range m.rules {
		r := &m.rules[i]
		if !r.of(p.right) || p.at.Before(r.from) || !r.until.IsZero() && !p.at.Before(r.until) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(r.priority, best.priority), slices.Compare(r.names(), best.names()), -strings.Compare(r.id, best.id)) > 0 {
			best = new(*r)
		}
	}
	return best
}

// of reports whether the rule is for plays of a right.
func (r *modelRule) of(right string) bool {
	type facts struct {
		campaigns []string
		labels    map[string]string
	}
	is := map[string]facts{
		historyRights[0]: {[]string{"spring"}, map[string]string{"venue": "north"}},
		historyRights[1]: {[]string{"spring", "winter"}, map[string]string{"venue": "south", "team": ""}},
	}[right]
	value, has := is.labels[r.label.Name]
	return (r.right == "" || r.right == right) && (r.campaign == "" || slices.Contains(is.campaigns, r.campaign)) && (r.label.Name == "" || has && value == r.label.Value)
}

// names says which of right, campaign and label the rule names.
func (r *modelRule) names() (list []int) {
	for _, name := range []string{r.right, r.campaign, r.label.Name} {
		list = append(list, min(1, len(name)))
	}
	return list
}

// pays is what a rule pays of an amount to a payee, or to all.
func (r *modelRule) pays(payee string, amount int64) (part int64, ok bool) {
	for i, p := range r.payees {
		if payee == "" || p == payee {
			part, ok = part+amount*r.bps[i]/10_000, true
		}
	}
	return part, ok
}

// states is what a statement of a chain would say now.
func (m *model) states(c *modelChain) modelStatement {
	s := m.statesOf(c, func(p *modelPlay) bool { return m.disputed(p) == "" })
	s.held = m.statesOf(c, func(p *modelPlay) bool { return m.disputed(p) != "UPHELD" }).total - s.total
	return s
}

// statesOf is what it would say of some receipts.
func (m *model) statesOf(c *modelChain, of func(*modelPlay) bool) modelStatement {
	s := modelStatement{lines: map[modelLine]modelSum{}, adjusted: map[string]int64{}, paid: map[string]int64{}, unrated: map[string]int64{}}
	for _, p := range m.plays {
		if p.at.Before(c.from) || !p.at.Before(c.to) || !of(p) {
			continue
		}
		r := m.rated(p)
		if r == nil {
			s.unrated[p.right]++
			continue
		}
		if shown, ok := r.pays(c.payee, r.price); ok && r.currency == c.currency {
			l := modelLine{p.right, r.id, r.leaf}
			sum := s.lines[l]
			s.lines[l] = modelSum{sum.receipts + 1, sum.amount + r.price, sum.shown + shown}
			s.total += shown
			s.pay(r, c.payee, r.price)
		}
	}
	for _, r := range m.reached(c) {
		month, sum, volume, older := months[r.zone], int64(0), int64(0), int64(0)
		for _, p := range m.plays {
			if by := m.rated(p); of(p) && by != nil && by.id == r.id && by.currency == r.currency && !p.at.Before(month[0]) && p.at.Before(month[1]) {
				if sum, volume = sum+by.price, volume+1; by.price != r.price {
					older++ // it keeps that price
				}
			}
		}
		adjust := func(reason string, amount int64) {
			if amount != 0 {
				sum += amount
				shown, _ := r.pays(c.payee, amount)
				s.adjusted[r.id+" "+reason] = shown
				s.total += shown
				s.pay(&r, c.payee, amount)
			}
		}
		if t := r.tier; t != nil && volume > t.above {
			dearer := volume - max(t.above, older)
			if t.all {
				dearer = volume - older
			}
			adjust("TIER", dearer*(t.price-r.price))
		}
		if r.minimum != nil {
			adjust("MINIMUM", max(0, *r.minimum-sum))
		}
		if r.cap != nil {
			adjust("CAP", min(0, *r.cap-sum))
		}
	}
	return s
}

// pay notes who gets an amount by a rule.
func (s *modelStatement) pay(r *modelRule, payee string, amount int64) {
	for _, p := range r.payees {
		if payee == "" || p == payee {
			part, _ := r.pays(p, amount)
			s.paid[p] += part
		}
	}
}

// reached are the rules whose month a statement adjusts.
func (m *model) reached(c *modelChain) (list []modelRule) {
	for _, r := range m.rules {
		month := months[r.zone]
		_, pays := r.pays(c.payee, 0)
		inForce := r.from.Before(month[1]) && (r.until.IsZero() || month[0].Before(r.until) && r.from.Before(r.until))
		if pays && inForce && r.currency == c.currency && (r.tier != nil || r.minimum != nil || r.cap != nil) && c.from.Before(month[1]) && !c.to.Before(month[1]) {
			list = append(list, r)
		}
	}
	return list
}

// counts is since when a statement of a chain counts, if it is drafted now.
func (m *model) counts(c *modelChain) time.Time {
	since := c.from
	if !c.since.IsZero() {
		since = c.since
	}
	for _, r := range m.reached(c) {
		if begin := months[r.zone][0]; begin.Before(since) {
			since = begin
		}
	}
	return since
}

// nowStated notes that a statement of a chain is issued, which was drafted just now.
func (m *model) nowStated(c *modelChain, said modelStatement, rules map[*modelPlay]*modelRule) {
	c.sum += said.total - c.said.total
	c.said = said
	m.issued = append(m.issued, c)
	for p, r := range rules {
		if _, ok := r.pays(c.payee, 0); ok && r.currency == c.currency {
			p.statedBy[c], p.rule = true, r
		}
	}
}

// rules are those of the receipts of a period, now.
func (m *model) rulesOf(from, to time.Time) map[*modelPlay]*modelRule {
	of := map[*modelPlay]*modelRule{}
	for _, p := range m.plays {
		if r := m.rated(p); r != nil && !p.at.Before(from) && p.at.Before(to) {
			of[p] = r
		}
	}
	return of
}

// takeBack takes back what a chain states.
func (m *model) takeBack(c *modelChain) {
	c.voided, c.sum = true, 0
	m.issued = append(m.issued, c)
	for _, p := range m.plays {
		delete(p.statedBy, c)
	}
}

// lacking reports whether a live chain in the currency of a rule, and for a payee of it, covers the time of a
// receipt, and does not state it.
func (m *model) lacking(p *modelPlay, r *modelRule) bool {
	return slices.ContainsFunc(m.live(), func(c *modelChain) bool {
		_, pays := r.pays(c.payee, 0)
		return pays && !p.statedBy[c] && c.currency == r.currency && !p.at.Before(c.from) && p.at.Before(c.to)
	})
}

// basis is what a draft of a period rests on, besides receipts and rules: if it changes, the draft is stale.
func (m *model) basis(from, to time.Time) (basis []any) {
	for _, c := range m.issued {
		if c.from.Before(to) && from.Before(c.to) {
			basis = append(basis, c.first)
		}
	}
	for _, d := range m.disputes {
		if d.state != "REJECTED" && d.meets(from, to) {
			basis = append(basis, d.id, d.state)
		}
	}
	return basis
}

// live are the chains that are not voided.
func (m *model) live() []*modelChain {
	return slices.DeleteFunc(slices.Clone(m.chains), func(c *modelChain) bool { return c.voided })
}

// bills returns a live chain that bills some of the same, nil if there is none.
func (m *model) bills(of *modelChain) *modelChain {
	for _, c := range m.live() {
		if c.currency == of.currency && c.from.Before(of.to) && of.from.Before(c.to) && (c.payee == "" || of.payee == "" || c.payee == of.payee) {
			return c
		}
	}
	return nil
}

// said is what a document says, as the model has it.
func said(micros func(string) int64, d *statement.Statement) modelStatement {
	s := modelStatement{lines: map[modelLine]modelSum{}, adjusted: map[string]int64{}, paid: map[string]int64{}, unrated: map[string]int64{}, total: micros(d.Total), held: micros(d.HeldAmount)}
	for _, a := range d.Adjustments {
		for _, share := range a.Shares {
			s.adjusted[a.RuleID+" "+a.Reason] += micros(share.Amount)
		}
	}
	for _, l := range d.Lines {
		key := modelLine{l.RightID, l.RuleID, l.RuleLeaf}
		sum := s.lines[key]
		sum.receipts, sum.amount = sum.receipts+l.Receipts, sum.amount+micros(l.Amount)
		for _, share := range l.Shares {
			sum.shown += micros(share.Amount)
		}
		s.lines[key] = sum
	}
	for _, p := range d.Payees {
		s.paid[p.CounterpartyID] += micros(p.Amount)
	}
	for _, u := range d.Unrated {
		s.unrated[u.RightID] += u.Receipts
	}
	return s
}
