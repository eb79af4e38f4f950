package statement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/proof/prooftest"
	"muniment.example/control/rapidtest"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/statement"
)

// auditedRights are those of the audited month.
var auditedRights = append(historyRights[:3:3], "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAD", "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAE")

// audit is what an auditor has of a tenant: each receipt as its event says, and each text of a rule. All is computed
// anew from these, in fractions, with nothing of package rate.
type audit struct {
	receipts []*auditedReceipt
	rules    []*auditedRule // the newest text of each
}

type auditedReceipt struct {
	id, right, substrate, tier, completion string
	at                                     time.Time
	ms, impressions                        int64        // in ten-thousandths
	kept                                   *auditedRule // by which a statement states it
}

type auditedRule struct {
	settle.Rule
	leaf uint64
}

func decimal(s string) *big.Rat {
	n, ok := new(big.Rat).SetString(s)
	if !ok {
		panic(s)
	}
	return n
}

var million = big.NewRat(1_000_000, 1)

// halfEven rounds to a millionth.
func halfEven(n *big.Rat) *big.Rat {
	scaled := new(big.Rat).Mul(n, million)
	whole, rest := new(big.Int).DivMod(scaled.Num(), scaled.Denom(), new(big.Int))
	twice := rest.Lsh(rest, 1).Cmp(scaled.Denom())
	if twice > 0 || twice == 0 && whole.Bit(0) == 1 {
		whole.Add(whole, big.NewInt(1))
	}
	return new(big.Rat).Quo(new(big.Rat).SetInt(whole), million)
}

func plain(n *big.Rat) string {
	text := n.FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// units are what a price is for.
func (r *auditedRule) units(some []*auditedReceipt) *big.Rat {
	n := new(big.Rat)
	for _, p := range some {
		n.Add(n, map[rate.Unit]*big.Rat{
			rate.Event: big.NewRat(1, 1), rate.MS: big.NewRat(p.ms, 1), rate.Second: big.NewRat(p.ms, 1000),
			rate.Impression: big.NewRat(p.impressions, 10_000), rate.CPM: big.NewRat(p.impressions, 10_000_000),
		}[r.Unit])
	}
	return n
}

func (r *auditedRule) amount(some []*auditedReceipt) *big.Rat {
	return halfEven(new(big.Rat).Mul(decimal(r.Price), r.units(some)))
}

// split divides an amount: what is too little for a share goes to those that lose most of it.
func (r *auditedRule) split(amount *big.Rat) map[string]*big.Rat {
	sign := big.NewRat(int64(amount.Sign()), 1)
	left := new(big.Rat).Abs(amount)
	parts, lost := map[string]*big.Rat{}, map[string]*big.Rat{}
	var order []string
	for _, s := range r.Shares {
		exact := new(big.Rat).Mul(new(big.Rat).Abs(amount), big.NewRat(s.Bps, 10_000))
		scaled := new(big.Rat).Mul(exact, million)
		down := new(big.Rat).Quo(new(big.Rat).SetInt(new(big.Int).Quo(scaled.Num(), scaled.Denom())), million)
		parts[s.CounterpartyID], lost[s.CounterpartyID], order = down, new(big.Rat).Sub(exact, down), append(order, s.CounterpartyID)
		left.Sub(left, down)
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(lost[b].Cmp(lost[a]), strings.Compare(a, b)) })
	for _, id := range order {
		if left.Sign() > 0 {
			parts[id].Add(parts[id], big.NewRat(1, 1_000_000))
			left.Sub(left, big.NewRat(1, 1_000_000))
		}
		parts[id].Mul(parts[id], sign)
	}
	return parts
}

func (r *auditedRule) fits(p *auditedReceipt) bool {
	named := func(name *string, is string) bool { return name == nil || *name == is }
	var scope struct {
		Campaigns []string
		Labels    map[string]string
	}
	if err := json.Unmarshal([]byte(scopes[p.right]), &scope); err != nil {
		panic(err)
	}
	m := r.Match
	value, labelled := "", false
	if m.Label != nil {
		value, labelled = scope.Labels[m.Label.Name]
	}
	return named(m.RightID, p.right) && named(m.Substrate, p.substrate) && named(m.MeteringBasis, p.tier) && named(m.Completion, p.completion) &&
		(m.Campaign == nil || slices.Contains(scope.Campaigns, *m.Campaign)) && (m.Label == nil || labelled && value == m.Label.Value) &&
		!p.at.Before(r.EffectiveFrom.Time) && (r.EffectiveUntil.IsZero() || p.at.Before(r.EffectiveUntil.Time))
}

