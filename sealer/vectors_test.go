package sealer

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata anew")

// vector is one case of testdata/vectors.json: what the verify command, run in
// testdata with --root root.vkey, says about some files together.
type vector struct {
	Name  string   `json:"name"`
	About string   `json:"about"`
	Files []string `json:"files"`
	// Keys is given as --keys; empty for none.
	Keys string `json:"keys,omitempty"`
	// Expect is given as --expect-checkpoint; empty for none.
	Expect string `json:"expect,omitempty"`
	Exit   int    `json:"exit"`
	// Failures are the codes that fail, for each file in its order, and last for the
	// expected checkpoint if there is one.
	Failures [][]Code `json:"failures"`
}

// vectors makes all files and cases. The world is the fixture's: keys are derived
// from names, so every run makes the same bytes.
type vectors struct {
	t     *testing.T
	w     *world
	files map[string][]byte
	cases []vector
}

func (v *vectors) put(name string, text []byte) string {
	require.NotContains(v.t, v.files, name)
	v.files[name] = text
	return name
}

// good adds a case in which nothing fails.
func (v *vectors) good(name, about string, files ...string) {
	v.cases = append(v.cases, vector{Name: name, About: about, Files: files, Failures: make([][]Code, len(files))})
}

// bad adds a case of one file that fails with these codes.
func (v *vectors) bad(name, about string, text []byte, codes ...Code) {
	ext := ".ndjson"
	if bytes.HasPrefix(text, []byte(`{"ok"`)) || bytes.HasPrefix(text, []byte(directoryStart)) || bytes.Contains(text, []byte(`"ok": `)) {
		ext = ".json"
	}
	file := v.put("bad/"+name+ext, text)
	v.cases = append(v.cases, vector{Name: name, About: about, Files: []string{file}, Exit: ExitUnsound, Failures: [][]Code{codes}})
}

func makeVectors(t *testing.T) *vectors {
	v := &vectors{t: t, w: newWorld(t), files: make(map[string][]byte)}
	w := v.w
	v.put("root.vkey", []byte(w.vkey+"\n"))

	first := append(w.run(4), w.note("right.suspended"), w.delivery(2, "order 1"))
	p1 := w.seal(first)
	chain1 := v.put("good/chain-1.ndjson", bundle(t, p1, first))
	second := [][]byte{w.delivery(2, "order 1"), w.note("right.resumed"), w.delivery(3, "late order"), w.delivery(3, "late order")}
	e, err := ParseEvent(second[0])
	require.NoError(t, err)
	tree, previous := w.tree, w.previous
	p2 := w.seal(second, func(c *PackConfig) { c.Earlier = map[string]uint64{e.EventID: 1} })
	chain2 := v.put("good/chain-2.ndjson", bundle(t, p2, second))
	afterTree, after := w.tree, w.previous
	third := w.run(3)
	p3 := w.seal(third)
	chain3 := v.put("good/chain-3.ndjson", bundle(t, p3, third))
	keys := v.put("good/keys.json", w.directory())
	receipt := v.put("good/receipt.json", answer(t, first[1]))

	v.good("pack", "the first pack of a log: deliveries, metered and suppressed, and one event that is no delivery", chain1)
	v.good("pack as object", "the same pack as one JSON object", v.put("good/chain-1.json", AppendPackObject(nil, p1, first)))
	v.good("pack with duplicates", "a delivery that repeats a leaf of the pack before, and one that repeats a leaf of its own pack", chain2)
	v.good("chain", "three packs of one log, in any order", chain3, chain1, chain2)
	v.good("chain with a gap", "the second of three packs is not given", chain1, chain3)
	v.good("directory", "a signed key directory", keys)
	v.good("receipt and directory", "the answer to a delivery, and the directory with its key", receipt, keys)
	v.good("receipt and pack", "the same receipt, and the pack that includes it", receipt, chain1)

	about := detail(t, first[1])
	v.good("receipt and event", "the answer about a receipt, which has the event as well", v.put("good/receipt-and-event.json", about), keys)
	v.bad("receipt-event-altered", "the event beside the receipt states another quantity", bytes.Replace(about, []byte(`"quantityMs":1500`), []byte(`"quantityMs":9500`), 1), WitnessMismatch)
	v.cases[len(v.cases)-1].Keys = keys
	v.bad("receipt-event-of-another", "the event beside the receipt is that of another", bytes.Replace(about, first[1], first[0], 1), EntryAltered)
	v.cases[len(v.cases)-1].Keys = keys
	for _, c := range []struct{ name, about, old, new string }{
		{"metering", "another quantity beside the receipt", `"quantityMs":1500`, `"quantityMs":9500`},
		{"substrate", "another substrate beside the receipt", `"substrate": "CTV"`, `"substrate": "DOOH"`},
	} {
		text := bytes.Replace(answer(t, first[1]), []byte(c.old), []byte(c.new), 1)
		require.NotEqual(t, string(answer(t, first[1])), string(text))
		lie := v.put("bad/receipt-"+c.name+".json", text)
		v.good("receipt, "+c.about, "the signature does not cover it, which is remarked", lie, keys)
		v.cases = append(v.cases, vector{Name: "receipt and pack, " + c.about, About: "the event in the pack says otherwise", Files: []string{lie, chain1},
			Exit: ExitUnsound, Failures: [][]Code{{EntryAltered}, nil}})
	}

	v.altered(p2, second)
	v.forged(p2, second, p1.Header)

	w.tree, w.previous = tree, previous
	other := w.run(2)
	forked := v.put("bad/fork.ndjson", bundle(t, w.seal(other), other))
	v.cases = append(v.cases,
		vector{"fork", "a second pack behind the first, sound by itself", []string{chain1, chain2, forked}, "", "", ExitUnsound, [][]Code{nil, {ChainFork}, {ChainFork}}},
		vector{"fork alone", "by itself a fork can't be told", []string{chain1, forked}, "", "", ExitSound, [][]Code{nil, nil}})
	w.tree, w.previous = afterTree, after

	v.receipts(first[1])
	v.revocation()
	v.packRevocation()
	v.directories()
	v.sandbox()
	v.settlement()
	v.rows()
	v.proofs()
	v.together()
	v.stops()
	v.stopsOfReceipts()
	return v
}

