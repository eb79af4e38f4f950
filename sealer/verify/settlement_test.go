package verify

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

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/settlement"
)

// record is the record of the n-th rule, with whatever is changed: pairs of old and new.
func (w *world) record(n int, change ...string) string {
	moment := canonical.FormatTime(w.Now)
	text := fmt.Sprintf(`{"cap":null,"createdAt":"%s","currency":"EUR","effectiveFrom":"%s","effectiveUntil":null,"id":"%s",`+
		`"match":{"basisId":null,"campaign":null,"completion":null,"label":null,"meteringBasis":null,"rightId":null,"substrate":null},"minimum":null,"price":"0.125","priority":0,"revision":%d,`+
		`"shares":[{"bps":6667,"counterpartyId":"cp_studio"},{"bps":3333,"counterpartyId":"cp_agency"}],"state":"ACTIVE","tiers":[],"tiersMode":null,"timeZone":"UTC","unit":"SECOND","updatedAt":"%s"}`,
		moment, canonical.FormatTime(sealertest.Epoch), sealertest.Named("rule_", fmt.Sprint(n)), 40+n, moment)
	for i := 0; i < len(change); i += 2 {
		require.Contains(w.TB, text, change[i])
		text = strings.Replace(text, change[i], change[i+1], 1)
	}
	return text
}

// rule is the event of a rule's record.
func (w *world) rule(kind, record string) []byte {
	w.TB.Helper()
	w.Now = w.Now.Add(time.Second)
	id := (&settlement.Rule{Record: []byte(record)}).ID()
	require.NotEmpty(w.TB, id)
	event, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: w.ID("evt_"), TenantID: w.Tenant, Type: kind, At: w.Now,
		Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: sealer.Ref{Kind: "settlement_rule", ID: id}, Data: []byte(record),
	})
	require.NoError(w.TB, err)
	return event
}

const ruleCreated = "settlement_rule.created"

// settled is a log of two packs: rules, one of which is for a right only, and deliveries
// in both.
func (w *world) settled() (one, two *pack.Pack, first, second [][]byte) {
	w.TB.Helper()
	first = slices.Concat(w.Run(6), [][]byte{w.rule(ruleCreated, w.record(1)), w.Note("right.revoked")})
	one = w.Seal(first)
	second = slices.Concat(w.Run(9), [][]byte{
		w.rule(ruleCreated, w.record(2, `"rightId":null`, `"rightId":"rgh_1"`, `"unit":"SECOND"`, `"unit":"EVENT"`, `"0.125"`, `"0.000003"`)),
	})
	two = w.Seal(second)
	return one, two, first, second
}

func TestSettlement(t *testing.T) {
	w := newWorld(t)
	one, two, first, second := w.settled()

	s := one.Header.Settlement
	require.Equal(t, []settlement.Rule{{Leaf: 6, Record: eventData(t, first[6])}}, s.Rules)
	require.Empty(t, s.Unrated)
	require.Len(t, s.Lines, 3)
	require.Equal(t, settlement.Line{RuleID: sealertest.Named("rule_", "1"), RightID: "rgh_2", MeteringBasis: "viewable", Receipts: 1, QuantityMs: 3000, Impressions: sealer.Impression, Amount: "0.375", Shares: []string{"0.250012", "0.124988"}}, s.Lines[2],
		"a rule behind the receipts, in the pack, rates them")

	s = two.Header.Settlement
	require.Equal(t, []settlement.Rule{one.Header.Settlement.Rules[0], {Leaf: 17, Record: eventData(t, second[9])}}, s.Rules)
	i := slices.IndexFunc(s.Lines, func(l settlement.Line) bool { return l.RightID == "rgh_1" && l.MeteringBasis == "viewable" })
	require.Equal(t, settlement.Line{RuleID: sealertest.Named("rule_", "2"), RightID: "rgh_1", MeteringBasis: "viewable", Receipts: 2, QuantityMs: 9000, Impressions: 2 * sealer.Impression, Amount: "0.000006", Shares: []string{"0.000004", "0.000002"}}, s.Lines[i])

	for _, v := range [][]Verdict{w.verdicts(sealertest.Bundle(t, one, first)), w.verdicts(pack.AppendObject(nil, one, first))} {
		require.Empty(t, failures(v), "%v", v)
		require.Equal(t, SettlementOK, okCodes(v)[len(okCodes(v))-1])
	}
	v := w.verdicts(sealertest.Bundle(t, two, second))
	require.Empty(t, failures(v), "%v", v)
	require.Equal(t, []sealer.Code{SettlementOK, SettlementUnproven}, okCodes(v)[len(okCodes(v))-2:], "one rule is not in it")
}