// of is the rule of a receipt: the one that is kept, or the first of priority, what is named, and id.
func (a *audit) of(p *auditedReceipt) *auditedRule {
	if p.kept != nil {
		return p.kept
	}
	var fitting []*auditedRule
	for _, r := range a.rules {
		if r.fits(p) {
			fitting = append(fitting, r)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	return slices.MinFunc(fitting, func(x, y *auditedRule) int {
		order := cmp.Compare(y.Priority, x.Priority)
		for _, named := range []func(m *settle.Match) bool{
			func(m *settle.Match) bool { return m.RightID != nil }, func(m *settle.Match) bool { return m.Campaign != nil }, func(m *settle.Match) bool { return m.Label != nil },
			func(m *settle.Match) bool { return m.Substrate != nil }, func(m *settle.Match) bool { return m.MeteringBasis != nil }, func(m *settle.Match) bool { return m.Completion != nil },
		} {
			if a, b := named(&x.Match), named(&y.Match); a != b && order == 0 {
				order = map[bool]int{true: -1, false: 1}[a]
			}
		}
		return cmp.Or(order, strings.Compare(x.ID, y.ID))
	})
}

// billed is what a statement has to say: texts, so that a difference can be read.
type billed struct {
	lines, adjustments, payees, unrated []string
	total                               string
}

// bill bills the receipts that are not left out, to one payee, or to all.
func (a *audit) bill(from, to time.Time, currency, payee string, leftOut func(*auditedReceipt) bool) billed {
	b, total, payees := billed{}, new(big.Rat), map[string]*big.Rat{}
	pay := func(r *auditedRule, amount *big.Rat) (shown []string) {
		parts := r.split(amount)
		for _, s := range r.Shares {
			if id := s.CounterpartyID; payee == "" || payee == id {
				if payees[id] == nil {
					payees[id] = new(big.Rat)
				}
				payees[id].Add(payees[id], parts[id])
				total.Add(total, parts[id])
				shown = append(shown, id+" "+plain(parts[id]))
			}
		}
		return shown
	}
	between := func(from, to time.Time) (some []*auditedReceipt) {
		for _, p := range a.receipts {
			if !p.at.Before(from) && p.at.Before(to) && !leftOut(p) {
				some = append(some, p)
			}
		}
		return some
	}
	type line struct {
		right, tier string
		rule        *auditedRule
	}
	lines := func(some []*auditedReceipt) map[line][]*auditedReceipt {
		all := map[line][]*auditedReceipt{}
		for _, p := range some {
			l := line{p.right, p.tier, a.of(p)}
			all[l] = append(all[l], p)
		}
		return all
	}
	for l, some := range lines(between(from, to)) {
		if l.rule == nil {
			b.unrated = append(b.unrated, fmt.Sprint(l.right, l.tier, len(some)))
		} else if l.rule.Currency == currency {
			amount := l.rule.amount(some)
			if shown := pay(l.rule, amount); shown != nil {
				b.lines = append(b.lines, fmt.Sprint(l.right, l.tier, l.rule.ID, l.rule.leaf, len(some), plain(amount), shown))
			}
		}
	}
	for _, r := range a.rules {
		zone, err := time.LoadLocation(r.TimeZone)
		if err != nil {
			panic(err)
		}
		for n := time.August; n <= time.November; n++ {
			begin, end := time.Date(2026, n, 1, 0, 0, 0, 0, zone), time.Date(2026, n+1, 1, 0, 0, 0, 0, zone)
			inForce := r.EffectiveFrom.Before(end) && (r.EffectiveUntil.IsZero() || begin.Before(r.EffectiveUntil.Time) && r.EffectiveFrom.Before(r.EffectiveUntil.Time))
			if r.Currency != currency || !from.Before(end) || to.Before(end) || !inForce {
				continue
			}
			sum, own, older := new(big.Rat), new(big.Rat), new(big.Rat)
			for l, some := range lines(between(begin, end)) {
				if l.rule == nil || l.rule.ID != r.ID || l.rule.Currency != currency {
					continue
				}
				sum.Add(sum, l.rule.amount(some))
				if l.rule.Price == r.Price && l.rule.Unit == r.Unit {
					own.Add(own, r.units(some))
				} else {
					older.Add(older, r.units(some))
				}
			}
			adjust := func(reason string, amount *big.Rat) {
				if amount.Sign() == 0 {
					return
				}
				sum.Add(sum, amount)
				if shown := pay(r, amount); shown != nil {
					b.adjustments = append(b.adjustments, fmt.Sprint(r.ID, begin.Format("2006-01"), r.TimeZone, reason, plain(amount), shown))
				}
			}
			adjust("TIER", r.tiered(own, older))
			switch {
			case r.Minimum != nil && sum.Cmp(decimal(*r.Minimum)) < 0:
				adjust("MINIMUM", new(big.Rat).Sub(decimal(*r.Minimum), sum))
			case r.Cap != nil && sum.Cmp(decimal(*r.Cap)) > 0:
				adjust("CAP", new(big.Rat).Sub(decimal(*r.Cap), sum))
			}
		}
	}
	for id, n := range payees {
		b.payees = append(b.payees, id+" "+plain(n))
	}
	b.total = plain(total)
	return b.sorted()
}

// tiered is what other prices change: unit by unit, in steps between two tiers.
func (r *auditedRule) tiered(own, older *big.Rat) *big.Rat {
	change, volume := new(big.Rat), new(big.Rat).Add(own, older)
	for i, t := range r.Tiers {
		begin, end := big.NewRat(t.Above, 1), new(big.Rat).Set(volume)
		if i+1 < len(r.Tiers) && end.Cmp(big.NewRat(r.Tiers[i+1].Above, 1)) > 0 {
			end = big.NewRat(r.Tiers[i+1].Above, 1)
		}
		dearer := new(big.Rat).Sub(decimal(t.Price), decimal(r.Price))
		switch {
		case volume.Cmp(begin) <= 0:
		case *r.TiersMode == rate.Volume:
			change = new(big.Rat).Mul(dearer, own)
		default:
			if begin.Cmp(older) < 0 {
				begin = older
			}
			if units := new(big.Rat).Sub(end, begin); units.Sign() > 0 {
				change.Add(change, units.Mul(units, dearer))
			}
		}
	}
	return halfEven(change)
}

func (b billed) sorted() billed {
	for _, list := range [][]string{b.lines, b.adjustments, b.payees, b.unrated} {
		slices.Sort(list)
	}
	return b
}

// billedBy is what a document says.
func billedBy(s *statement.Statement) billed {
	b := billed{total: s.Total}
	shown := func(shares []statement.Share) (list []string) {
		for _, s := range shares {
			list = append(list, s.CounterpartyID+" "+s.Amount)
		}
		return list
	}
	for _, l := range s.Lines {
		b.lines = append(b.lines, fmt.Sprint(l.RightID, l.MeteringBasis, l.RuleID, l.RuleLeaf, l.Receipts, l.Amount, shown(l.Shares)))
	}
	for _, a := range s.Adjustments {
		b.adjustments = append(b.adjustments, fmt.Sprint(a.RuleID, a.Month, a.TimeZone, a.Reason, a.Amount, shown(a.Shares)))
	}
	for _, p := range s.Payees {
		b.payees = append(b.payees, p.CounterpartyID+" "+p.Amount)
	}
	for _, u := range s.Unrated {
		b.unrated = append(b.unrated, fmt.Sprint(u.RightID, u.MeteringBasis, u.Receipts))
	}
	return b.sorted()
}

// TestAuditedMonth: October in Berlin, of which the night to the 25th has an hour twice: 5 rights, 13 rules in every
// unit and two currencies, disputes, late rows, a correction, a void and a reissue. The auditor's figures are the
// service's and both verifiers', to the last millionth.
func TestAuditedMonth(t *testing.T) {
	warehouse, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	require.NoError(t, warehouse.Erase(t.Context(), pipeline.SubjectKey{}, nil))
	h := newHistory(t, warehouse)
	rapidtest.Check(t, 1, 20, func(t *rapid.T) {
		h.begin(t)
		h.sampled = true
		h.issueRights(auditedRights)
		newMonth(h).audited(rapid.Uint64().Draw(t, "seed"))
	})
}

// auditedMonth is the tenant and its auditor.
type auditedMonth struct {
	*history
	audit
	random *rand.Rand
}

var berlin, newYork = zone("Europe/Berlin"), zone("America/New_York")

func zone(name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return z
}

func newMonth(h *history) *auditedMonth { return &auditedMonth{history: h} }

func (m *auditedMonth) audited(seed uint64) {
	m.random = rand.New(rand.NewPCG(seed, 1))
	m.makeRules()
	begin, end := time.Date(2026, 10, 1, 0, 0, 0, 0, berlin), time.Date(2026, 11, 1, 0, 0, 0, 0, berlin)
	require.Equal(m.t, 745*time.Hour, end.Sub(begin), "an hour more than 31 days")
	for _, edge := range []time.Time{begin, end, time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 2, 0, 0, 0, time.UTC)} {
		for _, right := range auditedRights {
			m.receive(right, edge.Add(-time.Millisecond))
			m.receive(right, edge)
		}
	}
	for range 300 {
		m.receive(auditedRights[m.random.IntN(5)], begin.Add(time.Duration(m.random.Int64N(int64(end.Sub(begin)/time.Millisecond)+7_200_000)-3_600_000)*time.Millisecond))
	}

	// Two disputes are open when the month is billed.
	held := map[string]bool{}
	for _, p := range m.receipts[60:75] {
		held[p.id] = true
	}
	night := modelDispute{id: api.NewID("dsp_", m.stage.Now()), right: auditedRights[0], from: time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), to: time.Date(2026, 10, 25, 2, 0, 0, 0, time.UTC)}
	some := modelDispute{id: api.NewID("dsp_", m.stage.Now().Add(time.Millisecond)), receipts: slices.Sorted(maps.Keys(held)), from: begin.Add(-time.Hour), to: end.Add(time.Hour)}
	m.dispute(&night)
	m.dispute(&some)
	inNight := func(p *auditedReceipt) bool {
		return p.right == night.right && !p.at.Before(night.from) && p.at.Before(night.to)
	}
	disputed := func(p *auditedReceipt) bool { return inNight(p) || held[p.id] }
	none := func(*auditedReceipt) bool { return false }

	first := m.state(begin, end, "EUR", "", disputed, none)
	m.keep(begin, end, "EUR", "", none)
	american := []time.Time{time.Date(2026, 10, 1, 0, 0, 0, 0, newYork), time.Date(2026, 11, 1, 0, 0, 0, 0, newYork)}
	for _, payee := range m.payees["USD"] {
		m.state(american[0], american[1], "USD", payee, disputed, none)
	}
	for _, payee := range m.payees["USD"] {
		m.keep(american[0], american[1], "USD", payee, none)
	}

	// One is upheld, one rejected; rows come late; prices change.
	m.decide(&night, "UPHELD")
	m.decide(&some, "REJECTED")
	for range 20 {
		m.receive(auditedRights[m.random.IntN(5)], begin.Add(time.Duration(m.random.Int64N(700))*time.Hour))
	}
	m.change("all", func(r *settle.Rule) { r.Price = "0.0111111" })
	m.change("north", func(r *settle.Rule) { r.Price = "8.25" })
	corrected, err := m.history.correct(m.t.Context(), m.tenant, first.ID, byKey)
	require.NoError(m.t, err)
	m.requireBilled(corrected.ID, begin, end, "EUR", "", inNight, inNight)
	m.mustIssue(corrected.ID)
	m.keep(begin, end, "EUR", "", inNight)

	// The month is voided, and billed again: all by the rules of now.
	voided, err := m.void(m.t.Context(), m.tenant, corrected.ID, "agreed anew", byKey)
	require.NoError(m.t, err)
	m.note(voided.ID)
	one, two := decimal(first.Total), decimal(*m.find(corrected.ID).Difference)
	require.Zero(m.t, one.Add(one, two).Add(one, decimal(*voided.Difference)).Sign(), "it takes back all")
	for _, p := range m.receipts {
		if p.kept != nil && p.kept.Currency == "EUR" {
			p.kept = nil
		}
	}
	again := m.state(begin, end, "EUR", "", inNight, inNight)
	require.NotEqual(m.t, m.find(corrected.ID).Total, again.Total)
	m.judge()
}

