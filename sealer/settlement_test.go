package sealer

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/settle/rate"
)

// testRate is rating as the service has it.
func testRate(rules []SettlementRule, receipts iter.Seq[Metered]) (lines []SettlementLine, unrated []Unrated, err error) {
	var parsed []rate.Rule
	for _, r := range rules {
		rule, err := rate.ParseRule(r.Record)
		if err != nil {
			return nil, nil, err
		}
		parsed = append(parsed, rule)
	}
	made, err := rate.Rate(parsed, func(yield func(rate.Receipt) bool) {
		for m := range receipts {
			if !yield(rate.Receipt(m)) {
				return
			}
		}
	})
	for _, l := range made.Lines {
		line := SettlementLine{l.RuleID, l.RightID, l.MeteringBasis, l.Receipts, l.QuantityMs, l.Amount.String(), nil}
		for _, s := range l.Shares {
			line.Shares = append(line.Shares, s.String())
		}
		lines = append(lines, line)
	}
	for _, u := range made.Unrated {
		unrated = append(unrated, Unrated(u))
	}
	return lines, unrated, err
}

// record is the record of the n-th rule, with whatever is changed: pairs of old and new.
func (w *world) record(n int, change ...string) string {
	moment := FormatTime(w.now)
	text := fmt.Sprintf(`{"createdAt":"%s","currency":"EUR","effectiveFrom":"%s","effectiveUntil":null,"id":"%s",`+
		`"match":{"basisId":null,"meteringBasis":null,"rightId":null,"substrate":null},"price":"0.125","priority":0,"revision":%d,`+
		`"shares":[{"bps":6667,"counterpartyId":"cp_studio"},{"bps":3333,"counterpartyId":"cp_agency"}],"state":"ACTIVE","unit":"SECOND","updatedAt":"%s"}`,
		moment, FormatTime(epoch), named("rule_", fmt.Sprint(n)), 40+n, moment)
	for i := 0; i < len(change); i += 2 {
		require.Contains(w.tb, text, change[i])
		text = strings.Replace(text, change[i], change[i+1], 1)
	}
	return text
}

// rule is the event of a rule's record.
func (w *world) rule(kind, record string) []byte {
	w.tb.Helper()
	w.now = w.now.Add(time.Second)
	id, err := ruleID([]byte(record))
	require.NoError(w.tb, err)
	event, err := AppendEvent(nil, &Event{
		EventID: w.id(eventPrefix), TenantID: w.tenant, Type: kind, At: w.now,
		Actor: Ref{"key", "key_fixture"}, Subject: Ref{"settlement_rule", id}, Data: []byte(record),
	})
	require.NoError(w.tb, err)
	return event
}

const ruleCreated = "settlement_rule.created"

// settled is a log of two packs: rules, one of which is for a right only, and deliveries
// in both.
func (w *world) settled() (one, two *SealedPack, first, second [][]byte) {
	w.tb.Helper()
	first = slices.Concat(w.run(6), [][]byte{w.rule(ruleCreated, w.record(1)), w.note("right.revoked")})
	one = w.seal(first)
	second = slices.Concat(w.run(9), [][]byte{
		w.rule(ruleCreated, w.record(2, `"rightId":null`, `"rightId":"rgh_1"`, `"unit":"SECOND"`, `"unit":"EVENT"`, `"0.125"`, `"0.000003"`)),
	})
	two = w.seal(second)
	return one, two, first, second
}

func TestSettlement(t *testing.T) {
	w := newWorld(t)
	one, two, first, second := w.settled()

	s := one.Header.Settlement
	require.Equal(t, []SettlementRule{{Leaf: 6, Record: eventData(t, first[6])}}, s.Rules)
	require.Empty(t, s.Unrated)
	require.Len(t, s.Lines, 3)
	require.Equal(t, SettlementLine{named("rule_", "1"), "rgh_2", "viewable", 1, 3000, "0.375", []string{"0.250012", "0.124988"}}, s.Lines[2],
		"a rule behind the receipts, in the pack, rates them")

	s = two.Header.Settlement
	require.Equal(t, []SettlementRule{one.Header.Settlement.Rules[0], {Leaf: 17, Record: eventData(t, second[9])}}, s.Rules)
	i := slices.IndexFunc(s.Lines, func(l SettlementLine) bool { return l.RightID == "rgh_1" && l.MeteringBasis == "viewable" })
	require.Equal(t, SettlementLine{named("rule_", "2"), "rgh_1", "viewable", 2, 9000, "0.000006", []string{"0.000004", "0.000002"}}, s.Lines[i])

	for _, v := range [][]Verdict{w.verdicts(bundle(t, one, first)), w.verdicts(AppendPackObject(nil, one, first))} {
		require.Empty(t, failures(v), "%v", v)
		require.Equal(t, SettlementOK, okCodes(v)[len(okCodes(v))-1])
	}
	v := w.verdicts(bundle(t, two, second))
	require.Empty(t, failures(v), "%v", v)
	require.Equal(t, []Code{SettlementOK, SettlementUnproven}, okCodes(v)[len(okCodes(v))-2:], "one rule is not in it")
}