func eventData(t *testing.T, event []byte) []byte {
	t.Helper()
	e, err := sealer.ParseEvent(event)
	require.NoError(t, err)
	return e.Data
}

// TestUnrated has receipts without a rule, duplicates and suppressed ones.
func TestUnrated(t *testing.T) {
	w := newWorld(t)
	events := append(w.Run(20), w.Delivery(2, "order 2"), w.rule(ruleCreated, w.record(1, `"rightId":null`, `"rightId":"rgh_2"`)))
	p := w.Seal(events)
	s, metered := p.Header.Settlement, int64(0)
	for _, r := range p.Header.Metering {
		if r.Reason == sealer.ReasonMetered {
			metered += r.Receipts
		}
	}
	require.NotEmpty(t, p.Header.Duplicates)
	rated, unrated := settledReceipts(s)
	require.Equal(t, metered, rated+unrated)
	require.Positive(t, unrated)
	require.NotEmpty(t, s.Lines)
	require.Empty(t, failures(w.verdicts(sealertest.Bundle(t, p, events))))
}

// TestARuleIsAmended has two more events of a rule: its last one counts, in its place.
func TestARuleIsAmended(t *testing.T) {
	w := newWorld(t)
	events := [][]byte{w.rule(ruleCreated, w.record(1)), w.rule(ruleCreated, w.record(2)), w.rule("settlement_rule.updated", w.record(1, `"0.125"`, `"0.25"`))}
	p := w.Seal(events)
	require.Equal(t, []settlement.Rule{{Leaf: 1, Record: eventData(t, events[1])}, {Leaf: 2, Record: eventData(t, events[2])}}, p.Header.Rules())
	more := [][]byte{w.rule("settlement_rule.retired", w.record(2, `"effectiveUntil":null`, `"effectiveUntil":"2026-06-01T00:00:00.000Z"`, "ACTIVE", "RETIRED"))}
	q := w.Seal(more)
	require.Equal(t, []settlement.Rule{{Leaf: 2, Record: eventData(t, events[2])}, {Leaf: 3, Record: eventData(t, more[0])}}, q.Header.Rules())
	require.Empty(t, failures(w.verdicts(sealertest.Bundle(t, p, events))))
	require.Empty(t, failures(w.verdicts(sealertest.Bundle(t, q, more))))
}

func TestSealRefusesRules(t *testing.T) {
	w := newWorld(t)
	_, err := w.TrySeal([][]byte{w.rule(ruleCreated, w.record(1))}, func(c *pack.Config) { c.Rate = nil })
	require.ErrorContains(t, err, "no Rate was given")
	_, err = w.TrySeal([][]byte{w.rule(ruleCreated, w.record(1, "SECOND", "HOUR"))})
	require.ErrorContains(t, err, "unit")
	lossy := func([]settlement.Rule, iter.Seq[settlement.Metered]) ([]settlement.Line, []settlement.Unrated, error) {
		return nil, nil, nil
	}
	_, err = w.TrySeal(append(w.Run(3), w.rule(ruleCreated, w.record(1))), func(c *pack.Config) { c.Rate = lossy })
	require.ErrorContains(t, err, "0 receipts were rated or counted, of 2")
	w.Now = w.Now.Add(time.Second)
	nameless, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: w.ID("evt_"), TenantID: w.Tenant, Type: ruleCreated, At: w.Now, Actor: sealer.Ref{Kind: "key", ID: "k"}, Subject: sealer.Ref{Kind: "settlement_rule", ID: "r"}, Data: []byte(`{"ID":"r"}`),
	})
	require.NoError(t, err)
	_, err = w.TrySeal([][]byte{nameless})
	require.ErrorContains(t, err, "it has no id")
}