// altered takes a genuine pack and changes its bytes.
func (v *vectors) altered(p *SealedPack, events [][]byte) {
	lines := bytes.Split(bytes.TrimSuffix(bundle(v.t, p, events), []byte("\n")), []byte("\n"))
	edit := func(change func([][]byte) [][]byte) []byte { return forge(change(slices.Clone(lines))...) }
	replace := func(line int, old, new string) []byte {
		return edit(func(l [][]byte) [][]byte {
			l[line] = bytes.Replace(l[line], []byte(old), []byte(new), 1)
			require.NotEqual(v.t, string(lines[line]), string(l[line]), old)
			return l
		})
	}
	d, err := ReadDelivery(events[0])
	require.NoError(v.t, err)
	v.bad("moved-right", "line 2: the event names another right, its receipt is genuine",
		edit(func(l [][]byte) [][]byte {
			l[1] = bytes.ReplaceAll(l[1], []byte(d.RightID), []byte("rgh_9"))
			return l
		}), RootMismatch, WitnessMismatch)
	v.bad("moved-tenant", "line 2: the event names another tenant", replace(1, v.w.tenant, tenantID("other")), RootMismatch, WitnessMismatch)
	v.bad("moved-event", "line 2: the event has another id of the same moment",
		replace(1, d.Event.EventID, d.Event.EventID[:20]+"0000000000"), RootMismatch, WitnessMismatch)
	v.bad("more-ms", "line 2: more is metered", replace(1, `"quantityMs":3000`, `"quantityMs":9000`), RootMismatch, WitnessMismatch)
	v.bad("dwell", "line 2: the receipt states another dwell", replace(1, `"dwellMs":3000.5`, `"dwellMs":3000.25`), RootMismatch, SignatureInvalid)
	v.bad("other-signature", "line 2 has the signature of line 4", replace(1, sigValue(v.t, events[0]), sigValue(v.t, events[2])), RootMismatch, SignatureInvalid)
	v.bad("note-changed", "line 3, no delivery, says something else", replace(2, "end of campaign", "holiday"), RootMismatch)
	v.bad("note-respelt", "line 3 says the same in another spelling", replace(2, "end of campaign", `\u0065nd of campaign`), RootMismatch, EntryAltered)
	v.bad("entry-deleted", "line 3 is missing", edit(func(l [][]byte) [][]byte { return slices.Delete(l, 2, 3) }), CountMismatch)
	v.bad("entry-inserted", "line 3 stands there twice", edit(func(l [][]byte) [][]byte { return slices.Insert(l, 3, l[2]) }), FormatInvalid)
	v.bad("entries-swapped", "lines 3 and 4 are swapped", edit(func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }), RootMismatch, DuplicatesMismatch)
	v.bad("header-ms", "the header's metering states more", replace(0, `"quantityMs":0`, `"quantityMs":9000`), SignatureInvalid, MeteringMismatch)
	v.bad("header-key-order", "the header's members are in another order", replace(0, `"first":1,"leaf":6`, `"leaf":6,"first":1`), FormatInvalid)
	v.bad("signature-bits", "an unused bit of the signature's base64url is set", edit(func(l [][]byte) [][]byte {
		at := len(l[5]) - len(`"}}`) - 1
		l[5] = bytes.Clone(l[5])
		l[5][at]++
		return l
	}), FormatInvalid)
	v.bad("truncated", "the last line is missing", edit(func(l [][]byte) [][]byte { return l[:len(l)-1] }), FormatInvalid)
	v.bad("no-last-newline", "the last newline is missing", bytes.TrimSuffix(forge(lines...), []byte("\n")), FormatInvalid)
	v.bad("blank-line", "an empty line follows", edit(func(l [][]byte) [][]byte { return append(l, nil) }), FormatInvalid)
	v.bad("private-part", "a private part stands among the entries", edit(func(l [][]byte) [][]byte {
		return slices.Insert(l, 5, []byte(`{"salt":"AAAAAAAAAAAAAAAAAAAAAA"}`))
	}), FormatInvalid)
}