func eventData(t *testing.T, event []byte) []byte {
	t.Helper()
	e, err := ParseEvent(event)
	require.NoError(t, err)
	return e.Data
}

// TestUnrated has receipts without a rule, duplicates and suppressed ones.
func TestUnrated(t *testing.T) {
	w := newWorld(t)
	events := append(w.run(20), w.delivery(2, "order 2"), w.rule(ruleCreated, w.record(1, `"rightId":null`, `"rightId":"rgh_2"`)))
	p := w.seal(events)
	s, metered := p.Header.Settlement, int64(0)
	for _, r := range p.Header.Metering {
		if r.Reason == reasonMetered {
			metered += r.Receipts
		}
	}
	require.NotEmpty(t, p.Header.Duplicates)
	require.Equal(t, metered, s.receipts())
	require.Positive(t, s.unrated())
	require.NotEmpty(t, s.Lines)
	require.Empty(t, failures(w.verdicts(bundle(t, p, events))))
}

// TestARuleIsAmended has two more events of a rule: its last one counts, in its place.
func TestARuleIsAmended(t *testing.T) {
	w := newWorld(t)
	events := [][]byte{w.rule(ruleCreated, w.record(1)), w.rule(ruleCreated, w.record(2)), w.rule("settlement_rule.updated", w.record(1, `"0.125"`, `"0.25"`))}
	p := w.seal(events)
	require.Equal(t, []SettlementRule{{1, eventData(t, events[1])}, {2, eventData(t, events[2])}}, p.Header.Rules())
	more := [][]byte{w.rule("settlement_rule.retired", w.record(2, `"effectiveUntil":null`, `"effectiveUntil":"2026-06-01T00:00:00.000Z"`, "ACTIVE", "RETIRED"))}
	q := w.seal(more)
	require.Equal(t, []SettlementRule{{2, eventData(t, events[2])}, {3, eventData(t, more[0])}}, q.Header.Rules())
	require.Empty(t, failures(w.verdicts(bundle(t, p, events))))
	require.Empty(t, failures(w.verdicts(bundle(t, q, more))))
}

func TestSealRefusesRules(t *testing.T) {
	w := newWorld(t)
	_, err := w.trySeal([][]byte{w.rule(ruleCreated, w.record(1))}, func(c *PackConfig) { c.Rate = nil })
	require.ErrorContains(t, err, "nothing to rate with")
	_, err = w.trySeal([][]byte{w.rule(ruleCreated, w.record(1, "SECOND", "HOUR"))})
	require.ErrorContains(t, err, "unit")
	lossy := func([]SettlementRule, iter.Seq[Metered]) ([]SettlementLine, []Unrated, error) { return nil, nil, nil }
	_, err = w.trySeal(append(w.run(3), w.rule(ruleCreated, w.record(1))), func(c *PackConfig) { c.Rate = lossy })
	require.ErrorContains(t, err, "0 receipts were rated or counted, of 2")
	w.now = w.now.Add(time.Second)
	nameless, err := AppendEvent(nil, &Event{
		EventID: w.id(eventPrefix), TenantID: w.tenant, Type: ruleCreated, At: w.now, Actor: Ref{"key", "k"}, Subject: Ref{"settlement_rule", "r"}, Data: []byte(`{"ID":"r"}`),
	})
	require.NoError(t, err)
	_, err = w.trySeal([][]byte{nameless})
	require.ErrorContains(t, err, "it has no id")
}

