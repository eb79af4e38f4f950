package sealer

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// identity is that of the row of a name, played on a day unless that is empty.
func (w *world) identity(name, day string) RowIdentity {
	sum := sha256.Sum256([]byte(w.tenant + "\x01" + name))
	return RowIdentity{Hash: base64url.EncodeToString(sum[:]), Day: day}
}

// row seals the n-th delivery as a row of a batch.
func (w *world) row(n int, identity RowIdentity, multiplier int64) []byte {
	w.tb.Helper()
	s, d, r := w.draft(n)
	d.Identity, d.Multiplier = identity, multiplier
	event, err := s.SealDelivery(nil, d, r)
	require.NoError(w.tb, err)
	return event
}

// lying is what a node signs that says something else in the n-th delivery.
func (w *world) lying(n int, event []byte, old, new string) []byte {
	w.tb.Helper()
	lie := strings.Replace(string(event), old, new, 1)
	require.NotEqual(w.tb, string(event), lie)
	lie = rewitness(w.tb, lie)
	parts, err := SplitDelivery([]byte(lie))
	require.NoError(w.tb, err)
	signature, err := sign(w.nodes[n%len(w.nodes)].Key, parts.Receipt)
	require.NoError(w.tb, err)
	return bytes.Replace([]byte(lie), parts.Signature, appendSignature(nil, w.nodes[n%len(w.nodes)].KeyID, signature), 1)
}

// rows are deliveries that are rows of batches, with identities and multipliers.
func (v *vectors) rows() {
	w := newWorld(v.t)
	w.tenant = tenantID("rows")
	events := [][]byte{
		w.row(0, w.identity("play 1", "2026-04-24"), 25_000),
		w.row(1, w.identity("row 1", ""), 0),
		w.row(2, w.identity("play 2", "2026-04-24"), 1),
		w.row(3, w.identity("row 2", ""), MaxMultiplier), // which is not metered
		w.row(4, RowIdentity{}, 12*Impression),
		w.delivery(5, "order"),
	}
	tree, previous, packs := w.tree, w.previous, w.packs
	p := w.seal(events)
	whole := bundle(v.t, p, events)
	one := v.put("good/rows-1.ndjson", whole)
	v.good("rows", "deliveries that are rows of batches, and have multipliers", one)
	v.sentAgain(w, one)
	v.bad("lie-impressions", "a row states a ten-thousandth of an impression more; signed by the pack's own key", w.resign(p, events, func(h *PackHeader) {
		h.Metering = slices.Clone(h.Metering)
		h.Metering[0].Impressions++
	}), MeteringMismatch)
	v.bad("header-impressions", "the header spells impressions with a needless zero", bytes.Replace(whole, []byte(`"impressions":"12"`), []byte(`"impressions":"12.0"`), 1), FormatInvalid)

	v.bad("row-multiplier", "line 2: more impressions", bytes.Replace(whole, []byte(`"multiplier":"2.5"`), []byte(`"multiplier":"9.5"`), 1), RootMismatch, WitnessMismatch)
	v.bad("row-day", "line 2: the row was played on another day", bytes.Replace(whole, []byte(`"day":"2026-04-24"`), []byte(`"day":"2026-04-25"`), 1), RootMismatch, WitnessMismatch)
	w.tree, w.previous, w.packs = tree, previous, packs
	const day, multiplier = `"day":"2026-04-24"`, `"multiplier":"2.5"`
	for _, c := range []struct{ name, about, old, new string }{
		{"row-and-key", "an idempotency hash stands before the identity", `,"identity"`, `,"idempotency":"` + w.identity("", "").Hash + `","identity"`},
		{"row-day-unreal", "the day is not in the calendar", day, `"day":"2026-02-30"`},
		{"row-day-spelling", "the day has no needed zero", day, `"day":"2026-4-24"`},
		{"row-day-empty", "the day is an empty string", day, `"day":""`},
		{"row-day-zero", "the day is of the year 0", day, `"day":"0000-04-24"`},
		{"row-hash", "the hash of the identity is half of one", w.identity("play 1", "").Hash, "AAAAAAAAAAAAAAAAAAAAAA"},
		{"row-member", "the identity has a member too many", `"hash":"`, `"fields":1,"hash":"`},
		{"row-multiplier-zero", "the multiplier is 0", multiplier, `"multiplier":"0"`},
		{"row-multiplier-high", "the multiplier is a ten-thousandth too high", multiplier, `"multiplier":"10000.0001"`},
		{"row-multiplier-fine", "the multiplier has five digits behind the point", multiplier, `"multiplier":"2.50001"`},
		{"row-multiplier-spelling", "the multiplier has a needless zero", multiplier, `"multiplier":"2.50"`},
		{"row-multiplier-number", "the multiplier is a number", multiplier, `"multiplier":2.5`},
	} {
		lies := append([][]byte{w.lying(0, events[0], c.old, c.new)}, events[1:]...)
		b := w.builder(lies)
		_, err := b.Seal()
		require.Error(v.t, err)
		p, err := b.sign()
		require.NoError(v.t, err)
		v.bad(c.name, "line 2: "+c.about+"; signed by its node", bundle(v.t, p, lies), EntryAltered)
	}
}

