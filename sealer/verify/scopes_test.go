package verify

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// issued is the event of a right with a scope.
func (w *world) issued(rightID, scope string) []byte {
	w.TB.Helper()
	w.Now = w.Now.Add(time.Second)
	event, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: w.ID("evt_"), TenantID: w.Tenant, Type: sealer.TypeRightIssued, At: w.Now,
		Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: sealer.Ref{Kind: "right", ID: rightID}, Data: fmt.Appendf(nil, `{"revision":0,"scope":%s}`, scope),
	})
	require.NoError(w.TB, err)
	return event
}

// scopesOf are those of the rights of the world's deliveries, as their events have them.
var scopesOf = map[string]string{"rgh_0": `{"campaigns":["winter","spring"],"labels":{"team":"","venue":"north"}}`, "rgh_1": `{"campaigns":["spring"]}`, "rgh_2": `{}`, "rgh_3": `{"labels":{"team":"west"}}`}

// scoped are two packs: the events of rights, and rules for a campaign and for a label with receipts; the
// rights may come later.
func (w *world) scoped(scopes map[string]string, later bool) (packs []*pack.Pack, events [][][]byte) {
	w.TB.Helper()
	w.Scopes = nil
	var rights [][]byte
	for _, id := range slices.Sorted(maps.Keys(scopes)) {
		event := w.issued(id, scopes[id])
		e, err := sealer.ParseEvent(event)
		require.NoError(w.TB, err)
		w.Scopes, rights = append(w.Scopes, *settlement.RightIn(&e)), append(rights, event)
	}
	rules := [][]byte{
		w.rule(ruleCreated, w.record(1, `"campaign":null`, `"campaign":"spring"`)),
		w.rule(ruleCreated, w.record(2, `"label":null`, `"label":{"name":"team","value":""}`, `"priority":0`, `"priority":1`, `"0.125"`, `"2"`)),
		w.rule(ruleCreated, w.record(3, `"campaign":null`, `"campaign":"autumn"`)),
	}
	order := [][][]byte{rights, append(rules, w.Run(9)...)}
	if later {
		slices.Reverse(order)
	}
	for _, some := range order {
		packs, events = append(packs, w.Seal(some)), append(events, some)
	}
	return packs, events
}

// relabelled is a pack that is rated by other scopes.
func (w *world) relabelled(p *pack.Pack, events [][]byte, rights []settlement.Right) []byte {
	w.TB.Helper()
	return w.resign(p, events, func(h *pack.Header) {
		var err error
		h.Settlement, err = ledgerOf(w.TB, w, h, events).Settlement(rate.Rating.Rate, func(*settlement.ScopeNames, []string) ([]settlement.Right, error) { return rights, nil })
		require.NoError(w.TB, err)
	})
}