// forged signs what it must not.
func (v *vectors) forged(p *SealedPack, events [][]byte, before PackHeader) {
	thief := testKey("thief")
	header := bytes.Replace(p.HeaderText, []byte(`"signingKeyId":"`+p.Header.SigningKeyID), []byte(`"signingKeyId":"`+KeyID(pub(thief))), 1)
	signature, err := sign(thief, header)
	require.NoError(v.t, err)
	v.bad("signed-by-a-stranger", "the header is signed again by a key that the directory does not list",
		forge(slices.Concat([][]byte{header}, events, [][]byte{signatureLine(KeyID(pub(thief)), signature)})...), KeyUnknown)

	lie := func(name, about string, change func(*PackHeader), codes ...Code) {
		v.bad(name, about+"; signed by the pack's own key", v.w.resign(p, events, func(h *PackHeader) {
			h.Metering, h.Duplicates = slices.Clone(h.Metering), slices.Clone(h.Duplicates)
			change(h)
		}), codes...)
	}
	lie("lie-metering", "a row bills more than the entries", func(h *PackHeader) { h.Metering[1].QuantityMs++ }, MeteringMismatch)
	lie("lie-duplicates", "a repetition within the pack is not listed, so it is billed", func(h *PackHeader) { h.Duplicates = h.Duplicates[:1] }, DuplicatesMismatch)
	lie("lie-duplicates-counted", "a row counts one repetition more than are listed", func(h *PackHeader) {
		h.Metering[slices.IndexFunc(h.Metering, func(r MeterRow) bool { return r.Reason == ReasonDuplicate })].Receipts++
	}, DuplicatesMismatch, MeteringMismatch)
	lie("lie-duplicates-order", "the repetitions are listed backwards", func(h *PackHeader) { slices.Reverse(h.Duplicates) }, FormatInvalid)
	lie("lie-tenant", "the entries are of another tenant", func(h *PackHeader) { h.TenantID = tenantID("other") }, CheckpointMismatch, TenantMismatch)
	lie("lie-checkpoint", "the checkpoint is that of the pack before", func(h *PackHeader) { h.Checkpoint = before.Checkpoint }, CheckpointMismatch)
	lie("lie-checkpoint-time", "the checkpoint says that it was sealed an hour later", func(h *PackHeader) {
		text, err := SignCheckpoint(Checkpoint{Origin(h.TenantID), h.TreeSize, h.RootHash, h.SealedAt.Add(time.Hour)}, v.w.packKey)
		require.NoError(v.t, err)
		h.Checkpoint = text
	}, CheckpointMismatch)
	lie("lie-consistency", "the proof is missing", func(h *PackHeader) { h.Consistency = nil }, ConsistencyMismatch, RootMismatch)
	lie("lie-sealed-at", "sealed before the key's window begins", func(h *PackHeader) { h.SealedAt = epoch.Add(-time.Hour) }, KeyOutsideWindow, EntryAfterSeal)
	lie("lie-sealed-earlier", "sealed a millisecond before its last entry", func(h *PackHeader) {
		last, err := ParseEvent(events[len(events)-1])
		require.NoError(v.t, err)
		h.SealedAt = last.At.Add(-time.Millisecond)
		h.Checkpoint, err = SignCheckpoint(Checkpoint{Origin(h.TenantID), h.TreeSize, h.RootHash, h.SealedAt}, v.w.packKey)
		require.NoError(v.t, err)
	}, EntryAfterSeal)

	lie("lie-pack-id", "an id that is no ULID", func(h *PackHeader) { h.PackID = "ppk_2" }, FormatInvalid)
	lie("lie-previous-id", "the id of the pack before in lower case", func(h *PackHeader) {
		previous := *h.Previous
		previous.PackID = strings.ToLower(previous.PackID)
		h.Previous = &previous
	}, FormatInvalid)
	lie("lie-tenant-id", "an id that is no ULID", func(h *PackHeader) { h.TenantID = "tnt_sandbox" }, FormatInvalid)

	root := v.w.rootName
	v.w.rootName = "other.example"
	directory := v.w.directory()
	v.w.rootName = root
	lie("lie-directory", "the directory is delegated to by another root", func(h *PackHeader) { h.Directory = directory }, DirectoryInvalid)
}