// TestSettlementsOfALiar changes what a header says of its settlement. Each header is
// signed again by the pack's own key.
func TestSettlementsOfALiar(t *testing.T) {
	w := newWorld(t)
	_, p, _, events := w.settled()
	record := func(h *PackHeader, i int, old, new string) {
		r := &h.Settlement.Rules[i]
		require.Contains(t, string(r.Record), old)
		r.Record = []byte(strings.Replace(string(r.Record), old, new, 1))
	}
	for name, c := range map[string]struct {
		change func(*PackHeader)
		want   Code
	}{
		"an amount":               {func(h *PackHeader) { h.Settlement.Lines[0].Amount = "9" }, SettlementMismatch},
		"an amount respelt":       {func(h *PackHeader) { h.Settlement.Lines[0].Amount += "0" }, SettlementMismatch},
		"a share":                 {func(h *PackHeader) { h.Settlement.Lines[2].Shares[0] = "0.000005" }, SettlementMismatch},
		"shares swapped":          {func(h *PackHeader) { slices.Reverse(h.Settlement.Lines[2].Shares) }, SettlementMismatch},
		"one share less":          {func(h *PackHeader) { h.Settlement.Lines[0].Shares = h.Settlement.Lines[0].Shares[:1] }, SettlementMismatch},
		"a receipt more":          {func(h *PackHeader) { h.Settlement.Lines[0].Receipts++ }, SettlementMismatch},
		"a millisecond more":      {func(h *PackHeader) { h.Settlement.Lines[0].QuantityMs++ }, SettlementMismatch},
		"another right":           {func(h *PackHeader) { h.Settlement.Lines[0].RightID = "rgh_9" }, SettlementMismatch},
		"another rule":            {func(h *PackHeader) { h.Settlement.Lines[0].RuleID = named("rule_", "2") }, SettlementMismatch},
		"another tier":            {func(h *PackHeader) { h.Settlement.Lines[0].MeteringBasis = "audible" }, SettlementMismatch},
		"a line less":             {func(h *PackHeader) { h.Settlement.Lines = h.Settlement.Lines[1:] }, SettlementMismatch},
		"a line more":             {func(h *PackHeader) { h.Settlement.Lines = append(h.Settlement.Lines, h.Settlement.Lines[0]) }, SettlementMismatch},
		"lines in another order":  {func(h *PackHeader) { slices.Reverse(h.Settlement.Lines) }, SettlementMismatch},
		"a line as unrated":       {func(h *PackHeader) { unrate(h.Settlement) }, SettlementMismatch},
		"receipts made up":        {func(h *PackHeader) { h.Settlement.Unrated = []Unrated{{"rgh_1", "gross", "NO_RULE", 1, 1}} }, SettlementMismatch},
		"no settlement":           {func(h *PackHeader) { h.Settlement = nil }, SettlementMismatch},
		"a rule of the pack":      {func(h *PackHeader) { record(h, 1, "0.000003", "0.000004") }, SettlementMismatch},
		"a rule of before":        {func(h *PackHeader) { record(h, 0, "0.125", "0.225") }, SettlementMismatch},
		"the unit of one":         {func(h *PackHeader) { record(h, 1, "EVENT", "MS") }, SettlementMismatch},
		"a unit that is none":     {func(h *PackHeader) { record(h, 0, "SECOND", "HOUR") }, SettlementMismatch},
		"a second unit":           {func(h *PackHeader) { record(h, 0, `"unit":"SECOND"`, `"unit":"SECOND","unit2":"EVENT"`) }, SettlementMismatch},
		"a rule respelt":          {func(h *PackHeader) { record(h, 0, `"price":`, `"price": `) }, FormatInvalid},
		"a rule less":             {func(h *PackHeader) { h.Settlement.Rules = h.Settlement.Rules[:1] }, SettlementMismatch},
		"an older rule less":      {func(h *PackHeader) { h.Settlement.Rules = h.Settlement.Rules[1:] }, SettlementMismatch},
		"a rule of another leaf":  {func(h *PackHeader) { h.Settlement.Rules[1].Leaf-- }, SettlementMismatch},
		"a rule of no event":      {func(h *PackHeader) { h.Settlement.Rules[0].Leaf = 9 }, SettlementMismatch},
		"a rule of a later leaf":  {func(h *PackHeader) { h.Settlement.Rules[1].Leaf = h.TreeSize }, FormatInvalid},
		"rules in another order":  {func(h *PackHeader) { slices.Reverse(h.Settlement.Rules) }, FormatInvalid},
		"a settlement of nothing": {func(h *PackHeader) { h.Settlement = new(Settlement) }, FormatInvalid},
	} {
		pack := w.resign(p, events, func(h *PackHeader) {
			h.Settlement = h.Settlement.clone()
			c.change(h)
		})
		require.Equal(t, []Code{c.want}, failures(w.verdicts(pack)), name)
	}
}

