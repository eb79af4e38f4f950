package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/settlement"
)

// settlement has a log with settlement rules, and lies about what they make.
func (v *vectors) settlement() {
	w := newWorld(v.t)
	w.Tenant = sealertest.TenantID("settled")
	keep := v.w
	v.w = w // the lies are signed by its keys
	defer func() { v.w = keep }()
	one, two, first, second := w.settled()
	settled1 := v.put("good/settled-1.ndjson", sealertest.Bundle(v.t, one, first))
	settled2 := v.put("good/settled-2.ndjson", sealertest.Bundle(v.t, two, second))
	amended := [][]byte{
		w.rule("settlement_rule.retired", w.record(2, `"effectiveUntil":null`, `"effectiveUntil":"`+canonical.FormatTime(w.Now)+`"`, "ACTIVE", "RETIRED")),
		w.rule(ruleCreated, w.record(3, `"meteringBasis":null`, `"meteringBasis":"viewable"`, `"substrate":null`, `"substrate":"CTV"`, `"priority":0`, `"priority":2`,
			`"0.125"`, `"9223372036.854775807"`, "SECOND", "MS")),
	}
	amended = append(amended,
		w.rule(ruleCreated, w.record(4, `"rightId":null`, `"rightId":"rgh_0"`, `"completion":null`, `"completion":"complete"`, `"SECOND"`, `"IMPRESSION"`, `"priority":0`, `"priority":3`)),
		w.rule(ruleCreated, w.record(5, `"rightId":null`, `"rightId":"rgh_2"`, `"SECOND"`, `"CPM"`, `"0.125"`, `"12.5"`, `"minimum":null`, `"minimum":"0.5"`, `"cap":null`, `"cap":"250"`)))
	amended = append(amended, w.Run(12)...)
	settled3 := v.put("good/settled-3.ndjson", sealertest.Bundle(v.t, w.Seal(amended), amended))
	v.good("settlement", "a pack with one settlement rule, which stands behind most of the receipts that it rates", settled1)
	v.good("settlement, older rule", "the second rule is for one right, the first is in the pack before, which is not given", settled2)
	v.good("settlements of a log", "in the third pack a rule has been retired, and one has a price for which not every amount can be stated; one is per impression, one per thousand, with a minimum and a cap that change no line", settled3, settled1, settled2)

	lie := func(name, about string, change func(*pack.Header)) {
		v.bad(name, about+"; signed by the pack's own key", w.resign(two, second, func(h *pack.Header) {
			h.Settlement = cloneSettlement(h.Settlement)
			change(h)
		}), SettlementMismatch)
	}
	rule := func(h *pack.Header, i int, old, new string) {
		r := &h.Settlement.Rules[i]
		r.Record = []byte(strings.Replace(string(r.Record), old, new, 1))
	}
	lie("lie-settlement-amount", "an amount is a millionth higher", func(h *pack.Header) { h.Settlement.Lines[0].Amount = "0.750001" })
	lie("lie-settlement-share", "a millionth of a share went to the other", func(h *pack.Header) {
		h.Settlement.Lines[0].Shares = []string{"0.500024", "0.249976"}
	})
	lie("lie-settlement-line", "a line is missing", func(h *pack.Header) { h.Settlement.Lines = h.Settlement.Lines[1:] })
	lie("lie-settlement-unrated", "the receipts of a line are called unrated", func(h *pack.Header) { unrate(h.Settlement) })
	lie("lie-settlement-twice", "a line stands there twice", func(h *pack.Header) {
		h.Settlement.Lines = append(h.Settlement.Lines, h.Settlement.Lines[len(h.Settlement.Lines)-1])
	})
	lie("lie-settlement-price", "the price of a rule is not that of its event", func(h *pack.Header) { rule(h, 1, "0.000003", "0.000004") })
	lie("lie-settlement-unit", "the unit of a rule is none", func(h *pack.Header) { rule(h, 0, "SECOND", "HOUR") })
	lie("lie-settlement-member", "a rule has a unit too many", func(h *pack.Header) { rule(h, 0, `"unit":"SECOND"`, `"unit":"SECOND","unit2":"MS"`) })
	lie("lie-settlement-rule", "a rule of the pack is missing", func(h *pack.Header) { h.Settlement.Rules = h.Settlement.Rules[:1] })
	lie("lie-settlement-none", "there is no settlement", func(h *pack.Header) { h.Settlement = nil })

	forged := v.put("bad/settled-forged.ndjson", w.forgedRule(v.t, two, second))
	v.good("older rule forged, alone", "the record of the older rule is not that of its event: by itself it can't be detected", forged)
	v.cases = append(v.cases, vector{
		Name: "older rule forged", About: "the pack before shows it",
		Files: []string{settled1, forged}, Failures: [][]sealer.Code{nil, {SettlementMismatch}},
	})
}