// receipts are receipts without their pack; the directory is good/keys.json.
func (v *vectors) receipts(event []byte) {
	whole := answer(v.t, event)
	d, err := ReadDelivery(event)
	require.NoError(v.t, err)
	bad := func(name, about, old, new string, codes ...Code) {
		changed := bytes.Replace(whole, []byte(old), []byte(new), 1)
		require.NotEqual(v.t, whole, changed, old)
		v.bad(name, about, changed, codes...)
		v.cases[len(v.cases)-1].Keys = "good/keys.json"
	}
	bad("receipt-dwell", "another dwell", `"dwellMs":1500.25`, `"dwellMs":9500.25`, SignatureInvalid)
	bad("receipt-witness", "another witness", `edge:nod_b`, `edge:nod_a`, SignatureInvalid)
	bad("receipt-key", "the id of another node's key", d.KeyID, v.w.nodes[0].KeyID, SignatureInvalid)
	bad("receipt-pack-key", "the id of a key that is for packs", d.KeyID, KeyID(pub(v.w.packKey)), KeyPurpose)
	bad("receipt-unknown-key", "the id of no key", d.KeyID, strings.Repeat("0", 32), KeyUnknown)
	bad("receipt-extra-field", "an eleventh field", `"version":"1"`, `"version":"1","more":1`, FormatInvalid)
	bad("receipt-not-ok", "the answer says that the request was refused", `"ok": true`, `"ok": false`, FormatInvalid)
	bad("receipt-beside-data", "a forged receipt beside the data of the answer", `"ok": true`, `"ok": true, "receipt": {"version":"1"}`, FormatInvalid)
	bad("receipt-more-data", "the data have a member that no answer has", `"substrate"`, `"verified": true, "substrate"`, FormatInvalid)
	bad("receipt-more-behind", "more stands behind the answer", "}\n", "}\n{}\n", FormatInvalid)
	bad("receipt-before-window", "issued before the key's window, and not at the moment of its id", `"issuedAt":"2026`, `"issuedAt":"2025`, FormatInvalid, KeyOutsideWindow)
}

