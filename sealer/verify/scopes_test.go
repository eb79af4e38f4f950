package verify

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/settle/rate"
	"muniment/sealer"
	"muniment/sealer/sealertest"
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
func (w *world) scoped(later bool) (packs []*sealer.SealedPack, events [][][]byte) {
	w.TB.Helper()
	w.Scopes = nil
	var rights [][]byte
	for _, id := range slices.Sorted(maps.Keys(scopesOf)) {
		scope, err := sealer.ScopeOf(id, []byte(scopesOf[id]))
		require.NoError(w.TB, err)
		w.Scopes, rights = append(w.Scopes, scope), append(rights, w.issued(id, scopesOf[id]))
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

// TestScopes: a pack lists what its rules name of the scopes of its rights, and no lie about that passes.
func TestScopes(t *testing.T) {
	w := newWorld(t)
	packs, events := w.scoped(false)
	s := packs[1].Header.Settlement
	require.Equal(t, []sealer.SettlementRight{
		{Campaigns: []string{"spring"}, Labels: map[string]string{"team": ""}, RightID: "rgh_0"}, {Campaigns: []string{"spring"}, Labels: map[string]string{}, RightID: "rgh_1"},
	}, s.Rights)
	rated := map[string]string{}
	for _, l := range s.Lines {
		rated[l.RightID] = l.RuleID
	}
	require.Equal(t, map[string]string{"rgh_0": sealertest.Named("rule_", "2"), "rgh_1": sealertest.Named("rule_", "1")}, rated)
	require.Equal(t, "rgh_2", s.Unrated[0].RightID)

	bundle := func(i int) []byte { return sealertest.Bundle(t, packs[i], events[i]) }
	r := w.files(t, bundle(0), bundle(1))
	require.True(t, r.OK, "%+v", r)
	require.NotContains(t, okCodes(r.Files[1].Verdicts), SettlementUnproven, "%+v", r)
	r = w.files(t, bundle(1))
	require.True(t, r.OK, "%+v", r)
	require.Contains(t, fmt.Sprint(r.Files[0].Verdicts), "issued 4 rights", "without the events of the rights")

	for name, c := range map[string]struct {
		change func(rights []sealer.SettlementRight) []sealer.SettlementRight
		alone  bool // it is found without the events of the rights
	}{
		"a campaign less": {func(r []sealer.SettlementRight) []sealer.SettlementRight { return r[:1] }, false},
		"a label less":    {func(r []sealer.SettlementRight) []sealer.SettlementRight { clear(r[0].Labels); return r }, false},
		"a campaign more": {func(r []sealer.SettlementRight) []sealer.SettlementRight {
			r[1].Campaigns = []string{"autumn", "spring"}
			return r
		}, false},
		"a label more":          {func(r []sealer.SettlementRight) []sealer.SettlementRight { r[1].Labels["team"] = ""; return r }, false},
		"a label no rule names": {func(r []sealer.SettlementRight) []sealer.SettlementRight { r[1].Labels["venue"] = "north"; return r }, true},
		"of no receipt": {func(r []sealer.SettlementRight) []sealer.SettlementRight {
			return append(r, sealer.SettlementRight{Campaigns: []string{"spring"}, Labels: map[string]string{}, RightID: "rgh_9"})
		}, true},
		"of nothing": {func(r []sealer.SettlementRight) []sealer.SettlementRight {
			return append(r, sealer.SettlementRight{Campaigns: []string{}, Labels: map[string]string{}, RightID: "rgh_2"})
		}, true},
	} {
		// The settlement is what the lie makes of the receipts.
		lie := w.resign(packs[1], events[1], func(h *sealer.PackHeader) {
			h.Settlement = cloneSettlement(h.Settlement)
			rights := c.change(h.Settlement.Rights)
			made, err := ledgerOf(t, w, h, events[1]).Settlement(rate.Rating.Rate, func(*sealer.ScopeNames, []string) ([]sealer.SettlementRight, error) { return rights, nil })
			require.NoError(t, err)
			made.Rights = rights
			h.Settlement = made
		})
		r := w.files(t, bundle(0), lie)
		require.Equal(t, []sealer.Code{SettlementMismatch}, failures(r.Files[1].Verdicts), "%s: %+v", name, r.Files[1].Verdicts)
		require.Empty(t, failures(r.Files[0].Verdicts), name)
		require.Equal(t, !c.alone, w.files(t, lie).OK, name)
	}
	order := w.resign(packs[1], events[1], func(h *sealer.PackHeader) {
		h.Settlement = cloneSettlement(h.Settlement)
		slices.Reverse(h.Settlement.Rights)
	})
	require.Equal(t, []sealer.Code{FormatInvalid}, failures(w.verdicts(order)))
}

// TestStatedScopes: so it is with statements.
func TestStatedScopes(t *testing.T) {
	b := newBooks(t)
	packs, events := b.scoped(true)
	for i := range packs {
		b.sealed, b.events, b.packs = append(b.sealed, packs[i]), append(b.events, events[i]), append(b.packs, sealertest.Bundle(t, packs[i], events[i]))
	}
	s := clone(t, &b.statement)
	s.AsOf = b.asOf(3)
	b.settle(&s)
	require.Len(t, s.Rights, 2)
	require.True(t, slices.ContainsFunc(s.Lines, func(l sealer.StatementLine) bool { return l.Price == "2" }))
	r := b.verify(&s, b.packs...)
	require.True(t, r.OK, "%+v", r)
	r = b.verify(&s, b.packs[:3]...)
	require.True(t, r.OK, "%+v", r)
	require.Contains(t, fmt.Sprint(r.Files[0].Verdicts), "issued 4 rights", "without the events of the rights")

	for name, change := range map[string]func(s *sealer.Statement){
		"a right less":          func(s *sealer.Statement) { s.Rights = s.Rights[:1] },
		"a campaign less":       func(s *sealer.Statement) { s.Rights[0].Campaigns = []string{} },
		"a label more":          func(s *sealer.Statement) { s.Rights[1].Labels = map[string]string{"team": ""} },
		"a label no rule names": func(s *sealer.Statement) { s.Rights[1].Labels = map[string]string{"venue": "north"} },
		"a right of no receipts": func(s *sealer.Statement) {
			s.Rights = append(s.Rights, sealer.SettlementRight{Campaigns: []string{"spring"}, RightID: "rgh_9"})
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
	}
}