// TestScopes: a pack's lines are by the scopes of its rights, and no lie about these passes.
func TestScopes(t *testing.T) {
	w := newWorld(t)
	packs, events := w.scoped(scopesOf, false)
	s := packs[1].Header.Settlement
	rated := map[string]string{}
	for _, l := range s.Lines {
		rated[l.RightID] = l.RuleID
	}
	require.Equal(t, map[string]string{"rgh_0": sealertest.Named("rule_", "2"), "rgh_1": sealertest.Named("rule_", "1")}, rated)
	require.Equal(t, "rgh_2", s.Unrated[0].RightID)
	said, err := s.Rights()
	require.NoError(t, err)
	require.ElementsMatch(t, []settlement.Right{{RightID: "rgh_0", Labels: map[string]string{"team": ""}}, {Campaigns: []string{"spring"}, RightID: "rgh_1", Labels: map[string]string{}}}, said)

	bundle := func(i int) []byte { return sealertest.Bundle(t, packs[i], events[i]) }
	r := w.files(t, bundle(0), bundle(1))
	require.True(t, r.OK, "%+v", r)
	require.NotContains(t, okCodes(r.Files[1].Verdicts), SettlementUnproven, "%+v", r)
	r = w.files(t, bundle(1))
	require.True(t, r.OK, "%+v", r)
	require.Contains(t, fmt.Sprint(r.Files[0].Verdicts), "issued 4 rights", "without the events of the rights")

	spring := func(id string) settlement.Right {
		return settlement.Right{Campaigns: []string{"spring"}, RightID: id}
	}
	for name, rights := range map[string][]settlement.Right{
		"a campaign less": w.Scopes[:1],
		"a label less":    {spring("rgh_0"), spring("rgh_1")},
		"another rule":    {w.Scopes[0], {Campaigns: []string{"autumn"}, RightID: "rgh_1"}},
		"a campaign more": {w.Scopes[0], w.Scopes[1], spring("rgh_2")},
	} {
		lie := w.relabelled(packs[1], events[1], rights)
		for _, files := range [][][]byte{{bundle(0), lie}, {lie, bundle(0)}} {
			r := w.files(t, files...)
			for _, f := range r.Files {
				if f.Verdicts[len(f.Verdicts)-1].Code == SettlementMismatch {
					require.Equal(t, []sealer.Code{SettlementMismatch}, failures(f.Verdicts), "%s: %+v", name, f.Verdicts)
				} else {
					require.Empty(t, failures(f.Verdicts), name)
				}
			}
			require.False(t, r.OK, name)
		}
		require.True(t, w.files(t, lie).OK, name)
	}
	// What the lines say of one right contradicts itself: by the label no receipt would be left for the campaign.
	torn := w.resign(packs[1], events[1], func(h *pack.Header) {
		h.Settlement = cloneSettlement(h.Settlement)
		i := slices.IndexFunc(h.Settlement.Lines, func(l settlement.Line) bool { return l.RightID == "rgh_0" })
		line := h.Settlement.Lines[i]
		line.RuleID, line.Receipts = sealertest.Named("rule_", "1"), 1
		h.Settlement.Lines = slices.Insert(h.Settlement.Lines, i, line)
	})
	require.Equal(t, []sealer.Code{SettlementMismatch}, failures(w.verdicts(torn)))
}

// TestRightIssuedTwice: events of one right that differ in what rules name refute what rests on it, in any order
// of the files.
func TestRightIssuedTwice(t *testing.T) {
	w := newWorld(t)
	packs, events := w.scoped(scopesOf, false)
	again := func(scope string) []byte {
		later := [][]byte{w.issued("rgh_1", scope)}
		return sealertest.Bundle(t, w.Seal(later), later)
	}
	rights, receipts := sealertest.Bundle(t, packs[0], events[0]), sealertest.Bundle(t, packs[1], events[1])
	same, other := again(`{"campaigns":["spring","summer"],"labels":{"venue":"x"}}`), again(`{"campaigns":["summer"]}`)
	require.True(t, w.files(t, rights, receipts, same).OK, "what no rule names does not count")
	for _, files := range [][][]byte{{receipts, rights, other}, {receipts, other, rights}} {
		r := w.files(t, files...)
		require.Equal(t, []sealer.Code{SettlementMismatch}, failures(r.Files[0].Verdicts))
		require.Contains(t, fmt.Sprint(r.Files[0].Verdicts), "issues the right rgh_1 twice")
	}
}

// TestHeaderNamesScopesOnce: however many names a right has, and however many rights have them, the header has each in
// its rule alone, so that it can't become too long to be sealed.
func TestHeaderNamesScopesOnce(t *testing.T) {
	w := newWorld(t)
	var rules [][]byte
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("campaign %02d", i))
		rules = append(rules, w.rule(ruleCreated, w.record(i, `"campaign":null`, `"campaign":"`+names[i]+`"`)))
	}
	for i := range 4 {
		w.Scopes = append(w.Scopes, settlement.Right{RightID: fmt.Sprint("rgh_", i), Campaigns: names})
	}
	p := w.Seal(append(rules, w.Run(9)...))
	require.NotEmpty(t, p.Header.Settlement.Lines)
	for _, name := range names {
		require.Equal(t, 1, bytes.Count(p.HeaderText, []byte(name)), name)
	}
}