// TestSettlementsOfALiar changes what a header says of its settlement. Each header is
// signed again by the pack's own key.
func TestSettlementsOfALiar(t *testing.T) {
	w := newWorld(t)
	_, p, _, events := w.settled()
	record := func(h *pack.Header, i int, old, new string) {
		r := &h.Settlement.Rules[i]
		require.Contains(t, string(r.Record), old)
		r.Record = []byte(strings.Replace(string(r.Record), old, new, 1))
	}
	for name, c := range map[string]struct {
		change func(*pack.Header)
		want   sealer.Code
	}{
		"an amount":              {func(h *pack.Header) { h.Settlement.Lines[0].Amount = "9" }, SettlementMismatch},
		"an amount respelt":      {func(h *pack.Header) { h.Settlement.Lines[0].Amount += "0" }, SettlementMismatch},
		"a share":                {func(h *pack.Header) { h.Settlement.Lines[2].Shares[0] = "0.000005" }, SettlementMismatch},
		"shares swapped":         {func(h *pack.Header) { slices.Reverse(h.Settlement.Lines[2].Shares) }, SettlementMismatch},
		"one share less":         {func(h *pack.Header) { h.Settlement.Lines[0].Shares = h.Settlement.Lines[0].Shares[:1] }, SettlementMismatch},
		"a receipt more":         {func(h *pack.Header) { h.Settlement.Lines[0].Receipts++ }, SettlementMismatch},
		"a millisecond more":     {func(h *pack.Header) { h.Settlement.Lines[0].QuantityMs++ }, SettlementMismatch},
		"an impression more":     {func(h *pack.Header) { h.Settlement.Lines[0].Impressions += sealer.Impression }, SettlementMismatch},
		"another right":          {func(h *pack.Header) { h.Settlement.Lines[0].RightID = "rgh_9" }, SettlementMismatch},
		"another rule":           {func(h *pack.Header) { h.Settlement.Lines[0].RuleID = sealertest.Named("rule_", "2") }, SettlementMismatch},
		"another tier":           {func(h *pack.Header) { h.Settlement.Lines[0].MeteringBasis = "audible" }, SettlementMismatch},
		"a line less":            {func(h *pack.Header) { h.Settlement.Lines = h.Settlement.Lines[1:] }, SettlementMismatch},
		"a line more":            {func(h *pack.Header) { h.Settlement.Lines = append(h.Settlement.Lines, h.Settlement.Lines[0]) }, SettlementMismatch},
		"lines in another order": {func(h *pack.Header) { slices.Reverse(h.Settlement.Lines) }, SettlementMismatch},
		"a line as unrated":      {func(h *pack.Header) { unrate(h.Settlement) }, SettlementMismatch},
		"receipts made up": {func(h *pack.Header) {
			h.Settlement.Unrated = []settlement.Unrated{{RightID: "rgh_1", MeteringBasis: "gross", Reason: "NO_RULE", Receipts: 1, QuantityMs: 1, Impressions: 1}}
		}, SettlementMismatch},
		"no settlement":           {func(h *pack.Header) { h.Settlement = nil }, SettlementMismatch},
		"a rule of the pack":      {func(h *pack.Header) { record(h, 1, "0.000003", "0.000004") }, SettlementMismatch},
		"a rule of before":        {func(h *pack.Header) { record(h, 0, "0.125", "0.225") }, SettlementMismatch},
		"the unit of one":         {func(h *pack.Header) { record(h, 1, "EVENT", "MS") }, SettlementMismatch},
		"a unit that is none":     {func(h *pack.Header) { record(h, 0, "SECOND", "HOUR") }, SettlementMismatch},
		"a second unit":           {func(h *pack.Header) { record(h, 0, `"unit":"SECOND"`, `"unit":"SECOND","unit2":"EVENT"`) }, SettlementMismatch},
		"a rule respelt":          {func(h *pack.Header) { record(h, 0, `"price":`, `"price": `) }, FormatInvalid},
		"a rule less":             {func(h *pack.Header) { h.Settlement.Rules = h.Settlement.Rules[:1] }, SettlementMismatch},
		"an older rule less":      {func(h *pack.Header) { h.Settlement.Rules = h.Settlement.Rules[1:] }, SettlementMismatch},
		"a rule of another leaf":  {func(h *pack.Header) { h.Settlement.Rules[1].Leaf-- }, SettlementMismatch},
		"a rule of no event":      {func(h *pack.Header) { h.Settlement.Rules[0].Leaf = 9 }, SettlementMismatch},
		"a rule of a later leaf":  {func(h *pack.Header) { h.Settlement.Rules[1].Leaf = h.TreeSize }, FormatInvalid},
		"rules in another order":  {func(h *pack.Header) { slices.Reverse(h.Settlement.Rules) }, FormatInvalid},
		"a settlement of nothing": {func(h *pack.Header) { h.Settlement = new(settlement.Settlement) }, FormatInvalid},
	} {
		bundle := w.resign(p, events, func(h *pack.Header) {
			h.Settlement = cloneSettlement(h.Settlement)
			c.change(h)
		})
		require.Equal(t, []sealer.Code{c.want}, failures(w.verdicts(bundle)), name)
	}
}

// unrate calls a line unrated: the receipts still add up.
func unrate(s *settlement.Settlement) {
	l := s.Lines[0]
	s.Lines = s.Lines[1:]
	s.Unrated = []settlement.Unrated{{RightID: l.RightID, MeteringBasis: l.MeteringBasis, Reason: "NO_RULE", Receipts: l.Receipts, QuantityMs: l.QuantityMs, Impressions: l.Impressions}}
}