// unrate calls a line unrated: the receipts still add up.
func unrate(s *Settlement) {
	l := s.Lines[0]
	s.Lines = s.Lines[1:]
	s.Unrated = []Unrated{{l.RightID, l.MeteringBasis, "NO_RULE", l.Receipts, l.QuantityMs}}
}

// TestRulesOfAChain gives packs together: what a pack says of older rules has to be what
// the one before has come to.
func TestRulesOfAChain(t *testing.T) {
	w := newWorld(t)
	one, two, first, second := w.settled()
	forged := w.forgedRule(t, two, second)
	require.Empty(t, failures(w.verdicts(forged)), "by itself there is its word only")
	none := w.resign(two, second, func(h *PackHeader) { h.Settlement = nil })
	require.Equal(t, []Code{SettlementMismatch}, failures(w.verdicts(none)), "it has a rule of its own")
	third := w.run(3)
	three := w.seal(third)
	dropped := w.resign(three, third, func(h *PackHeader) { h.Settlement = nil })
	alone := w.verdicts(dropped)
	require.Empty(t, failures(alone), "by itself it has no rules")
	require.Equal(t, []Code{MeteringOK, DuplicatesUnproven, SettlementUnproven}, okCodes(alone)[len(okCodes(alone))-3:], "which is its word only")
	r := w.files(t, bundle(t, one, first), bundle(t, two, second), bundle(t, three, third))
	require.NotContains(t, okCodes(r.Files[2].Verdicts), SettlementUnproven, "now it is proven")
	r = w.files(t, bundle(t, one, first), bundle(t, three, third))
	require.Contains(t, okCodes(r.Files[1].Verdicts), SettlementUnproven, "the gap may hold more rules")
	for name, c := range map[string]struct {
		files [][]byte
		want  [][]Code
		ok    []Code // the last ones of the last file
	}{
		"sound":  {[][]byte{bundle(t, one, first), bundle(t, two, second)}, [][]Code{nil, nil}, []Code{MeteringOK, SettlementOK}},
		"forged": {[][]byte{bundle(t, one, first), forged}, [][]Code{nil, {SettlementMismatch}}, nil},
		"none":   {[][]byte{bundle(t, one, first), none}, [][]Code{nil, {SettlementMismatch}}, nil},
	} {
		r := w.files(t, c.files...)
		for i := range c.files {
			require.Equal(t, c.want[i], failures(r.Files[i].Verdicts), "%s: %+v", name, r.Files[i].Verdicts)
		}
		if codes := okCodes(r.Files[1].Verdicts); c.ok != nil {
			require.Equal(t, c.ok, codes[len(codes)-2:], name)
		}
	}
}

// forgedRule is the pack with another record of its first rule, and with what follows
// from that.
func (w *world) forgedRule(t *testing.T, p *SealedPack, events [][]byte) []byte {
	return w.resign(p, events, func(h *PackHeader) {
		h.Settlement = h.Settlement.clone()
		r := &h.Settlement.Rules[0]
		r.Record = bytes.Replace(r.Record, []byte(`"0.125"`), []byte(`"0.126"`), 1)
		var err error
		h.Settlement, err = ledgerOf(t, w, h, events).settlement(testRate)
		require.NoError(t, err)
		require.NotEqual(t, p.Header.Settlement.Lines, h.Settlement.Lines)
	})
}

// clone is a copy of which everything can be changed.
func (s *Settlement) clone() *Settlement {
	c := &Settlement{slices.Clone(s.Lines), slices.Clone(s.Rules), slices.Clone(s.Unrated)}
	for i := range c.Lines {
		c.Lines[i].Shares = slices.Clone(c.Lines[i].Shares)
	}
	return c
}

// files verifies texts together, under the world's root.
func (w *world) files(t *testing.T, texts ...[]byte) Report {
	t.Helper()
	anchor, err := readTrust(w.vkey, "")
	require.NoError(t, err)
	o := Options{Rate: testRate}
	for i, text := range texts {
		name := filepath.Join(t.TempDir(), fmt.Sprint(i))
		require.NoError(t, os.WriteFile(name, text, 0o600))
		o.Files = append(o.Files, name)
	}
	return verifyFiles(t.Context(), anchor, &o)
}

