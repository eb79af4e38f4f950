package verify

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/sealertest"
)

// detail is the answer about one receipt, with its event.
func detail(t *testing.T, event []byte) []byte {
	t.Helper()
	p, err := sealer.SplitDelivery(event)
	require.NoError(t, err)
	return fmt.Appendf(nil, `{"ok":true,"data":{"receipt":%s,"signature":%s,"event":%s,"position":"1.0.7","sealed":{"packId":%q,"leafIndex":7}},"contractVersion":"v1.0"}`,
		p.Receipt, p.Signature, event, sealertest.Named("ppk_", "some"))
}

// reordered is the canonical data of an answer, which begins with the event.
func reordered(t *testing.T, answer []byte) []byte {
	t.Helper()
	var in struct{ Data jsontext.Value }
	require.NoError(t, json.Unmarshal(answer, &in, json.MatchCaseInsensitiveNames(true)))
	text, err := canonical.JSON(in.Data)
	require.NoError(t, err)
	return append(text, '\n')
}

// TestReceiptFiles: what a file states besides its receipt, and the signature does not cover, is
// compared with the event, or else named as uncovered.
func TestReceiptFiles(t *testing.T) {
	f := newFolder(t)
	events := f.w.Run(4)
	pack := f.pack("pack", events)
	keys := f.write("keys", f.w.Directory())
	whole, about := string(answer(t, events[2])), string(detail(t, events[2]))
	d, err := sealer.ReadDelivery(events[2])
	require.NoError(t, err)
	other := string(answer(t, events[1]))
	change := func(text, old, new string) string {
		require.Contains(t, text, old)
		return strings.Replace(text, old, new, 1)
	}
	data := func(text string) string {
		text = text[strings.Index(text, `{"receipt"`):]
		return text[:strings.Index(text, `, "contractVersion"`)]
	}
	const (
		sound    = "receipt signature.ok"
		open     = "receipt signature.ok receipt.uncovered"
		included = "receipt inclusion.ok signature.ok"
		altered  = "receipt !entry.altered signature.ok"
		no       = "receipt !format.invalid"
		unknown  = "unknown !format.unknown"
	)
	for name, c := range map[string]struct{ text, alone, beside string }{
		"as it was answered": {whole, open, included},
		"its data":           {data(whole), open, included},
		"without what is not covered": {
			fmt.Sprintf(`{"receipt":%s,"signature":%s}`, d.ReceiptText, appendSignature(nil, d.KeyID, d.Signature)), sound, included,
		},
		"spaces behind":     {whole + "\n \t\r\n", open, included},
		"quantity":          {change(whole, `"quantityMs":3000`, `"quantityMs":3001`), open, altered},
		"quantity, respelt": {change(whole, `"quantityMs":3000`, `"quantityMs": 3.0e3`), open, included},
		"metered":           {change(whole, `"metered":true`, `"metered":false`), open, altered},
		"reason":            {change(whole, `"reason":"METERED"`, `"reason":"NOT_VIEWABLE"`), open, altered},
		"reasons":           {change(whole, `"reasons":[]`, `"reasons":["NOT_VIEWABLE"]`), open, altered},
		"substrate":         {change(whole, `"substrate": "MOBILE"`, `"substrate": "CTV"`), open, altered},
		"about the receipt": {about, open, "receipt inclusion.ok signature.ok receipt.uncovered"},
		"about the receipt, reordered": {
			string(reordered(t, []byte(about))), open, "receipt inclusion.ok signature.ok receipt.uncovered",
		},
		"the whole answer, the event first": {
			`{"ok":true,"data":` + strings.TrimSpace(string(reordered(t, []byte(about)))) + `,"contractVersion":"v1.0"}`, open, "receipt inclusion.ok signature.ok receipt.uncovered",
		},
		"another event beside": {
			change(about, string(events[2]), string(events[1])), "receipt !entry.altered signature.ok", "receipt !entry.altered inclusion.ok signature.ok",
		},
		"a changed event beside": {
			change(about, `"quantityMs":3000`, `"quantityMs":3001`), "receipt !witness.mismatch signature.ok", "receipt !witness.mismatch inclusion.ok signature.ok",
		},
		"another metering than the event's": {
			change(about, `"position"`, `"metering":{"basis":"x","completion":"none","impressions":"1","metered":true,"quantityMs":1,"reason":"METERED","reasons":[]},"position"`),
			"receipt !entry.altered signature.ok", "receipt !entry.altered !entry.altered signature.ok",
		},

		"a forged receipt beside the data": {change(whole, `"ok": true`, `"ok": true, "receipt": `+string(sealer.AppendReceipt(nil, &d.Receipt))), no, no},
		"a forged answer beside the data":  {change(whole, `"ok": true`, `"ok": true, `+strings.TrimSuffix(strings.TrimPrefix(data(other), "{"), "}")), no, no},
		"refused":                          {change(whole, `"ok": true`, `"ok": false`), no, no},
		"refused, and in words":            {change(whole, `"ok": true`, `"ok": false, "error": "RATE_LIMITED"`), no, no},
		"ok in words":                      {change(whole, `"ok": true`, `"ok": "true"`), no, no},
		"not ok":                           {change(whole, `"ok": true, `, ``), no, no},
		"another version":                  {change(whole, `"v1.0"`, `"v2.0"`), no, no},
		"no version":                       {change(whole, `, "contractVersion": "v1.0"`, ``), no, no},
		"more in the answer":               {change(whole, `"ok": true`, `"ok": true, "verified": true`), no, no},
		"more in the data":                 {change(whole, `"substrate"`, `"verified": true, "substrate"`), no, no},
		"more in the signature":            {change(whole, `"algorithm"`, `"verified": true, "algorithm"`), no, no},
		"more in the metering":             {change(whole, `"basis"`, `"amount":"5.00", "basis"`), no, no},
		"less in the metering":             {change(whole, `"metered":true,`, ``), no, no},
		"data twice":                       {change(whole, `"data"`, `"data": null, "data"`), no, no},
		"a list":                           {"[" + whole + "]", unknown, unknown},
		"more behind it":                   {whole + "{}", no, no},
		"another behind it":                {whole + other, no, no},
		"no substrate":                     {change(whole, `"substrate": "MOBILE"`, `"substrate": null`), no, no},
		"no pack":                          {change(about, `"packId":"ppk_`, `"packId":"pack_`), no, no},
		"no leaf":                          {change(about, `"leafIndex":7`, `"leafIndex":-7`), no, no},
		"sealed, and more":                 {change(about, `"leafIndex":7`, `"leafIndex":7,"by":"us"`), no, no},
	} {
		t.Run(name, func(t *testing.T) {
			want := func(line string) int {
				switch {
				case line == unknown:
					return ExitUnjudged
				case strings.Contains(line, "!"):
					return ExitUnsound
				}
				return ExitSound
			}
			receipt := f.write("receipt", []byte(c.text))
			require.Equal(t, c.alone, f.verify(want(c.alone), receipt, keys)[0])
			require.Equal(t, c.beside, f.verify(want(c.beside), receipt, pack)[0])
		})
	}
}

