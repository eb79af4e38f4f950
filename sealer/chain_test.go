package sealer

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// repetitive is a log of three packs. The third repeats an event of the first, which a service
// must not do.
func (w *world) repetitive(t *testing.T) (one, two, again, three []byte) {
	t.Helper()
	first := w.run(5)
	one = bundle(t, w.seal(first), first)
	second := [][]byte{w.note("right.revoked")}
	p := w.seal(second)
	third := [][]byte{first[0], w.note("right.revoked")}
	return one, bundle(t, p, second), AppendPackObject(nil, p, second), bundle(t, w.seal(third), third)
}

// TestACopyHidesNothing gives packs twice: they are as sound as once, and what they hold
// counts once.
func TestACopyHidesNothing(t *testing.T) {
	one, two, again, three := newWorld(t).repetitive(t)
	spoilt := bytes.Replace(two, []byte("end of campaign"), []byte("end of campaigN"), 1)
	require.NotEqual(t, two, spoilt)
	for name, c := range map[string]struct {
		files [][]byte
		want  [][]Code
	}{
		"none":            {[][]byte{one, two, three}, [][]Code{nil, nil, {EntryRepeated}}},
		"of the first":    {[][]byte{one, one, two, three}, [][]Code{nil, nil, nil, {EntryRepeated}}},
		"of the second":   {[][]byte{one, two, two, three}, [][]Code{nil, nil, nil, {EntryRepeated}}},
		"in another form": {[][]byte{one, two, again, three}, [][]Code{nil, nil, nil, {EntryRepeated}}},
		"that is spoilt":  {[][]byte{one, two, spoilt, three}, [][]Code{nil, nil, {RootMismatch}, {EntryRepeated}}},
		"of a spoilt one": {[][]byte{one, spoilt, two, three}, [][]Code{nil, {RootMismatch}, nil, {EntryRepeated}}},
		"of the last":     {[][]byte{one, two, three, three}, [][]Code{nil, nil, {EntryRepeated}, {EntryRepeated}}},
		"behind a gap":    {[][]byte{one, one, three}, [][]Code{nil, nil, {EntryRepeated}}},
		"of all":          {[][]byte{three, two, again, one, one}, [][]Code{{EntryRepeated}, nil, nil, nil, nil}},
	} {
		require.Equal(t, c.want, newWorld(t).failing(t, c.files...), name)
	}
}

// failing are the codes of what is wrong with each file.
func (w *world) failing(t *testing.T, files ...[]byte) (codes [][]Code) {
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
	first := slices.Concat(w.run(6), [][]byte{w.rule(ruleCreated, w.record(1)), w.rule(ruleCreated, w.record(2))})
	one := bundle(t, w.seal(first), first)
	amended := w.rule("settlement_rule.updated", w.record(2, `"0.125"`, `"0.25"`))
	second := [][]byte{w.delivery(1, "in the gap"), amended, w.rule(ruleCreated, w.record(3))}
	w.seal(second)
	third := append(w.run(4), w.delivery(2, "in the gap"))
	repeats, err := ParseEvent(third[4])
	require.NoError(t, err)
	p := w.seal(third, func(c *PackConfig) { c.Earlier = map[string]uint64{repeats.EventID: 8} })
	three := bundle(t, p, third)
	tail := w.run(2)
	four := bundle(t, w.seal(tail), tail)
	rules := p.Header.Rules()
	require.Equal(t, []uint64{6, 9, 10}, []uint64{rules[0].Leaf, rules[1].Leaf, rules[2].Leaf})
	old := SettlementRule{7, eventData(t, first[7])}

	r := w.files(t, one, three, four)
	require.True(t, r.OK, "%+v", r)
	want := []Code{MeteringOK, DuplicatesUnproven, SettlementOK, SettlementUnproven, ChainGap}
	require.Equal(t, want, okCodes(r.Files[1].Verdicts)[len(okCodes(r.Files[1].Verdicts))-5:])
	require.Contains(t, message(r.Files[1].Verdicts, SettlementUnproven), "2 rules ")
	require.Contains(t, message(r.Files[1].Verdicts, DuplicatesUnproven), "of 5 receipts with an idempotency key or of a row 1 ")

	resettle := func(rules ...SettlementRule) func(*PackHeader) {
		return func(h *PackHeader) {
			h.Settlement = &Settlement{Rules: rules}
			if rules == nil {
				h.Settlement = nil
			}
			l := ledgerOf(t, w, h, third)
			s, err := l.settlement(testRate)
			require.NoError(t, err)
			if h.Settlement = s; s != nil {
				h.Settlement.Rules = rules
			}
		}
	}
	forged := SettlementRule{6, bytes.Replace(rules[0].Record, []byte(`"0.125"`), []byte(`"0.126"`), 1)}
	elsewhere := SettlementRule{8, rules[0].Record}
	for name, c := range map[string]struct {
		change func(*PackHeader)
		want   Code
	}{
		"sound":                     {resettle(rules...), ""},
		"a rule that is at hand":    {resettle(forged, rules[1], rules[2]), SettlementMismatch},
		"it is missing":             {resettle(rules[1], rules[2]), SettlementMismatch},
		"all are missing":           {resettle(), SettlementMismatch},
		"it was told of in the gap": {resettle(elsewhere, rules[1], rules[2]), ""},
		"one of the gap is missing": {resettle(rules[0], rules[1]), ""},
		"one was not amended":       {resettle(rules[0], old, rules[2]), ""},
		"one stands there twice":    {resettle(rules[0], old, rules[1], rules[2]), SettlementMismatch},
		"one of no event":           {resettle(SettlementRule{5, []byte(w.record(4))}, rules[0], rules[1], rules[2]), SettlementMismatch},
	} {
		pack := w.resign(p, third, c.change)
		if c.want == "" {
			require.Equal(t, [][]Code{nil, nil}, w.failing(t, one, pack), name)
		} else {
			require.Equal(t, [][]Code{nil, {c.want}}, w.failing(t, one, pack), name)
		}
	}
	require.Equal(t, [][]Code{nil, {DuplicatesMismatch, MeteringMismatch, SettlementMismatch}}, w.failing(t, one, w.unbilled(p, third)),
		"what is said to repeat a leaf at hand does not")

	one, _, _, three = newWorld(t).repetitive(t)
	require.Equal(t, [][]Code{nil, {EntryRepeated}}, newWorld(t).failing(t, one, three))
}