// ledgerOf folds the entries of a pack as its verification does.
func ledgerOf(t *testing.T, w *world, h *PackHeader, events [][]byte) *ledger {
	t.Helper()
	l := newLedger(h.TenantID, h.FirstIndex, NewTree(), newHistory(nil))
	l.claim, l.settles = h.claim(), true
	l.adopt(h.Rules())
	d, err := ReadDirectory(w.directory())
	require.NoError(t, err)
	in := inspector{d, PurposeReceipt, w.now}
	for _, e := range events {
		l.fold(in.inspect(e))
	}
	return l
}

// TestVerifyWithoutRating: what can't be recomputed is not believed.
func TestVerifyWithoutRating(t *testing.T) {
	w := newWorld(t)
	one, _, first, _ := w.settled()
	text := bundle(t, one, first)
	c := packCheck{trust: &trust{root: w.vkey}}
	require.NoError(t, c.run(t.Context(), bytes.NewReader(text), newHistory(nil)))
	require.Equal(t, []Code{SettlementMismatch}, failures(c.verdicts))
}

// TestUnsignedSettlement: anybody can write a pack of many rules and receipts that keeps who
// rates it busy, and the directory in it is public.
func TestUnsignedSettlement(t *testing.T) {
	w := newWorld(t)
	_, two, _, second := w.settled()
	signed := bundle(t, two, second)
	end := bytes.LastIndexByte(bytes.TrimSpace(signed), '\n') + 1
	stray, err := sign(w.packKey, []byte("something else"))
	require.NoError(t, err)
	unsigned := slices.Concat(signed[:end], signatureLine(two.Header.SigningKeyID, stray), []byte("\n"))
	rated := 0
	for pack, want := range map[string][]Code{string(signed): nil, string(unsigned): {SignatureInvalid}} {
		c := packCheck{trust: &trust{root: w.vkey}, rate: func(rules []SettlementRule, receipts iter.Seq[Metered]) ([]SettlementLine, []Unrated, error) {
			rated++
			return testRate(rules, receipts)
		}}
		require.NoError(t, c.run(t.Context(), strings.NewReader(pack), newHistory(nil)))
		require.Equal(t, want, failures(c.verdicts))
	}
	require.Equal(t, 1, rated)
}

// TestManyRules folds rules at a cost that does not grow with those before.
func TestManyRules(t *testing.T) {
	w := newWorld(t)
	p := w.seal(w.run(1))
	l := ledgerOf(t, w, &p.Header, nil)
	const n = 4000
	events := make([]finding, n)
	for i := range events {
		events[i].event = Event{EventID: w.id(eventPrefix), TenantID: w.tenant, Type: ruleCreated, Data: []byte(w.record(i))}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, f := range events {
		l.fold(f)
	}
	runtime.ReadMemStats(&after)
	s, err := l.settlement(testRate)
	require.NoError(t, err)
	require.Len(t, s.Rules, n)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(n*16<<10))
}

// TestEveryFlipInASettlementIsFound changes bytes of the header of a pack with a settlement,
// in the full form each of them, and some of its entries.
func TestEveryFlipInASettlementIsFound(t *testing.T) {
	w := newWorld(t)
	_, p, _, events := w.settled()
	step := rounds(11, 1)
	pack := bundle(t, p, events)
	w.flip(t, pack, every(step, p.HeaderText))
	w.flip(t, pack, every(7*step, pack))
}

// TestLargestHeader has as many lines as a pack has room for, of the longest texts.
func TestLargestHeader(t *testing.T) {
	w := newWorld(t)
	one, _, _, _ := w.settled()
	h := one.Header
	s := &Settlement{}
	id := func(prefix string) string { return named(prefix, "a name") }
	shares := slices.Repeat([]string{"922337203685.477581"}, rate.MaxShares)
	for range MaxPackEntries {
		h.Metering = append(h.Metering, MeterRow{id("rgh_"), "VOLUMETRIC", id("bas_"), "delivered", reasonMetered, 1, MaxDwellMs, math.MaxInt64})
		s.Lines = append(s.Lines, SettlementLine{id("rule_"), id("rgh_"), "delivered", 1, MaxDwellMs, "9223372036854.775807", shares})
	}
	for i := range 1000 {
		r := SettlementRule{uint64(i), []byte(w.record(i))}
		shares := strings.Repeat(`{"bps":1000,"counterpartyId":"`+id("cp_")+`"},`, rate.MaxShares)
		r.Record = append(r.Record, shares...)
		s.Rules = append(s.Rules, r)
	}
	h.Settlement = s
	require.Less(t, len(h.append(nil)), maxHeaderBytes)
}