// makeRules makes thirteen.
func (m *auditedMonth) makeRules() {
	october := store.At(time.Date(2026, 10, 1, 0, 0, 0, 0, berlin))
	eur, usd := m.payees["EUR"], m.payees["USD"]
	thirds := []settle.Share{{CounterpartyID: eur[0], Bps: 6_667}, {CounterpartyID: eur[1], Bps: 3_333}}
	label := func(name, value string) *settle.Label { return &settle.Label{Name: name, Value: value} }
	for _, r := range []settle.Rule{
		{Unit: rate.Event, Price: "0.0123457"},
		{Unit: rate.Second, Price: "0.003333333", Match: settle.Match{Campaign: new("spring")}, Minimum: new("250")},
		{Unit: rate.CPM, Price: "8.5", Match: settle.Match{Label: label("venue", "north")}, Priority: 1, TiersMode: new(rate.Graduated), Tiers: []settle.Tier{{Above: 1, Price: "7.25"}, {Above: 3, Price: "6.125"}}},
		{Unit: rate.MS, Price: "0.0000017", Match: settle.Match{RightID: &auditedRights[2]}, TimeZone: "UTC", Cap: new("0.3")},
		{Unit: rate.Impression, Price: "0.0098765", Match: settle.Match{RightID: &auditedRights[2], MeteringBasis: new("viewable")}, Cap: new("1.5")},
		{Unit: rate.Event, Price: "0.2", Match: settle.Match{Completion: new("complete")}, Priority: 2, TiersMode: new(rate.Volume), Tiers: []settle.Tier{{Above: 10, Price: "0.1500005"}}},
		{Unit: rate.Event, Price: "0.07", Match: settle.Match{Substrate: new("CTV")}, Currency: "USD", Priority: 1, TimeZone: "America/New_York", Minimum: new("20.000001")},
		{Unit: rate.Second, Price: "0.0011", Match: settle.Match{RightID: &auditedRights[4]}, Currency: "USD", TimeZone: "America/New_York", Priority: 1},
		{Unit: rate.Event, Price: "1.0000005", Match: settle.Match{Label: label("team", "")}, Priority: 5, EffectiveFrom: store.At(time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)), EffectiveUntil: store.At(time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC))},
		{Unit: rate.CPM, Price: "123.456", Match: settle.Match{RightID: &auditedRights[3]}, EffectiveUntil: store.At(time.Date(2026, 10, 11, 12, 0, 0, 0, berlin)), Priority: 3},
		{Unit: rate.Event, Price: "9", Minimum: new("500"), Priority: 9, EffectiveFrom: store.At(time.Date(2026, 12, 1, 0, 0, 0, 0, berlin))},
		{Unit: rate.CPM, Price: "0.5", Match: settle.Match{Campaign: new("winter"), Label: label("team", "east")}, Currency: "USD", TimeZone: "America/New_York", Priority: 2, Cap: new("0.01")},
		{Unit: rate.MS, Price: "0.000000001", Match: settle.Match{RightID: &auditedRights[1], Substrate: new("MOBILE")}, Priority: 4},
	} {
		r.TenantID, r.Currency, r.TimeZone, r.Tiers = m.tenant, cmp.Or(r.Currency, "EUR"), cmp.Or(r.TimeZone, "Europe/Berlin"), append([]settle.Tier{}, r.Tiers...)
		if r.Shares = thirds; r.Currency == "USD" {
			r.Shares = []settle.Share{{CounterpartyID: usd[0], Bps: 3_334}, {CounterpartyID: usd[1], Bps: 6_666}}
		}
		if r.EffectiveFrom.IsZero() {
			r.EffectiveFrom = october
		}
		m.stage.Advance(time.Millisecond)
		m.makeRule(r)
	}
	m.learn()
	require.Len(m.t, m.rules, 13)
}

