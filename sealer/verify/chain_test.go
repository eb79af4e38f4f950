package verify

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/settlement"
)

// repetitive is a log of three packs. The third repeats an event of the first, which a service
// must not do.
func (w *world) repetitive(t *testing.T) (one, two, again, three []byte) {
	t.Helper()
	first := w.Run(5)
	one = sealertest.Bundle(t, w.Seal(first), first)
	second := [][]byte{w.Note("right.revoked")}
	p := w.Seal(second)
	third := [][]byte{first[0], w.Note("right.revoked")}
	return one, sealertest.Bundle(t, p, second), pack.AppendObject(nil, p, second), sealertest.Bundle(t, w.Seal(third), third)
}

// TestACopyHidesNothing gives packs twice: they are as sound as once, and what they hold
// counts once.
func TestACopyHidesNothing(t *testing.T) {
	one, two, again, three := newWorld(t).repetitive(t)
	spoilt := bytes.Replace(two, []byte("end of campaign"), []byte("end of campaigN"), 1)
	require.NotEqual(t, two, spoilt)
	for name, c := range map[string]struct {
		files [][]byte
		want  [][]sealer.Code
	}{
		"none":            {[][]byte{one, two, three}, [][]sealer.Code{nil, nil, {sealer.EntryRepeated}}},
		"of the first":    {[][]byte{one, one, two, three}, [][]sealer.Code{nil, nil, nil, {sealer.EntryRepeated}}},
		"of the second":   {[][]byte{one, two, two, three}, [][]sealer.Code{nil, nil, nil, {sealer.EntryRepeated}}},
		"in another form": {[][]byte{one, two, again, three}, [][]sealer.Code{nil, nil, nil, {sealer.EntryRepeated}}},
		"that is spoilt":  {[][]byte{one, two, spoilt, three}, [][]sealer.Code{nil, nil, {RootMismatch}, {sealer.EntryRepeated}}},
		"of a spoilt one": {[][]byte{one, spoilt, two, three}, [][]sealer.Code{nil, {RootMismatch}, nil, {sealer.EntryRepeated}}},
		"of the last":     {[][]byte{one, two, three, three}, [][]sealer.Code{nil, nil, {sealer.EntryRepeated}, {sealer.EntryRepeated}}},
		"behind a gap":    {[][]byte{one, one, three}, [][]sealer.Code{nil, nil, {sealer.EntryRepeated}}},
		"of all":          {[][]byte{three, two, again, one, one}, [][]sealer.Code{{sealer.EntryRepeated}, nil, nil, nil, nil}},
	} {
		require.Equal(t, c.want, newWorld(t).failing(t, c.files...), name)
	}
}

// failing are the codes of what is wrong with each file.
func (w *world) failing(t *testing.T, files ...[]byte) (codes [][]sealer.Code) {
	t.Helper()
	for _, f := range w.files(t, files...).Files {
		codes = append(codes, failures(f.Verdicts))
	}
	return codes
}