// TestScopesAreBounded: of rights nothing is kept but what rules name, and nothing of a pack that nobody signed.
func TestScopesAreBounded(t *testing.T) {
	w := newWorld(t)
	packs, events := w.scoped(scopesOf, false)
	names, err := settlement.ScopeNamesOf(packs[1].Header.Rules())
	require.NoError(t, err)
	run := func(bundle []byte, names *settlement.ScopeNames) map[keptID][]settlement.Right {
		c := packCheck{trust: &trust{root: w.VKey}, rate: rate.Rating.Rate, scopes: names}
		require.NoError(t, c.run(t.Context(), bytes.NewReader(bundle), nil))
		return c.conduct.scopes
	}
	bundle := sealertest.Bundle(t, packs[0], events[0])
	none, err := settlement.ScopeNamesOf(nil)
	require.NoError(t, err)
	require.Empty(t, run(bundle, &none))
	require.Empty(t, run(bundle, nil))
	kept := run(bundle, &names)
	require.Equal(t, []settlement.Right{{Campaigns: []string{"spring"}, Labels: map[string]string{"team": ""}, RightID: "rgh_0"}}, kept[unique.Make("rgh_0")])
	require.Len(t, kept, 4)
	i := bytes.LastIndex(bundle, []byte(`"value":"`)) + len(`"value":"`)
	forged := slices.Clone(bundle)
	forged[i] ^= 1
	require.Empty(t, run(forged, &names))
}

// TestStatedScopes: so it is with statements.
func TestStatedScopes(t *testing.T) {
	b := newBooks(t)
	packs, events := b.scoped(scopesOf, true)
	for i := range packs {
		b.sealed, b.events, b.packs = append(b.sealed, packs[i]), append(b.events, events[i]), append(b.packs, sealertest.Bundle(t, packs[i], events[i]))
	}
	s := clone(t, &b.statement)
	s.AsOf = b.asOf(3)
	b.settle(&s)
	require.Len(t, s.Rights, 2)
	require.True(t, slices.ContainsFunc(s.Lines, func(l statement.Line) bool { return l.Price == "2" }))
	r := b.verify(&s, b.packs...)
	require.True(t, r.OK, "%+v", r)
	r = b.verify(&s, b.packs[:3]...)
	require.True(t, r.OK, "%+v", r)
	require.Contains(t, fmt.Sprint(r.Files[0].Verdicts), "issued 4 rights", "without the events of the rights")

	for name, change := range map[string]func(s *statement.Statement){
		"a right less":          func(s *statement.Statement) { s.Rights = s.Rights[:1] },
		"a campaign less":       func(s *statement.Statement) { s.Rights[0].Campaigns = []string{} },
		"a label more":          func(s *statement.Statement) { s.Rights[1].Labels = map[string]string{"team": ""} },
		"a label no rule names": func(s *statement.Statement) { s.Rights[1].Labels = map[string]string{"venue": "north"} },
		"a right of no receipts": func(s *statement.Statement) {
			s.Rights = append(s.Rights, settlement.Right{Campaigns: []string{"spring"}, RightID: "rgh_9"})
		},
	} {
		lie := clone(t, &s)
		change(&lie)
		kept := b.Scopes
		b.Scopes = lie.Rights
		rights := lie.Rights
		b.settle(&lie) // by what it says
		b.Scopes, lie.Rights = kept, rights
		require.Equal(t, []sealer.Code{StatementRule}, failures(b.verify(&lie, b.packs...).Files[0].Verdicts), name)
		if name != "a right of no receipts" { // of which no event is at hand
			require.Contains(t, failures(b.verify(&lie, b.packs[2:]...).Files[0].Verdicts), StatementRule, "%s, without the first packs", name)
		}
	}
	for name, change := range map[string]func(r []settlement.Right){
		"a campaign twice":      func(r []settlement.Right) { r[0].Campaigns = []string{"spring", "spring"} },
		"campaigns unsorted":    func(r []settlement.Right) { r[0].Campaigns = []string{"winter", "spring"} },
		"an empty campaign":     func(r []settlement.Right) { r[0].Campaigns = []string{""} },
		"a label without name":  func(r []settlement.Right) { r[0].Labels = map[string]string{"": ""} },
		"rights out of order":   func(r []settlement.Right) { slices.Reverse(r) },
		"a right twice":         func(r []settlement.Right) { r[1] = r[0] },
		"a right without an id": func(r []settlement.Right) { r[0].RightID = "" },
	} {
		lie := clone(t, &s)
		change(lie.Rights)
		require.Equal(t, []sealer.Code{FormatInvalid}, failures(b.verify(&lie, b.packs[:3]...).Files[0].Verdicts), name)
	}
}