// learn reads the texts of the rules, with their leaves.
func (m *auditedMonth) learn() {
	rules, err := settle.Rules(m.t.Context(), m.db.Read(), m.tenant, store.Instant{})
	require.NoError(m.t, err)
	old := m.audit.rules
	m.audit.rules = nil
	for _, r := range rules {
		text := &auditedRule{Rule: r}
		for _, logged := range m.logged {
			if logged.ID() == r.ID {
				text.leaf = logged.Leaf
			}
		}
		if i := slices.IndexFunc(old, func(o *auditedRule) bool { return o.ID == r.ID && o.leaf == text.leaf }); i >= 0 {
			text = old[i] // lines are grouped by it
		}
		m.audit.rules = append(m.audit.rules, text)
	}
}

// change changes the rule for all, or that of a label.
func (m *auditedMonth) change(which string, change func(r *settle.Rule)) {
	i := slices.IndexFunc(m.audit.rules, func(r *auditedRule) bool {
		if which == "all" {
			return r.Match == settle.Match{} && r.Minimum == nil
		}
		return r.Match.Label != nil && r.Match.Label.Value == which
	})
	r := m.audit.rules[i].Rule
	change(&r)
	m.history.change(func(tx *store.Tx) error { return m.rewrite(tx, &r) })
	m.pull()
	m.learn()
}