// TestBehindAGap leaves a pack out: the one behind is held against those before all the
// same.
func TestBehindAGap(t *testing.T) {
	w := newWorld(t)
	first := slices.Concat(w.Run(6), [][]byte{w.rule(ruleCreated, w.record(1)), w.rule(ruleCreated, w.record(2))})
	one := sealertest.Bundle(t, w.Seal(first), first)
	amended := w.rule("settlement_rule.updated", w.record(2, `"0.125"`, `"0.25"`))
	second := [][]byte{w.Delivery(1, "in the gap"), amended, w.rule(ruleCreated, w.record(3))}
	w.Seal(second)
	third := append(w.Run(4), w.Delivery(2, "in the gap"))
	repeats, err := sealer.ParseEvent(third[4])
	require.NoError(t, err)
	p := w.Seal(third, func(c *pack.Config) { c.Earlier = map[string]uint64{repeats.EventID: 8} })
	three := sealertest.Bundle(t, p, third)
	tail := w.Run(2)
	four := sealertest.Bundle(t, w.Seal(tail), tail)
	rules := p.Header.Rules()
	require.Equal(t, []uint64{6, 9, 10}, []uint64{rules[0].Leaf, rules[1].Leaf, rules[2].Leaf})
	old := settlement.Rule{Leaf: 7, Record: eventData(t, first[7])}

	r := w.files(t, one, three, four)
	require.True(t, r.OK, "%+v", r)
	want := []sealer.Code{MeteringOK, DuplicatesUnproven, SettlementOK, SettlementUnproven, ChainGap}
	require.Equal(t, want, okCodes(r.Files[1].Verdicts)[len(okCodes(r.Files[1].Verdicts))-5:])
	require.Contains(t, message(r.Files[1].Verdicts, SettlementUnproven), "2 rules ")
	require.Contains(t, message(r.Files[1].Verdicts, DuplicatesUnproven), "of 5 receipts with an idempotency key or of a row 1 ")

	resettle := func(rules ...settlement.Rule) func(*pack.Header) {
		return func(h *pack.Header) {
			h.Settlement = &settlement.Settlement{Rules: rules}
			if rules == nil {
				h.Settlement = nil
			}
			l := ledgerOf(t, w, h, third)
			s, err := l.Settlement(rate.Rating.Rate, nil)
			require.NoError(t, err)
			if h.Settlement = s; s != nil {
				h.Settlement.Rules = rules
			}
		}
	}
	forged := settlement.Rule{Leaf: 6, Record: bytes.Replace(rules[0].Record, []byte(`"0.125"`), []byte(`"0.126"`), 1)}
	elsewhere := settlement.Rule{Leaf: 8, Record: rules[0].Record}
	for name, c := range map[string]struct {
		change func(*pack.Header)
		want   sealer.Code
	}{
		"sound":                     {resettle(rules...), ""},
		"a rule that is at hand":    {resettle(forged, rules[1], rules[2]), SettlementMismatch},
		"it is missing":             {resettle(rules[1], rules[2]), SettlementMismatch},
		"all are missing":           {resettle(), SettlementMismatch},
		"it came in the gap":        {resettle(elsewhere, rules[1], rules[2]), ""},
		"one of the gap is missing": {resettle(rules[0], rules[1]), ""},
		"one was not amended":       {resettle(rules[0], old, rules[2]), ""},
		"one stands there twice":    {resettle(rules[0], old, rules[1], rules[2]), SettlementMismatch},
		"one of no event":           {resettle(settlement.Rule{Leaf: 5, Record: []byte(w.record(4))}, rules[0], rules[1], rules[2]), SettlementMismatch},
	} {
		pack := w.resign(p, third, c.change)
		if c.want == "" {
			require.Equal(t, [][]sealer.Code{nil, nil}, w.failing(t, one, pack), name)
		} else {
			require.Equal(t, [][]sealer.Code{nil, {c.want}}, w.failing(t, one, pack), name)
		}
	}
	require.Equal(t, [][]sealer.Code{nil, {DuplicatesMismatch, MeteringMismatch, SettlementMismatch}}, w.failing(t, one, w.unbilled(p, third)),
		"what is said to repeat a leaf at hand does not")

	one, _, _, three = newWorld(t).repetitive(t)
	require.Equal(t, [][]sealer.Code{nil, {sealer.EntryRepeated}}, newWorld(t).failing(t, one, three))
}

// TestWhatIsNotSoundSaysNothingOfOthers: anybody can write a file that contradicts a pack.
func TestWhatIsNotSoundSaysNothingOfOthers(t *testing.T) {
	w := newWorld(t)
	one, two, _, _ := w.repetitive(t)
	third := w.Run(2)
	p := w.Seal(third)
	three := sealertest.Bundle(t, p, third)
	genuine := w.PackKey
	w.PackKey = sealertest.PrivateKey("thief")
	forged := func(change func(h *pack.Header)) []byte { return w.resign(p, third, change) }
	same := forged(func(h *pack.Header) { h.Metering = nil })
	early := forged(func(h *pack.Header) {
		h.FirstIndex, h.Previous, h.Consistency, h.TreeSize = 0, nil, nil, uint64(h.Count)
	})
	w.PackKey = genuine
	for name, files := range map[string][][]byte{"of the same leaves": {one, two, three, same}, "of the first": {one, two, three, early}} {
		r := w.files(t, files...)
		for i := range files[:3] {
			require.Empty(t, failures(r.Files[i].Verdicts), "%s: file %d", name, i)
		}
		require.Contains(t, failures(r.Files[3].Verdicts), sealer.SignatureInvalid, name)
	}

	// Nor does it keep a pack from vouching for the one before.
	w.revokePackKey()
	last := w.Run(2)
	four := sealertest.Bundle(t, w.Seal(last), last)
	spoilt := bytes.Replace(three, []byte(`"eventId":"evt_`), []byte(`"eventId":"evt-`), 1)
	require.Equal(t, [][]sealer.Code{nil, {RootMismatch, sealer.EntryAltered}, nil}, w.failing(t, three, spoilt, four))
}

// TestForksFarApart has a pack that two others overlap, which don't meet.
func TestForksFarApart(t *testing.T) {
	w := newWorld(t)
	seal := func(n int) []byte {
		events := w.Run(n)
		return sealertest.Bundle(t, w.Seal(events), events)
	}
	first := seal(2)
	tree, previous := w.Tree, w.Previous
	long := seal(9)
	w.Tree, w.Previous = tree, previous
	second, third, fourth := seal(2), seal(2), seal(2)
	fork := []sealer.Code{ChainFork}
	require.Equal(t, [][]sealer.Code{nil, fork, fork, fork}, w.failing(t, first, long, second, fourth))
	require.Equal(t, [][]sealer.Code{nil, fork, fork, fork}, w.failing(t, first, long, third, fourth))
	require.Equal(t, [][]sealer.Code{nil, fork, fork, fork}, w.failing(t, first, long, long, third))
}

// message is that of the first verdict of a code.
func message(verdicts []Verdict, code sealer.Code) string {
	for _, v := range verdicts {
		if v.Code == code {
			return v.Message
		}
	}
	return ""
}