// TestRulesOfAChain gives packs together: what a pack says of older rules has to be what
// the one before has come to.
func TestRulesOfAChain(t *testing.T) {
	w := newWorld(t)
	one, two, first, second := w.settled()
	forged := w.forgedRule(t, two, second)
	require.Empty(t, failures(w.verdicts(forged)), "by itself there is its word only")
	none := w.resign(two, second, func(h *pack.Header) { h.Settlement = nil })
	require.Equal(t, []sealer.Code{SettlementMismatch}, failures(w.verdicts(none)), "it has a rule of its own")
	third := w.Run(3)
	three := w.Seal(third)
	dropped := w.resign(three, third, func(h *pack.Header) { h.Settlement = nil })
	alone := w.verdicts(dropped)
	require.Empty(t, failures(alone), "by itself it has no rules")
	require.Equal(t, []sealer.Code{MeteringOK, DuplicatesUnproven, SettlementUnproven}, okCodes(alone)[len(okCodes(alone))-3:], "which is its word only")
	r := w.files(t, sealertest.Bundle(t, one, first), sealertest.Bundle(t, two, second), sealertest.Bundle(t, three, third))
	require.NotContains(t, okCodes(r.Files[2].Verdicts), SettlementUnproven, "now it is proven")
	r = w.files(t, sealertest.Bundle(t, one, first), sealertest.Bundle(t, three, third))
	require.Contains(t, okCodes(r.Files[1].Verdicts), SettlementUnproven, "the gap may hold more rules")
	for name, c := range map[string]struct {
		files [][]byte
		want  [][]sealer.Code
		ok    []sealer.Code // the last ones of the last file
	}{
		"sound":  {[][]byte{sealertest.Bundle(t, one, first), sealertest.Bundle(t, two, second)}, [][]sealer.Code{nil, nil}, []sealer.Code{MeteringOK, SettlementOK}},
		"forged": {[][]byte{sealertest.Bundle(t, one, first), forged}, [][]sealer.Code{nil, {SettlementMismatch}}, nil},
		"none":   {[][]byte{sealertest.Bundle(t, one, first), none}, [][]sealer.Code{nil, {SettlementMismatch}}, nil},
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
func (w *world) forgedRule(t *testing.T, p *pack.Pack, events [][]byte) []byte {
	return w.resign(p, events, func(h *pack.Header) {
		h.Settlement = cloneSettlement(h.Settlement)
		r := &h.Settlement.Rules[0]
		r.Record = bytes.Replace(r.Record, []byte(`"0.125"`), []byte(`"0.126"`), 1)
		var err error
		h.Settlement, err = ledgerOf(t, w, h, events).Settlement(rate.Rating.Rate, nil)
		require.NoError(t, err)
		require.NotEqual(t, p.Header.Settlement.Lines, h.Settlement.Lines)
	})
}

// clone is a copy of which everything can be changed.
func cloneSettlement(s *settlement.Settlement) *settlement.Settlement {
	c := &settlement.Settlement{Lines: slices.Clone(s.Lines), Rules: slices.Clone(s.Rules), Unrated: slices.Clone(s.Unrated)}
	for i := range c.Lines {
		c.Lines[i].Shares = slices.Clone(c.Lines[i].Shares)
	}
	return c
}

// files verifies texts together, under the world's root.
func (w *world) files(t *testing.T, texts ...[]byte) Report {
	t.Helper()
	anchor, err := readTrust(w.VKey, "")
	require.NoError(t, err)
	o := Options{Rating: rate.Rating}
	for i, text := range texts {
		name := filepath.Join(t.TempDir(), fmt.Sprint(i))
		require.NoError(t, os.WriteFile(name, text, 0o600))
		o.Files = append(o.Files, name)
	}
	return verifyFiles(t.Context(), anchor, &o)
}

// ledgerOf folds the entries of a pack as its verification does.
func ledgerOf(t testing.TB, w *world, h *pack.Header, events [][]byte) *pack.Ledger {
	t.Helper()
	l := pack.NewLedger(h.TenantID, h.FirstIndex, merkle.NewTree(), nil)
	l.Claim, l.Settles = claimOf(h), true
	l.Adopt(h.Rules())
	d, err := keydir.Read(w.Directory())
	require.NoError(t, err)
	in := pack.Inspector{Directory: d, Purpose: keydir.PurposeReceipt, SealedAt: w.Now}
	for _, e := range events {
		l.Fold(in.Inspect(e)[0])
	}
	return l
}

// TestVerifyWithoutRating: what can't be recomputed is not believed.
func TestVerifyWithoutRating(t *testing.T) {
	w := newWorld(t)
	one, _, first, _ := w.settled()
	text := sealertest.Bundle(t, one, first)
	c := packCheck{trust: &trust{root: w.VKey}}
	require.NoError(t, c.run(t.Context(), bytes.NewReader(text), nil))
	require.Equal(t, []sealer.Code{SettlementMismatch}, failures(c.verdicts))
}

// TestUnsignedSettlement: anybody can write a pack of many rules and receipts that keeps who
// rates it busy, and the directory in it is public.
func TestUnsignedSettlement(t *testing.T) {
	w := newWorld(t)
	_, two, _, second := w.settled()
	signed := sealertest.Bundle(t, two, second)
	end := bytes.LastIndexByte(bytes.TrimSpace(signed), '\n') + 1
	stray, err := sign(w.PackKey, []byte("something else"))
	require.NoError(t, err)
	unsigned := slices.Concat(signed[:end], signatureLine(two.Header.SigningKeyID, stray), []byte("\n"))
	rated := 0
	for pack, want := range map[string][]sealer.Code{string(signed): nil, string(unsigned): {sealer.SignatureInvalid}} {
		c := packCheck{trust: &trust{root: w.VKey}, rate: func(rules []settlement.Rule, receipts iter.Seq[settlement.Metered]) ([]settlement.Line, []settlement.Unrated, error) {
			rated++
			return rate.Rating.Rate(rules, receipts)
		}}
		require.NoError(t, c.run(t.Context(), strings.NewReader(pack), nil))
		require.Equal(t, want, failures(c.verdicts))
	}
	require.Equal(t, 1, rated)
}

// TestManyRules folds rules at a cost that does not grow with those before.
func TestManyRules(t *testing.T) {
	w := newWorld(t)
	p := w.Seal(w.Run(1))
	l := ledgerOf(t, w, &p.Header, nil)
	const n = 4000
	events := make([]pack.Finding, n)
	for i := range events {
		events[i].Event = sealer.Event{EventID: w.ID("evt_"), TenantID: w.Tenant, Type: ruleCreated, Data: []byte(w.record(i))}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, f := range events {
		l.Fold(f)
	}
	runtime.ReadMemStats(&after)
	s, err := l.Settlement(rate.Rating.Rate, nil)
	require.NoError(t, err)
	require.Len(t, s.Rules, n)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(n*16<<10))
}

// TestEveryFlipInASettlementIsFound changes bytes of the header of a pack with a settlement,
// in the full form each of them, and some of its entries.
func TestEveryFlipInASettlementIsFound(t *testing.T) {
	w := newWorld(t)
	_, p, _, events := w.settled()
	step := sealertest.Rounds(11, 1)
	pack := sealertest.Bundle(t, p, events)
	w.flip(t, pack, every(step, p.HeaderText))
	w.flip(t, pack, every(7*step, pack))
}

// TestLargestHeader has as many lines as a pack can have, of the longest texts.
func TestLargestHeader(t *testing.T) {
	w := newWorld(t)
	one, _, _, _ := w.settled()
	h := one.Header
	s := &settlement.Settlement{}
	right, basis := sealertest.Named("rgh_", "a name"), sealertest.Named("bas_", "a name")
	rule, party := sealertest.Named("rule_", "a name"), sealertest.Named("cp_", "a name")
	shares := slices.Repeat([]string{"922337203685.477581"}, rate.MaxShares)
	for range pack.MaxEntries {
		h.Metering = append(h.Metering, pack.MeterRow{RightID: right, Substrate: "VOLUMETRIC", BasisID: basis, MeteringBasis: "delivered", Reason: sealer.ReasonMetered, Receipts: 1, QuantityMs: sealer.MaxDwellMs, Impressions: math.MaxInt64})
		s.Lines = append(s.Lines, settlement.Line{RuleID: rule, RightID: right, MeteringBasis: "delivered", Receipts: 1, QuantityMs: sealer.MaxDwellMs, Impressions: math.MaxInt64, Amount: "9223372036854.775807", Shares: shares})
	}
	for i := range 1000 {
		r := settlement.Rule{Leaf: uint64(i), Record: []byte(w.record(i))}
		shares := strings.Repeat(`{"bps":1000,"counterpartyId":"`+party+`"},`, rate.MaxShares)
		r.Record = append(r.Record, shares...)
		s.Rules = append(s.Rules, r)
	}
	h.Settlement = s
	require.Less(t, len(h.Append(nil)), 80<<20)
}