// receive has a play on a right, which is shown so long to so many; not all of them are metered.
func (m *auditedMonth) receive(right string, at time.Time) {
	m.stage.Advance(time.Millisecond)
	m.pull()
	i := m.random.IntN(5)
	record := m.stage.Event(prooftest.Delivery{
		Tenant: m.tenant, Right: right, Rendered: m.stage.Now().Sub(at), Substrate: []gate.Substrate{gate.DOOH, gate.CTV, gate.Mobile, gate.DOOH, gate.DOOH}[i],
		Telemetry: []string{`{"viewable":true}`, `{"completionState":"complete"}`, `{}`, `{}`, `{}`}[i],
		DwellMs:   float64(m.random.IntN(120_000)), Multiplier: 1 + m.random.Int64N(80*sealer.Impression),
	})
	d, err := sealer.ReadDelivery(record.Event)
	require.NoError(m.t, err)
	if d.Metered {
		m.receipts = append(m.receipts, &auditedReceipt{
			id: d.Receipt.ReceiptID, right: d.RightID, substrate: d.Substrate, tier: d.Basis, completion: d.Completion, at: d.Receipt.RenderedAt, ms: d.QuantityMs, impressions: d.Impressions,
		})
	}
	m.load(record)
}

// state drafts and issues a statement, which has to say what the auditor finds.
func (m *auditedMonth) state(from, to time.Time, currency, payee string, leftOut, upheld func(*auditedReceipt) bool) Statement {
	requested := Statement{TenantID: m.tenant, From: store.At(from), To: store.At(to), Currency: currency, TimeZone: from.Location().String()}
	if payee != "" {
		requested.CounterpartyID = &payee
	}
	made, err := m.draft(m.t.Context(), requested, byKey)
	require.NoError(m.t, err)
	m.requireBilled(made.ID, from, to, currency, payee, leftOut, upheld)
	return m.mustIssue(made.ID)
}

func (m *auditedMonth) mustIssue(id string) Statement {
	issued, err := m.issue(m.t.Context(), m.tenant, id, byKey)
	require.NoError(m.t, err)
	m.note(id)
	return issued
}

func (m *auditedMonth) requireBilled(id string, from, to time.Time, currency, payee string, leftOut, upheld func(*auditedReceipt) bool) {
	document := m.document(id)
	want := m.bill(from, to, currency, payee, leftOut)
	require.NotEmpty(m.t, want.lines)
	require.Equal(m.t, want, billedBy(&document))
	more := decimal(m.bill(from, to, currency, payee, upheld).total)
	require.Equal(m.t, plain(more.Sub(more, decimal(want.total))), document.HeldAmount)
}

// keep notes by which rules a statement states receipts, those that it holds included.
func (m *auditedMonth) keep(from, to time.Time, currency, payee string, leftOut func(*auditedReceipt) bool) {
	for _, p := range m.receipts {
		r := m.of(p)
		if r != nil && r.Currency == currency && !p.at.Before(from) && p.at.Before(to) && !leftOut(p) &&
			slices.ContainsFunc(r.Shares, func(s settle.Share) bool { return payee == "" || s.CounterpartyID == payee }) {
			p.kept = r
		}
	}
}
