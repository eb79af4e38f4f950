package verify

import (
	"bytes"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// row seals the n-th delivery as a row of a batch.
func (w *world) row(n int, identity sealer.RowIdentity, multiplier int64) []byte {
	w.TB.Helper()
	s, d, r := w.Draft(n)
	d.Identity, d.Multiplier = identity, multiplier
	event, err := s.SealDelivery(nil, d, r)
	require.NoError(w.TB, err)
	return event
}

// lying is what a node signs that says something else in the n-th delivery.
func (w *world) lying(n int, event []byte, old, new string) []byte {
	w.TB.Helper()
	lie := strings.Replace(string(event), old, new, 1)
	require.NotEqual(w.TB, string(event), lie)
	lie = sealertest.Rewitness(w.TB, lie)
	parts, err := sealer.SplitDelivery([]byte(lie))
	require.NoError(w.TB, err)
	signature, err := sign(w.Nodes[n%len(w.Nodes)].Key, parts.Receipt)
	require.NoError(w.TB, err)
	return bytes.Replace([]byte(lie), parts.Signature, appendSignature(nil, w.Nodes[n%len(w.Nodes)].KeyID, signature), 1)
}

// rows are deliveries that are rows of batches, with identities and multipliers.
func (v *vectors) rows() {
	w := newWorld(v.t)
	w.Tenant = sealertest.TenantID("rows")
	events := [][]byte{
		w.row(2, w.Identity("play 1", "2026-04-24"), 25_000),
		w.row(1, w.Identity("row 1", ""), 0),
		w.row(6, w.Identity("play 2", "2026-04-24"), 1),
		w.row(3, w.Identity("row 2", ""), sealer.MaxMultiplier), // which is not metered
		w.row(4, sealer.RowIdentity{}, 12*sealer.Impression),
		w.Delivery(5, "order"),
	}
	tree, previous, packs := w.Tree, w.Previous, w.Packs
	p := w.Seal(events)
	whole := sealertest.Bundle(v.t, p, events)
	one := v.put("good/rows-1.ndjson", whole)
	v.good("rows", "deliveries that are rows of batches, and make more or fewer impressions than one", one)
	v.sentAgain(w, one)
	v.bad("lie-impressions", "a row states a ten-thousandth of an impression more; signed by the pack's own key", w.resign(p, events, func(h *pack.Header) {
		h.Metering = slices.Clone(h.Metering)
		h.Metering[0].Impressions++
	}), MeteringMismatch)
	v.bad("header-impressions", "the header writes impressions with a needless zero", bytes.Replace(whole, []byte(`"impressions":"12"`), []byte(`"impressions":"12.0"`), 1), FormatInvalid)

	v.bad("row-impressions", "line 2: more impressions", bytes.Replace(whole, []byte(`"impressions":"2.5","metered"`), []byte(`"impressions":"9.5","metered"`), 1), RootMismatch, sealer.WitnessMismatch)
	v.bad("row-day", "line 2: the row was played on another day", bytes.Replace(whole, []byte(`"day":"2026-04-24"`), []byte(`"day":"2026-04-25"`), 1), RootMismatch, sealer.WitnessMismatch)
	w.Tree, w.Previous, w.Packs = tree, previous, packs
	makes := func(name, about string, n int, old, new string) {
		lies := append([][]byte{}, events...)
		lies[n] = w.lying(n, events[n], old, new)
		b := w.Builder(lies)
		_, err := b.Seal()
		require.Error(v.t, err)
		v.bad(name, about+"; signed by its node", w.signAnyway(lies, nil), sealer.EntryAltered)
		w.Tree, w.Previous, w.Packs = tree, previous, packs
	}
	makes("row-impressions-unmetered", "line 5: it is not metered and makes an impression", 3, `"impressions":"0"`, `"impressions":"1"`)
	const day, impressions, completion = `"day":"2026-04-24"`, `"impressions":"2.5"`, `"completion":"none"`
	for _, c := range []struct{ name, about, old, new string }{
		{"row-and-key", "an idempotency hash stands before the identity", `,"identity"`, `,"idempotency":"` + w.Identity("", "").Hash + `","identity"`},
		{"row-day-unreal", "the day is not in the calendar", day, `"day":"2026-02-30"`},
		{"row-day-spelling", "the day has no needed zero", day, `"day":"2026-4-24"`},
		{"row-day-empty", "the day is an empty string", day, `"day":""`},
		{"row-day-zero", "the day is of the year 0", day, `"day":"0000-04-24"`},
		{"row-hash", "the hash of the identity is half of one", w.Identity("play 1", "").Hash, "AAAAAAAAAAAAAAAAAAAAAA"},
		{"row-member", "the identity has a member too many", `"hash":"`, `"fields":1,"hash":"`},
		{"row-impressions-zero", "it is metered and makes no impressions", impressions, `"impressions":"0"`},
		{"row-impressions-high", "the impressions are a ten-thousandth too high", impressions, `"impressions":"10000.0001"`},
		{"row-impressions-fine", "the impressions have five digits behind the point", impressions, `"impressions":"2.50001"`},
		{"row-impressions-spelling", "the impressions have a needless zero", impressions, `"impressions":"2.50"`},
		{"row-impressions-number", "the impressions are a number", impressions, `"impressions":2.5`},
		{"row-completion", "the completion is none of those that there are", completion, `"completion":"half"`},
		{"row-completion-null", "the completion is null", completion, `"completion":null`},
		{"row-multiplier", "there is a multiplier too many", `,"receipt":{`, `,"multiplier":"2.5","receipt":{`},
	} {
		makes(c.name, "line 2: "+c.about, 0, c.old, c.new)
	}
}

// sentAgain has packs of the days after, in which rows of the first are sent again.
func (v *vectors) sentAgain(w *world, one string) {
	days := func(n int) { w.Now = w.Now.AddDate(0, 0, n) }
	days(1)
	events := [][]byte{
		w.row(1, w.Identity("play 1", "2026-04-24"), 25_000),
		w.row(0, w.Identity("row 1", "2026-04-24"), 0), // another row than that without a day
		w.row(2, w.Identity("row 1", "2026-04-24"), 0),
	}
	id := func(event []byte) string {
		e, err := sealer.ParseEvent(event)
		require.NoError(v.t, err)
		return e.EventID
	}
	two := v.put("good/rows-2.ndjson", sealertest.Bundle(v.t, w.Seal(events, func(c *pack.Config) { c.Earlier = map[string]uint64{id(events[0]): 0} }), events))
	days(29)
	events = [][]byte{
		w.row(0, w.Identity("play 1", "2026-04-24"), 25_000),
		w.row(1, w.Identity("row 1", ""), 0),
		w.row(2, w.Identity("play 3", "2026-04-24"), 0),
		w.Delivery(4, "order"), // long after its window
	}
	tree, previous, packs := w.Tree, w.Previous, w.Packs
	three := v.put("good/rows-3.ndjson", sealertest.Bundle(v.t, w.Seal(events, func(c *pack.Config) {
		c.Earlier = map[string]uint64{id(events[0]): 0, id(events[1]): 1}
	}), events))
	w.Tree, w.Previous, w.Packs = tree, previous, packs
	v.good("rows sent again", "after one day and after thirty, by other nodes", one, two, three)
	v.good("rows sent again, behind a gap", "the second of three packs is not given", one, three)
	v.good("rows sent again, alone", "what they repeat is the header's word", three)
	lie := func(name, about string, earlier map[string]uint64, codes ...sealer.Code) {
		file := v.put("bad/"+name+".ndjson", sealertest.Bundle(v.t, w.Seal(events, func(c *pack.Config) { c.Earlier = earlier }), events))
		w.Tree, w.Previous, w.Packs = tree, previous, packs
		v.cases = append(v.cases, vector{Name: name, About: about, Files: []string{one, two, file}, Failures: [][]sealer.Code{nil, nil, codes}})
	}
	lie("row-billed-again", "a row that was sent again after thirty days is metered", map[string]uint64{id(events[0]): 0}, DuplicatesMismatch, MeteringMismatch)
	lie("row-other-first", "a row is said to repeat one that repeats it as well", map[string]uint64{id(events[0]): 6, id(events[1]): 1}, DuplicatesMismatch)
	lie("row-not-billed", "a row that was not sent before is said to be sent again", map[string]uint64{id(events[0]): 0, id(events[1]): 1, id(events[2]): 2}, DuplicatesMismatch, MeteringMismatch)
}