// TestWhatIsNotSoundSaysNothingOfOthers: anybody can write a file that contradicts a pack.
func TestWhatIsNotSoundSaysNothingOfOthers(t *testing.T) {
	w := newWorld(t)
	one, two, _, _ := w.repetitive(t)
	third := w.run(2)
	p := w.seal(third)
	three := bundle(t, p, third)
	genuine := w.packKey
	w.packKey = testKey("thief")
	forged := func(change func(h *PackHeader)) []byte { return w.resign(p, third, change) }
	same := forged(func(h *PackHeader) { h.Metering = nil })
	early := forged(func(h *PackHeader) {
		h.FirstIndex, h.Previous, h.Consistency, h.TreeSize = 0, nil, nil, uint64(h.Count)
	})
	w.packKey = genuine
	for name, files := range map[string][][]byte{"of the same leaves": {one, two, three, same}, "of the first": {one, two, three, early}} {
		r := w.files(t, files...)
		for i := range files[:3] {
			require.Empty(t, failures(r.Files[i].Verdicts), "%s: file %d", name, i)
		}
		require.Contains(t, failures(r.Files[3].Verdicts), SignatureInvalid, name)
	}

	// Nor does it keep a pack from vouching for the one before.
	w.revokePackKey()
	last := w.run(2)
	four := bundle(t, w.seal(last), last)
	spoilt := bytes.Replace(three, []byte(`"eventId":"evt_`), []byte(`"eventId":"evt-`), 1)
	require.Equal(t, [][]Code{nil, {RootMismatch, EntryAltered}, nil}, w.failing(t, three, spoilt, four))
}

// TestForksFarApart has a pack that two others overlap, which don't meet.
func TestForksFarApart(t *testing.T) {
	w := newWorld(t)
	seal := func(n int) []byte {
		events := w.run(n)
		return bundle(t, w.seal(events), events)
	}
	first := seal(2)
	tree, previous := w.tree, w.previous
	long := seal(9)
	w.tree, w.previous = tree, previous
	second, third, fourth := seal(2), seal(2), seal(2)
	fork := []Code{ChainFork}
	require.Equal(t, [][]Code{nil, fork, fork, fork}, w.failing(t, first, long, second, fourth))
	require.Equal(t, [][]Code{nil, fork, fork, fork}, w.failing(t, first, long, third, fourth))
	require.Equal(t, [][]Code{nil, fork, fork, fork}, w.failing(t, first, long, long, third))
}

// message is that of the first verdict of a code.
func message(verdicts []Verdict, code Code) string {
	for _, v := range verdicts {
		if v.Code == code {
			return v.Message
		}
	}
	return ""
}
