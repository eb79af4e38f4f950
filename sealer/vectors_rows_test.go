package sealer

import (
	"bytes"
	"crypto/sha256"
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
	v.good("rows", "deliveries that are rows of batches, and have multipliers", v.put("good/rows-1.ndjson", whole))

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