// revocation has a node's key that was revoked after its receipts were sealed.
func (v *vectors) revocation() {
	w := newWorld(v.t)
	w.tenant = tenantID("revoked")
	events := w.run(3)
	pack := v.put("good/before-revocation.ndjson", bundle(v.t, w.seal(events), events))
	receipt := v.put("good/receipt-of-revoked-key.json", answer(v.t, events[1]))
	late := w.run(2)
	w.now = w.now.Add(time.Hour)
	lateText := bundle(v.t, w.seal(late), late)

	revoked := w.now.Add(-time.Minute)
	w.now = w.now.Add(time.Hour)
	w.key(w.nodes[1].KeyID).RevokedAt = &revoked
	keys := v.put("good/keys-with-revocation.json", w.directory())
	v.cases = append(v.cases,
		vector{"sealed before the revocation", "a key revoked later: the pack's seal is older", []string{pack}, keys, "", ExitSound, [][]Code{nil}},
		vector{"receipt of a revoked key", "alone it proves nothing", []string{receipt}, keys, "", ExitUnsound, [][]Code{{KeyRevoked}}},
		vector{"receipt of a revoked key, with its pack", "the pack proves that it is older", []string{receipt, pack}, keys, "", ExitSound, [][]Code{nil, nil}})
	v.bad("sealed-after-revocation", "line 3 is signed by a key that was revoked before the seal", lateText, KeyRevoked)
	v.cases[len(v.cases)-1].Keys = keys
}

// packRevocation has a pack's key that was revoked before the next pack was sealed.
func (v *vectors) packRevocation() {
	w := newWorld(v.t)
	w.tenant = tenantID("revoked_pack")
	w.seal(w.run(2))
	events := w.run(3)
	p := w.seal(events)
	pack := v.put("good/by-revoked-key.ndjson", bundle(v.t, p, events))
	forged := v.put("bad/by-revoked-key-forged.ndjson", w.unbilled(p, events))
	w.revokePackKey()
	events = w.run(2)
	next := v.put("good/by-next-key.ndjson", bundle(v.t, w.seal(events), events))
	v.good("pack of a revoked key, with the next", "the next pack names it, and its header", pack, next)
	v.cases = append(v.cases, vector{
		Name: "forged pack of a revoked key, with the next", About: "the same entries, but nothing is billed: all are said to repeat a leaf that is not given",
		Files: []string{forged, next}, Exit: ExitUnsound, Failures: [][]Code{{KeyRevoked}, {ConsistencyMismatch}},
	})
}

// sandbox has a pack whose receipts and seal are by sandbox keys.
func (v *vectors) sandbox() {
	w := newWorld(v.t)
	w.tenant = tenantID("sandbox")
	key := testKey("sandbox")
	w.packKey, w.nodes = key, []*Signer{{KeyID(pub(key)), "nod_control", key}}
	events := w.run(3)
	pack := AppendPackObject(nil, w.seal(events), events)
	v.good("sandbox", "a pack of a sandbox, as one object", v.put("good/sandbox.json", pack))

	signer, other := answered(*w.key(KeyID(pub(key)))), answered(*w.key(w.keys[1].KeyID))
	good := packAnswer(pack, signer)
	v.good("sandbox, as answered", "the same pack as the sandbox answers with it, beside its key", v.put("good/sandbox-answer.json", []byte(good+"\n")))
	v.good("sandbox, the data", "the data of that answer", v.put("good/sandbox-data.json", []byte(good[len(answerStart):len(good)-1])))
	v.bad("answer-not-ok", "the answer says that it is none", []byte(strings.Replace(good, "true", "false", 1)), FormatInvalid)
	v.bad("answer-data-twice", "there is more data behind it", []byte(strings.TrimSuffix(good, "}")+`,"data":null}`), FormatInvalid)
	v.bad("answer-key-twice", "a member of the key stands there twice", []byte(packAnswer(pack, strings.Replace(signer, `"notAfter":null`, `"notAfter":null,"notAfter":null`, 1))), FormatInvalid)
	v.bad("answer-without-key", "there is no key beside the pack", []byte(packAnswer(pack, "null")), FormatInvalid)
	v.bad("answer-spaced", "there is a space in it", []byte(strings.Replace(good, `:{"pack"`, `: {"pack"`, 1)), FormatInvalid)
	v.bad("answer-other-key", "the key beside the pack is another of the directory", []byte(packAnswer(pack, other)), KeyMismatch)
	v.bad("answer-other-half", "the key beside the pack has the public half of another", []byte(packAnswer(pack, strings.Replace(signer, w.key(KeyID(pub(key))).PublicKey, w.keys[1].PublicKey, 1))), KeyMismatch)
}