// sentAgain has packs of the days after, in which rows of the first are sent again.
func (v *vectors) sentAgain(w *world, one string) {
	days := func(n int) { w.now = w.now.AddDate(0, 0, n) }
	days(1)
	events := [][]byte{
		w.row(1, w.identity("play 1", "2026-04-24"), 25_000),
		w.row(0, w.identity("row 1", "2026-04-24"), 0), // another row than that without a day
		w.row(2, w.identity("row 1", "2026-04-24"), 0),
	}
	id := func(event []byte) string {
		e, err := ParseEvent(event)
		require.NoError(v.t, err)
		return e.EventID
	}
	two := v.put("good/rows-2.ndjson", bundle(v.t, w.seal(events, func(c *PackConfig) { c.Earlier = map[string]uint64{id(events[0]): 0} }), events))
	days(29)
	events = [][]byte{
		w.row(0, w.identity("play 1", "2026-04-24"), 25_000),
		w.row(1, w.identity("row 1", ""), 0),
		w.row(2, w.identity("play 3", "2026-04-24"), 0),
		w.delivery(4, "order"), // long after its window
	}
	tree, previous, packs := w.tree, w.previous, w.packs
	three := v.put("good/rows-3.ndjson", bundle(v.t, w.seal(events, func(c *PackConfig) {
		c.Earlier = map[string]uint64{id(events[0]): 0, id(events[1]): 1}
	}), events))
	w.tree, w.previous, w.packs = tree, previous, packs
	v.good("rows sent again", "after one day and after thirty, by other nodes", one, two, three)
	v.good("rows sent again, behind a gap", "the second of three packs is not given", one, three)
	v.good("rows sent again, alone", "what they repeat is the header's word", three)
	lie := func(name, about string, earlier map[string]uint64, codes ...Code) {
		file := v.put("bad/"+name+".ndjson", bundle(v.t, w.seal(events, func(c *PackConfig) { c.Earlier = earlier }), events))
		w.tree, w.previous, w.packs = tree, previous, packs
		v.cases = append(v.cases, vector{Name: name, About: about, Files: []string{one, two, file}, Exit: ExitUnsound, Failures: [][]Code{nil, nil, codes}})
	}
	lie("row-billed-again", "a row that was sent again after thirty days is metered", map[string]uint64{id(events[0]): 0}, DuplicatesMismatch, MeteringMismatch)
	lie("row-other-first", "a row is said to repeat one that repeats it as well", map[string]uint64{id(events[0]): 6, id(events[1]): 1}, DuplicatesMismatch)
	lie("row-not-billed", "a row that was not sent before is said to be sent again", map[string]uint64{id(events[0]): 0, id(events[1]): 1, id(events[2]): 2}, DuplicatesMismatch, MeteringMismatch)
}