// scopes has logs with rules for a campaign and a label, and lies about the rights.
func (v *vectors) scopes() {
	w := newWorld(v.t)
	w.Tenant = sealertest.TenantID("scoped")
	packs, events := w.scoped(scopesOf, false)
	rights := v.put("good/scoped-1.ndjson", sealertest.Bundle(v.t, packs[0], events[0]))
	scoped := v.put("good/scoped-2.ndjson", sealertest.Bundle(v.t, packs[1], events[1]))
	v.good("campaigns and labels", "rules match a campaign and a label of rights, whose events are in the pack before", rights, scoped)
	v.good("campaigns and labels, alone", "the events of the rights are not given", scoped)
	bad := func(name, about string, failures [][]sealer.Code, files ...string) {
		v.cases = append(v.cases, vector{Name: name, About: about, Files: files, Failures: failures})
	}
	mismatch := []sealer.Code{SettlementMismatch}
	less := v.put("bad/lie-right-campaign.ndjson", w.relabelled(packs[1], events[1], w.Scopes[:1]))
	v.good("a campaign left out, alone", "only the event of the right shows it", less)
	bad("a campaign left out", "the event of the right has it; signed by the pack's own key", [][]sealer.Code{nil, mismatch}, rights, less)
	more := v.put("bad/lie-right-label.ndjson", w.relabelled(packs[1], events[1], append(slices.Clone(w.Scopes[:2]), settlement.Right{RightID: "rgh_2", Labels: map[string]string{"team": ""}})))
	bad("a label that the right does not have", "signed by the pack's own key", [][]sealer.Code{mismatch, nil}, more, rights)

	later := [][]byte{w.issued("rgh_1", `{"campaigns":["summer"]}`)}
	twice := v.put("bad/right-twice.ndjson", sealertest.Bundle(v.t, w.Seal(later), later))
	bad("a right issued twice", "the second event says otherwise", [][]sealer.Code{nil, mismatch, nil}, rights, scoped, twice)
	bad("a right issued twice, the second event first", "the order of the files does not count", [][]sealer.Code{nil, mismatch, nil}, twice, scoped, rights)
	bad("a right issued twice, the first event missing", "the pack is not as the second event says", [][]sealer.Code{nil, mismatch}, twice, scoped)

	for i, odd := range oddScopes {
		w := newWorld(v.t)
		w.Tenant = sealertest.TenantID(fmt.Sprint("odd scopes ", i))
		packs, events := w.scoped(odd, false)
		rights := v.put(fmt.Sprintf("good/odd-scopes-%d1.ndjson", i), sealertest.Bundle(v.t, packs[0], events[0]))
		v.good(fmt.Sprint("odd scopes ", i), "campaigns or labels are not of their type, so they don't count", rights, v.put(fmt.Sprintf("good/odd-scopes-%d2.ndjson", i), sealertest.Bundle(v.t, packs[1], events[1])))
		var all []settlement.Right
		for _, id := range slices.Sorted(maps.Keys(odd)) {
			all = append(all, settlement.Right{RightID: id, Campaigns: []string{"spring"}, Labels: map[string]string{"team": ""}})
		}
		lie := v.put(fmt.Sprintf("bad/lie-odd-scopes-%d.ndjson", i), w.relabelled(packs[1], events[1], all))
		bad(fmt.Sprintf("odd scopes %d, read otherwise", i), "what is not of its type is called a campaign and a label", [][]sealer.Code{nil, mismatch}, rights, lie)
	}
}