// settlement has a log with settlement rules, and lies about what they make.
func (v *vectors) settlement() {
	w := newWorld(v.t)
	w.tenant = tenantID("settled")
	keep := v.w
	v.w = w // the lies are signed by its keys
	defer func() { v.w = keep }()
	one, two, first, second := w.settled()
	settled1 := v.put("good/settled-1.ndjson", bundle(v.t, one, first))
	settled2 := v.put("good/settled-2.ndjson", bundle(v.t, two, second))
	amended := [][]byte{
		w.rule("settlement_rule.retired", w.record(2, `"effectiveUntil":null`, `"effectiveUntil":"`+FormatTime(w.now)+`"`, "ACTIVE", "RETIRED")),
		w.rule(ruleCreated, w.record(3, `"meteringBasis":null`, `"meteringBasis":"viewable"`, `"substrate":null`, `"substrate":"CTV"`, `"priority":0`, `"priority":2`,
			`"0.125"`, `"9223372036.854775807"`, "SECOND", "MS")),
	}
	amended = append(amended, w.run(12)...)
	settled3 := v.put("good/settled-3.ndjson", bundle(v.t, w.seal(amended), amended))
	v.good("settlement", "a pack with one settlement rule, which stands behind most of the receipts that it rates", settled1)
	v.good("settlement, older rule", "the second rule is for one right, the first is in the pack before, which is not given", settled2)
	v.good("settlements of a log", "in the third pack a rule has been retired, and one has a price of which not every amount can be told", settled3, settled1, settled2)

	lie := func(name, about string, change func(*PackHeader)) {
		v.bad(name, about+"; signed by the pack's own key", w.resign(two, second, func(h *PackHeader) {
			h.Settlement = h.Settlement.clone()
			change(h)
		}), SettlementMismatch)
	}
	rule := func(h *PackHeader, i int, old, new string) {
		r := &h.Settlement.Rules[i]
		r.Record = []byte(strings.Replace(string(r.Record), old, new, 1))
	}
	lie("lie-settlement-amount", "an amount is a millionth higher", func(h *PackHeader) { h.Settlement.Lines[0].Amount = "0.750001" })
	lie("lie-settlement-share", "a millionth of a share went to the other", func(h *PackHeader) {
		h.Settlement.Lines[0].Shares = []string{"0.500024", "0.249976"}
	})
	lie("lie-settlement-line", "a line is missing", func(h *PackHeader) { h.Settlement.Lines = h.Settlement.Lines[1:] })
	lie("lie-settlement-unrated", "the receipts of a line are called unrated", func(h *PackHeader) { unrate(h.Settlement) })
	lie("lie-settlement-twice", "a line stands there twice", func(h *PackHeader) {
		h.Settlement.Lines = append(h.Settlement.Lines, h.Settlement.Lines[len(h.Settlement.Lines)-1])
	})
	lie("lie-settlement-price", "the price of a rule is not that of its event", func(h *PackHeader) { rule(h, 1, "0.000003", "0.000004") })
	lie("lie-settlement-unit", "the unit of a rule is none", func(h *PackHeader) { rule(h, 0, "SECOND", "HOUR") })
	lie("lie-settlement-member", "a rule has a unit too many", func(h *PackHeader) { rule(h, 0, `"unit":"SECOND"`, `"unit":"SECOND","unit2":"MS"`) })
	lie("lie-settlement-rule", "a rule of the pack is missing", func(h *PackHeader) { h.Settlement.Rules = h.Settlement.Rules[:1] })
	lie("lie-settlement-none", "there is no settlement", func(h *PackHeader) { h.Settlement = nil })

	forged := v.put("bad/settled-forged.ndjson", w.forgedRule(v.t, two, second))
	v.good("older rule forged, alone", "the record of the older rule is not that of its event: by itself it can't be told", forged)
	v.cases = append(v.cases, vector{
		Name: "older rule forged", About: "the pack before tells it",
		Files: []string{settled1, forged}, Exit: ExitUnsound, Failures: [][]Code{nil, {SettlementMismatch}},
	})
}