func TestReceiptWithAProofOrAnExport(t *testing.T) {
	a := newArchive(t, 3)
	good, lie := answer(t, a.events[2]), answer(t, a.events[2])
	lie = bytes.Replace(lie, []byte(`"quantityMs":3000`), []byte(`"quantityMs":3001`), 1)
	require.NotEqual(t, good, lie)
	for _, by := range []file{{"proof", a.proofAnswer(2, 0)}, {"export", a.export(0, 3)}} {
		require.Equal(t, [][]sealer.Code{nil, nil}, fails(a.verify(a.Directory(), nil, file{"receipt", good}, by)))
		require.Equal(t, [][]sealer.Code{{sealer.EntryAltered}, nil}, fails(a.verify(a.Directory(), nil, file{"receipt", lie}, by)))
	}
}

// TestReceiptThatIsInNoPack: it is sound by its signature, and that sound packs or exports lack it is remarked. What is
// known of other packs says nothing, nor do proofs of single events.
func TestReceiptThatIsInNoPack(t *testing.T) {
	a := newArchive(t, 3, 2)
	lost := file{"receipt", answer(t, a.events[4])}
	said := func(files ...file) (list []bool) {
		for _, r := range a.verify(a.Directory(), nil, append(files, lost)...).Files {
			list = append(list, r.has(ReceiptUnproven))
			require.True(t, r.Kind != kindReceipt || r.Verdict == VerdictSound)
		}
		return list
	}
	first, next := sealertest.Bundle(t, a.packs[0], a.events[:3]), sealertest.Bundle(t, a.packs[1], a.events[3:])
	require.Equal(t, []bool{false, true}, said(file{"pack", first}))
	require.Equal(t, []bool{false, true}, said(file{"export", a.export(0, 3)}))
	require.Equal(t, []bool{false, false, false}, said(file{"pack", first}, file{"next", next}))
	require.Equal(t, []bool{false, false}, said(file{"altered", bytes.Replace(first, []byte(`"dwellMs"`), []byte(`"dwellMS"`), 1)}))
	require.Equal(t, []bool{false, false}, said(file{"proof", a.proofAnswer(0, 1)}))
	require.Equal(t, []bool{false}, said())
}

// TestLargeFiles: a file that is read at once is read to its end, or refused.
func TestLargeFiles(t *testing.T) {
	f := newFolder(t)
	a := newArchive(t, 3, 2)
	f.w = a.world
	keys := f.write("keys", a.Directory())
	padding := bytes.Repeat([]byte(" "), maxSmallBytes)
	for name, text := range map[string][]byte{
		"receipt": answer(t, a.events[1]), "proof": a.proofAnswer(1, 0), "event": a.events[1], "checkpoint": a.checkpointAnswer(1),
		"consistency": a.consistency(0, 1), "directory": a.Directory(), "unknown": []byte("{}"),
	} {
		large := f.write(name, append(append(text, padding[:maxSmallBytes-len(text)]...), " and more"...))
		kind, code, exit := name, FormatInvalid, ExitUnsound
		if name == "receipt" || name == "unknown" { // which are known only when they are read
			kind, code, exit = "unknown", FormatUnknown, ExitUnjudged
		}
		require.Equal(t, kind+" !"+string(code), f.verify(exit, large, keys)[0], name)
	}
	fits := answer(t, a.events[1])
	require.Equal(t, "receipt signature.ok receipt.uncovered", f.verify(ExitSound, f.write("receipt", append(fits, padding[:maxSmallBytes-len(fits)]...)), keys)[0])
}