// oddScopes are scopes of which nothing, or not all, can be read.
var oddScopes = []map[string]string{
	{"rgh_0": `null`, "rgh_1": `{"campaigns":[null,"spring"]}`, "rgh_2": `{"labels":{"team":null}}`, "rgh_3": `{"campaigns":["spring"],"rightId":5}`},
	{"rgh_0": `{"campaigns":"spring"}`, "rgh_1": `{"campaigns":{},"labels":{"team":""}}`, "rgh_2": `{"campaigns":["spring"],"labels":[]}`, "rgh_3": `{"campaigns":null,"labels":{"team":""}}`},
	{"rgh_0": `"spring"`, "rgh_1": `{"campaigns":["spring",1]}`, "rgh_2": `["spring"]`, "rgh_3": `{"labels":{"team":"","venue":1}}`},
}

// together are packs that are sound by themselves, of which one contradicts another.
func (v *vectors) together() {
	v.w = newWorld(v.t)
	w := v.w
	w.Tenant = sealertest.TenantID("together")
	first := append(w.Run(3), w.rule(ruleCreated, w.record(1)))
	one := v.put("good/together-1.ndjson", sealertest.Bundle(v.t, w.Seal(first), first))
	second := [][]byte{w.Note("right.suspended"), w.rule(ruleCreated, w.record(2))}
	p := w.Seal(second)
	two := v.put("good/together-2.ndjson", sealertest.Bundle(v.t, p, second))
	again := v.put("good/together-2.json", pack.AppendObject(nil, p, second))
	tree, previous, rules := w.Tree, w.Previous, w.Rules
	third := w.Run(3)
	p = w.Seal(third)
	three := v.put("good/together-3.ndjson", sealertest.Bundle(v.t, p, third))
	v.good("a pack in both forms", "the second of three packs is given twice", one, two, again, three)
	v.good("a gap with a rule", "the second of three packs, which is not given, holds a settlement rule", one, three)

	bad := func(name, about, file string, text []byte, codes ...sealer.Code) {
		file = v.put("bad/"+file+".ndjson", text)
		for _, before := range [][]string{{one}, {one, two, again}} {
			what := name + ", behind a gap"
			if len(before) > 1 {
				what = name + ", behind a pack in both forms"
			}
			files := append(before, file)
			failures := make([][]sealer.Code, len(files))
			failures[len(before)] = codes
			v.cases = append(v.cases, vector{Name: what, About: about, Files: files, Failures: failures})
		}
	}
	bad("another rule", "a settlement rule of the first pack is another in the third", "together-rule", w.forgedRule(v.t, p, third), SettlementMismatch)
	bad("a rule less", "a settlement rule of the first pack is missing in the third", "together-rule-missing", w.resign(p, third, func(h *pack.Header) {
		h.Settlement.Rules = h.Settlement.Rules[1:]
	}), SettlementMismatch)
	w.Tree, w.Previous, w.Rules = tree, previous, rules
	third = append(w.Run(2), first[1])
	bad("an event repeated", "an event of the first pack stands in the third again", "together-event", sealertest.Bundle(v.t, w.Seal(third), third), sealer.EntryRepeated)
	w.Tree, w.Previous, w.Rules = tree, previous, rules
	third = [][]byte{w.Delivery(4, "order 1")}
	bad("a repetition billed", "a delivery of the third pack repeats one of the first, and is metered", "together-billed", sealertest.Bundle(v.t, w.Seal(third), third),
		DuplicatesMismatch, MeteringMismatch, SettlementMismatch)
}