// together are packs that are sound by themselves, of which one contradicts another.
func (v *vectors) together() {
	v.w = newWorld(v.t)
	w := v.w
	w.tenant = tenantID("together")
	first := append(w.run(3), w.rule(ruleCreated, w.record(1)))
	one := v.put("good/together-1.ndjson", bundle(v.t, w.seal(first), first))
	second := [][]byte{w.note("right.suspended"), w.rule(ruleCreated, w.record(2))}
	p := w.seal(second)
	two := v.put("good/together-2.ndjson", bundle(v.t, p, second))
	again := v.put("good/together-2.json", AppendPackObject(nil, p, second))
	tree, previous, rules := w.tree, w.previous, w.rules
	third := w.run(3)
	p = w.seal(third)
	three := v.put("good/together-3.ndjson", bundle(v.t, p, third))
	v.good("a pack in both forms", "the second of three packs is given twice", one, two, again, three)
	v.good("a gap with a rule", "the second of three packs, which is not given, holds a settlement rule", one, three)

	bad := func(name, about, file string, text []byte, codes ...Code) {
		file = v.put("bad/"+file+".ndjson", text)
		for _, before := range [][]string{{one}, {one, two, again}} {
			what := name + ", behind a gap"
			if len(before) > 1 {
				what = name + ", behind a pack in both forms"
			}
			files := append(before, file)
			failures := make([][]Code, len(files))
			failures[len(before)] = codes
			v.cases = append(v.cases, vector{Name: what, About: about, Files: files, Exit: ExitUnsound, Failures: failures})
		}
	}
	bad("another rule", "a settlement rule of the first pack is another in the third", "together-rule", w.forgedRule(v.t, p, third), SettlementMismatch)
	bad("a rule less", "a settlement rule of the first pack is missing in the third", "together-rule-missing", w.resign(p, third, func(h *PackHeader) {
		h.Settlement.Rules = h.Settlement.Rules[1:]
	}), SettlementMismatch)
	w.tree, w.previous, w.rules = tree, previous, rules
	third = append(w.run(2), first[1])
	bad("an event repeated", "an event of the first pack stands in the third again", "together-event", bundle(v.t, w.seal(third), third), EntryRepeated)
	w.tree, w.previous, w.rules = tree, previous, rules
	third = [][]byte{w.delivery(4, "order 1")}
	bad("a repetition billed", "a delivery of the third pack repeats one of the first, and is metered", "together-billed", bundle(v.t, w.seal(third), third),
		DuplicatesMismatch, MeteringMismatch, SettlementMismatch)
}

// worked is one delivery with all intermediate values.
func (v *vectors) worked(t *testing.T) []byte {
	w := newWorld(t)
	s, d, r := w.draft(2)
	private := Private{Salt: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, DataSubject: "sub_1", AttentionMs: -1, Telemetry: []byte(`{"viewable":true}`)}
	privateText := AppendPrivate(nil, &private)
	d.PrivateCommitment = Commit(private.Salt, privateText)
	event, err := s.SealDelivery(nil, d, r)
	require.NoError(t, err)
	parts, err := SplitDelivery(event)
	require.NoError(t, err)
	bare := strings.Replace(string(event), `,"receipt":`+string(parts.Receipt), "", 1)
	bare = strings.Replace(bare, `,"signature":`+string(parts.Signature), "", 1)
	text, err := json.MarshalIndent(map[string]string{
		"seed":              "SHA-256 of the text \"nod_a\"",
		"publicKey":         base64url.EncodeToString(pub(testKey("nod_a"))),
		"keyId":             s.KeyID,
		"private":           string(privateText),
		"privateCommitment": d.PrivateCommitment,
		"witnessed":         bare,
		"witness":           *r.Witness,
		"receipt":           string(parts.Receipt),
		"signature":         string(parts.Signature),
		"event":             string(event),
		"leafHash":          LeafHash(event).String(),
	}, "", "  ")
	require.NoError(t, err)
	return append(text, '\n')
}

const vectorsIntro = `# Test vectors

Made by ` + "`go test ./sealer -run TestVectors -update`" + `; the same bytes every time, for every key is derived from a name
(its Ed25519 seed is the SHA-256 of the name: ` + "`root.example`, `directory`, `second directory`, `pack`, `sandbox`, `nod_a`, `nod_b`" + `). The formats are
described in the package comment of sealer (` + "`go doc muniment/sealer`" + `).

- ` + "`root.vkey`" + ` is the trust anchor of all cases.
- ` + "`vectors.json`" + ` lists the cases for a program: name, what it is about, the files that are verified together, the key directory
  given beside the root key if there is one, the checkpoint that is expected if there is one, the exit status, and for each file
  (the expected checkpoint is the last) the codes that must fail, in order.
- ` + "`worked.json`" + ` is one delivery with every intermediate value, from the private part to the leaf hash.

Each case below is what ` + "`muniment verify --root root.vkey [--keys KEYS] [--expect-checkpoint FILE] FILES`" + ` says in this folder. A file that is sound alone may fail
beside others, as a fork does.

| case | files | keys | fails with | about |
|---|---|---|---|---|
`

func (v *vectors) readme() []byte {
	var b bytes.Buffer
	b.WriteString(vectorsIntro)
	for _, c := range v.cases {
		var codes []string
		for i, list := range c.Failures {
			for _, code := range list {
				name := "`" + string(code) + "`"
				if list := append(slices.Clip(c.Files), c.Expect); len(c.Files) > 1 || c.Expect != "" {
					name += " (" + filepath.Base(list[i]) + ")"
				}
				codes = append(codes, name)
			}
		}
		if codes == nil {
			codes = []string{"–"}
		}
		files := strings.Join(c.Files, ", ")
		if c.Expect != "" {
			files += "; expected: " + c.Expect
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.Name, files, c.Keys, strings.Join(codes, ", "), c.About)
	}
	return b.Bytes()
}

func TestVectors(t *testing.T) {
	v := makeVectors(t)
	list, err := json.MarshalIndent(v.cases, "", "  ")
	require.NoError(t, err)
	v.put("vectors.json", append(list, '\n'))
	v.put("worked.json", v.worked(t))
	v.put("README.md", v.readme())
	if *update {
		for _, dir := range []string{"good", "bad"} {
			require.NoError(t, os.RemoveAll(filepath.Join("testdata", dir)))
			require.NoError(t, os.MkdirAll(filepath.Join("testdata", dir), 0o755))
		}
		for name, text := range v.files {
			require.NoError(t, os.WriteFile(filepath.Join("testdata", name), text, 0o644))
		}
	}

	var stored []string
	require.NoError(t, filepath.WalkDir("testdata", func(path string, e fs.DirEntry, err error) error {
		if name, _ := filepath.Rel("testdata", path); err == nil && !e.IsDir() && !strings.HasPrefix(name, "fuzz") {
			stored = append(stored, name)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(v.files[name]), string(text), "%s: run with -update", name)
		}
		return err
	}))
	require.Len(t, stored, len(v.files))

	for _, c := range v.cases {
		t.Run(c.Name, func(t *testing.T) {
			tr, err := readTrust("testdata/root.vkey", testdata(c.Keys))
			require.NoError(t, err)
			var files []string
			for _, f := range c.Files {
				files = append(files, testdata(f))
			}
			r := verifyFiles(context.Background(), tr, &Options{Files: files, Expect: testdata(c.Expect), Rate: testRate})
			require.Equal(t, c.Exit == ExitSound, r.OK)
			for i, f := range r.Files {
				require.Equal(t, c.Failures[i], failures(f.Verdicts), "%s: %+v", f.File, f.Verdicts)
			}
		})
	}
}

func testdata(name string) string {
	if name == "" {
		return ""
	}
	return filepath.Join("testdata", name)
}
