package verify

import (
	"bytes"
	"context"
	"encoding/base64"
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

	"muniment.example/sealer"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
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
	// Verdict is that of the command, and Verdicts that on each file.
	Verdict  string   `json:"verdict"`
	Verdicts []string `json:"verdicts"`
	// Failures are the codes that fail, for each file in its order, and last for the
	// expected checkpoint if there is one.
	Failures [][]sealer.Code `json:"failures"`
}

// decide sets the verdicts that the codes make.
func (c *vector) decide() {
	var r Report
	for _, codes := range c.Failures {
		var f FileReport
		for _, code := range codes {
			f.say(code, "")
		}
		r.Files = append(r.Files, f)
	}
	r.decide()
	c.Exit, c.Verdict = exits[r.Verdict], r.Verdict
	for _, f := range r.Files {
		c.Verdicts = append(c.Verdicts, f.Verdict)
	}
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
	v.cases = append(v.cases, vector{Name: name, About: about, Files: files, Failures: make([][]sealer.Code, len(files))})
}

// bad adds a case of one file that fails with these codes.
func (v *vectors) bad(name, about string, text []byte, codes ...sealer.Code) {
	ext := ".ndjson"
	if bytes.HasPrefix(text, []byte(`{"ok"`)) || bytes.HasPrefix(text, []byte(startOfDirectory)) || bytes.Contains(text, []byte(`"ok": `)) {
		ext = ".json"
	}
	file := v.put("bad/"+name+ext, text)
	v.cases = append(v.cases, vector{Name: name, About: about, Files: []string{file}, Failures: [][]sealer.Code{codes}})
}

func makeVectors(t *testing.T) *vectors {
	v := &vectors{t: t, w: newWorld(t), files: make(map[string][]byte)}
	w := v.w
	v.put("root.vkey", []byte(w.VKey+"\n"))

	first := append(w.Run(4), w.Note("right.suspended"), w.Delivery(2, "order 1"))
	p1 := w.Seal(first)
	chain1 := v.put("good/chain-1.ndjson", sealertest.Bundle(t, p1, first))
	second := [][]byte{w.Delivery(2, "order 1"), w.Note("right.resumed"), w.Delivery(3, "late order"), w.Delivery(3, "late order")}
	e, err := sealer.ParseEvent(second[0])
	require.NoError(t, err)
	tree, previous := w.Tree, w.Previous
	p2 := w.Seal(second, func(c *pack.Config) { c.Earlier = map[string]uint64{e.EventID: 1} })
	chain2 := v.put("good/chain-2.ndjson", sealertest.Bundle(t, p2, second))
	afterTree, after := w.Tree, w.Previous
	third := w.Run(3)
	p3 := w.Seal(third)
	chain3 := v.put("good/chain-3.ndjson", sealertest.Bundle(t, p3, third))
	keys := v.put("good/keys.json", w.Directory())
	receipt := v.put("good/receipt.json", answer(t, first[1]))

	v.good("pack", "the first pack of a log: deliveries, metered and suppressed, and one event that is no delivery", chain1)
	v.good("pack as object", "the same pack as one JSON object", v.put("good/chain-1.json", pack.AppendObject(nil, p1, first)))
	v.good("pack with duplicates", "a delivery that repeats a leaf of the pack before, and one that repeats a leaf of its own pack", chain2)
	v.good("chain", "three packs of one log, in any order", chain3, chain1, chain2)
	v.good("chain with a gap", "the second of three packs is not given", chain1, chain3)
	v.good("directory", "a signed key directory", keys)
	v.good("receipt and directory", "the answer to a delivery, and the directory with its key", receipt, keys)
	v.good("receipt and pack", "the same receipt, and the pack that includes it", receipt, chain1)

	about := detail(t, first[1])
	v.good("receipt and event", "the answer about a receipt, which has the event as well", v.put("good/receipt-and-event.json", about), keys)
	v.bad("receipt-event-altered", "the event beside the receipt states another quantity", bytes.Replace(about, []byte(`"quantityMs":1500`), []byte(`"quantityMs":9500`), 1), sealer.WitnessMismatch)
	v.cases[len(v.cases)-1].Keys = keys
	v.bad("receipt-event-of-another", "the event beside the receipt is that of another", bytes.Replace(about, first[1], first[0], 1), sealer.EntryAltered)
	v.cases[len(v.cases)-1].Keys = keys
	for _, c := range []struct{ name, about, old, new string }{
		{"metering", "another quantity beside the receipt", `"quantityMs":1500`, `"quantityMs":9500`},
		{"substrate", "another substrate beside the receipt", `"substrate": "CTV"`, `"substrate": "DOOH"`},
	} {
		text := bytes.Replace(answer(t, first[1]), []byte(c.old), []byte(c.new), 1)
		require.NotEqual(t, string(answer(t, first[1])), string(text))
		lie := v.put("bad/receipt-"+c.name+".json", text)
		v.good("receipt, "+c.about, "the signature does not cover it, which is remarked", lie, keys)
		v.cases = append(v.cases, vector{Name: "receipt and pack, " + c.about, About: "the event in the pack says otherwise", Files: []string{lie, chain1}, Failures: [][]sealer.Code{{sealer.EntryAltered}, nil}})
	}

	v.altered(p2, second)
	v.forged(p2, second, p1.Header)

	w.Tree, w.Previous = tree, previous
	other := w.Run(2)
	forked := v.put("bad/fork.ndjson", sealertest.Bundle(t, w.Seal(other), other))
	v.cases = append(v.cases,
		vector{Name: "fork", About: "a second pack behind the first, sound by itself", Files: []string{chain1, chain2, forked}, Failures: [][]sealer.Code{nil, {ChainFork}, {ChainFork}}},
		vector{Name: "fork alone", About: "by itself a fork can't be detected", Files: []string{chain1, forked}, Failures: [][]sealer.Code{nil, nil}})
	w.Tree, w.Previous = afterTree, after

	v.receipts(first[1])
	v.revocation()
	v.packRevocation()
	v.directories()
	v.sandbox()
	v.settlement()
	v.scopes()
	v.rows()
	v.proofs()
	v.statements()
	v.erasures()
	v.together()
	v.stops()
	v.stopsOfReceipts()
	return v
}

// altered takes a genuine pack and changes its bytes.
func (v *vectors) altered(p *pack.Pack, events [][]byte) {
	lines := bytes.Split(bytes.TrimSuffix(sealertest.Bundle(v.t, p, events), []byte("\n")), []byte("\n"))
	edit := func(change func([][]byte) [][]byte) []byte { return forge(change(slices.Clone(lines))...) }
	replace := func(line int, old, new string) []byte {
		return edit(func(l [][]byte) [][]byte {
			l[line] = bytes.Replace(l[line], []byte(old), []byte(new), 1)
			require.NotEqual(v.t, string(lines[line]), string(l[line]), old)
			return l
		})
	}
	d, err := sealer.ReadDelivery(events[0])
	require.NoError(v.t, err)
	v.bad("moved-right", "line 2: the event names another right, its receipt is genuine",
		edit(func(l [][]byte) [][]byte {
			l[1] = bytes.ReplaceAll(l[1], []byte(d.RightID), []byte("rgh_9"))
			return l
		}), RootMismatch, sealer.WitnessMismatch)
	v.bad("moved-tenant", "line 2: the event names another tenant", replace(1, v.w.Tenant, sealertest.TenantID("other")), RootMismatch, sealer.WitnessMismatch)
	v.bad("moved-event", "line 2: the event has another id of the same moment",
		replace(1, d.Event.EventID, d.Event.EventID[:20]+"0000000000"), RootMismatch, sealer.WitnessMismatch)
	v.bad("more-ms", "line 2: more is metered", replace(1, `"quantityMs":3000`, `"quantityMs":9000`), RootMismatch, sealer.WitnessMismatch)
	v.bad("dwell", "line 2: the receipt states another dwell", replace(1, `"dwellMs":3000.5`, `"dwellMs":3000.25`), RootMismatch, sealer.SignatureInvalid)
	v.bad("other-signature", "line 2 has the signature of line 4", replace(1, sigValue(v.t, events[0]), sigValue(v.t, events[2])), RootMismatch, sealer.SignatureInvalid)
	v.bad("note-changed", "line 3, no delivery, says something else", replace(2, "end of campaign", "holiday"), RootMismatch)
	v.bad("note-respelt", "line 3 has the same meaning in another encoding", replace(2, "end of campaign", `\u0065nd of campaign`), RootMismatch, sealer.EntryAltered)
	v.bad("entry-deleted", "line 3 is missing", edit(func(l [][]byte) [][]byte { return slices.Delete(l, 2, 3) }), CountMismatch)
	v.bad("entry-inserted", "line 3 stands there twice", edit(func(l [][]byte) [][]byte { return slices.Insert(l, 3, l[2]) }), FormatInvalid)
	v.bad("entries-swapped", "lines 3 and 4 are swapped", edit(func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }), RootMismatch, DuplicatesMismatch)
	v.bad("header-ms", "the header's metering states more", replace(0, `"quantityMs":0`, `"quantityMs":9000`), sealer.SignatureInvalid, MeteringMismatch)
	v.bad("header-key-order", "the header's members are in another order", replace(0, `"first":1,"leaf":6`, `"leaf":6,"first":1`), FormatInvalid)
	v.bad("signature-bits", "an unused bit of the signature's base64url is set", edit(func(l [][]byte) [][]byte {
		at := len(l[5]) - len(`"}}`) - 1
		l[5] = bytes.Clone(l[5])
		l[5][at]++
		return l
	}), FormatInvalid)
	v.bad("truncated", "the last line is missing", edit(func(l [][]byte) [][]byte { return l[:len(l)-1] }), FormatInvalid)
	v.good("pack with other line ends", "its lines end with CRLF, and the last has no end",
		v.put("good/crlf.ndjson", bytes.TrimSuffix(bytes.ReplaceAll(forge(lines...), []byte("\n"), []byte("\r\n")), []byte("\r\n"))))
	v.bad("blank-line", "line 3 is empty", edit(func(l [][]byte) [][]byte { return slices.Insert(l, 2, nil) }), FormatInvalid)
	v.bad("private-part", "a private part stands among the entries", edit(func(l [][]byte) [][]byte {
		return slices.Insert(l, 5, []byte(`{"salt":"AAAAAAAAAAAAAAAAAAAAAA"}`))
	}), FormatInvalid)
}

// forged signs what it must not.
func (v *vectors) forged(p *pack.Pack, events [][]byte, before pack.Header) {
	thief := sealertest.PrivateKey("thief")
	header := bytes.Replace(p.HeaderText, []byte(`"signingKeyId":"`+p.Header.SigningKeyID), []byte(`"signingKeyId":"`+keydir.KeyID(sealertest.Public(thief))), 1)
	signature, err := sign(thief, header)
	require.NoError(v.t, err)
	v.bad("signed-by-a-stranger", "the header is signed again by a key that the directory does not list",
		forge(slices.Concat([][]byte{header}, events, [][]byte{signatureLine(keydir.KeyID(sealertest.Public(thief)), signature)})...), sealer.KeyUnknown)

	lie := func(name, about string, change func(*pack.Header), codes ...sealer.Code) {
		v.bad(name, about+"; signed by the pack's own key", v.w.resign(p, events, func(h *pack.Header) {
			h.Metering, h.Duplicates = slices.Clone(h.Metering), slices.Clone(h.Duplicates)
			change(h)
		}), codes...)
	}
	lie("lie-metering", "a row bills more than the entries", func(h *pack.Header) { h.Metering[1].QuantityMs++ }, MeteringMismatch)
	lie("lie-duplicates", "a repetition within the pack is not listed, so it is billed", func(h *pack.Header) { h.Duplicates = h.Duplicates[:1] }, DuplicatesMismatch)
	lie("lie-duplicates-counted", "a row counts one repetition more than are listed", func(h *pack.Header) {
		h.Metering[slices.IndexFunc(h.Metering, func(r pack.MeterRow) bool { return r.Reason == sealer.ReasonDuplicate })].Receipts++
	}, DuplicatesMismatch, MeteringMismatch)
	lie("lie-duplicates-order", "the repetitions are listed backwards", func(h *pack.Header) { slices.Reverse(h.Duplicates) }, FormatInvalid)
	lie("lie-tenant", "the entries are of another tenant", func(h *pack.Header) { h.TenantID = sealertest.TenantID("other") }, CheckpointMismatch, sealer.TenantMismatch)
	lie("lie-checkpoint", "the checkpoint is that of the pack before", func(h *pack.Header) { h.Checkpoint = before.Checkpoint }, CheckpointMismatch)
	lie("lie-checkpoint-time", "the checkpoint says that it was sealed an hour later", func(h *pack.Header) {
		text, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(h.TenantID), Size: h.TreeSize, Root: h.RootHash, SealedAt: h.SealedAt.Add(time.Hour)}, v.w.PackKey)
		require.NoError(v.t, err)
		h.Checkpoint = text
	}, CheckpointMismatch)
	lie("lie-consistency", "the proof is missing", func(h *pack.Header) { h.Consistency = nil }, ConsistencyMismatch, RootMismatch)
	lie("lie-sealed-at", "sealed before the key's window begins", func(h *pack.Header) { h.SealedAt = sealertest.Epoch.Add(-time.Hour) }, sealer.KeyOutsideWindow, sealer.EntryAfterSeal)
	lie("lie-sealed-earlier", "sealed a millisecond before its last entry", func(h *pack.Header) {
		last, err := sealer.ParseEvent(events[len(events)-1])
		require.NoError(v.t, err)
		h.SealedAt = last.At.Add(-time.Millisecond)
		h.Checkpoint, err = checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(h.TenantID), Size: h.TreeSize, Root: h.RootHash, SealedAt: h.SealedAt}, v.w.PackKey)
		require.NoError(v.t, err)
	}, sealer.EntryAfterSeal)

	lie("lie-pack-id", "an id that is no ULID", func(h *pack.Header) { h.PackID = "ppk_2" }, FormatInvalid)
	lie("lie-previous-id", "the id of the pack before in lower case", func(h *pack.Header) {
		previous := *h.Previous
		previous.PackID = strings.ToLower(previous.PackID)
		h.Previous = &previous
	}, FormatInvalid)
	lie("lie-tenant-id", "an id that is no ULID", func(h *pack.Header) { h.TenantID = "tnt_sandbox" }, FormatInvalid)

	root := v.w.RootName
	v.w.RootName = "other.example"
	directory := v.w.Directory()
	v.w.RootName = root
	lie("lie-directory", "the directory is delegated to by another root", func(h *pack.Header) { h.Directory = directory }, DirectoryForeign)
}

// receipts are receipts without their pack; the directory is good/keys.json.
func (v *vectors) receipts(event []byte) {
	whole := answer(v.t, event)
	d, err := sealer.ReadDelivery(event)
	require.NoError(v.t, err)
	bad := func(name, about, old, new string, codes ...sealer.Code) {
		changed := bytes.Replace(whole, []byte(old), []byte(new), 1)
		require.NotEqual(v.t, whole, changed, old)
		v.bad(name, about, changed, codes...)
		v.cases[len(v.cases)-1].Keys = "good/keys.json"
	}
	bad("receipt-dwell", "another dwell", `"dwellMs":1500.25`, `"dwellMs":9500.25`, sealer.SignatureInvalid)
	bad("receipt-witness", "another witness", `edge:nod_b`, `edge:nod_a`, sealer.SignatureInvalid)
	bad("receipt-key", "the id of another node's key", d.KeyID, v.w.Nodes[0].KeyID, sealer.SignatureInvalid)
	bad("receipt-pack-key", "the id of a key that is for packs", d.KeyID, keydir.KeyID(sealertest.Public(v.w.PackKey)), sealer.KeyPurpose)
	bad("receipt-unknown-key", "the id of no key", d.KeyID, strings.Repeat("0", 32), sealer.KeyUnknown)
	bad("receipt-extra-field", "an eleventh field", `"version":"1"`, `"version":"1","more":1`, FormatInvalid)
	bad("receipt-not-ok", "the answer says that the request was refused", `"ok": true`, `"ok": false`, FormatInvalid)
	bad("receipt-beside-data", "a forged receipt beside the data of the answer", `"ok": true`, `"ok": true, "receipt": {"version":"1"}`, FormatInvalid)
	bad("receipt-more-data", "the data have a member that no answer has", `"substrate"`, `"verified": true, "substrate"`, FormatInvalid)
	bad("receipt-more-behind", "more stands behind the answer", "}\n", "}\n{}\n", FormatInvalid)
	bad("receipt-before-window", "issued before the key's window, and not at the moment of its id", `"issuedAt":"2026`, `"issuedAt":"2025`, FormatInvalid, sealer.KeyOutsideWindow)
}

// worked is one delivery with all intermediate values.
func (v *vectors) worked(t *testing.T) []byte {
	w := newWorld(t)
	s, d, r := w.Draft(2)
	private := sealer.Private{Salt: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, DataSubjects: sealer.About("sub_1"), AttentionMs: -1, Telemetry: []byte(`{"viewable":true}`)}
	privateText := sealer.AppendPrivate(nil, &private)
	d.PrivateCommitment = private.Commitment()
	event, err := s.SealDelivery(nil, d, r)
	require.NoError(t, err)
	parts, err := sealer.SplitDelivery(event)
	require.NoError(t, err)
	bare := strings.Replace(string(event), `,"receipt":`+string(parts.Receipt), "", 1)
	bare = strings.Replace(bare, `,"signature":`+string(parts.Signature), "", 1)
	text, err := json.MarshalIndent(map[string]string{
		"seed":              "SHA-256 of the text \"nod_a\"",
		"publicKey":         base64.RawURLEncoding.EncodeToString(sealertest.Public(sealertest.PrivateKey("nod_a"))),
		"keyId":             s.KeyID,
		"private":           string(privateText),
		"privateCommitment": d.PrivateCommitment,
		"witnessed":         bare,
		"witness":           *r.Witness,
		"receipt":           string(parts.Receipt),
		"signature":         string(parts.Signature),
		"event":             string(event),
		"leafHash":          merkle.LeafHash(event).String(),
	}, "", "  ")
	require.NoError(t, err)
	return append(text, '\n')
}

const vectorsIntro = `# Test vectors

Made by ` + "`go test ./sealer/verify -run TestVectors -update`" + `; the same bytes every time, for every key is derived from a name
(its Ed25519 seed is the SHA-256 of the name: ` + "`root.example`, `directory`, `second directory`, `pack`, `sandbox`, `nod_a`, `nod_b`" + `). The formats are
described in the package comment of sealer (` + "`go doc ./sealer`" + `).

- ` + "`root.vkey`" + ` is the trust anchor of all cases.
- ` + "`vectors.json`" + ` lists the cases for a program: name, what it is about, the files that are verified together, the key directory
  given beside the root key if there is one, the checkpoint that is expected if there is one, the exit status, the verdict, and for each file
  (the expected checkpoint is the last) its verdict and the codes that must not pass, in order.
- ` + "`worked.json`" + ` is one delivery with every intermediate value, from the private part to the leaf hash.

Each case below is what ` + "`muniment verify --root root.vkey [--keys KEYS] [--expect-checkpoint FILE] FILES`" + ` says in this folder. A file that is sound alone may fail
beside others, as a fork does.

| case | files | keys | verdict | codes that don't pass | about |
|---|---|---|---|---|---|
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
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.Name, files, c.Keys, c.Verdict, strings.Join(codes, ", "), c.About)
	}
	return b.Bytes()
}

func TestVectors(t *testing.T) {
	v := makeVectors(t)
	for i := range v.cases {
		v.cases[i].decide()
	}
	list, err := json.MarshalIndent(v.cases, "", "  ")
	require.NoError(t, err)
	v.put("vectors.json", append(list, '\n'))
	v.put("worked.json", v.worked(t))
	v.put("README.md", v.readme())
	if *update {
		for _, dir := range []string{"good", "bad"} {
			require.NoError(t, os.RemoveAll(filepath.Join("../testdata", dir)))
			require.NoError(t, os.MkdirAll(filepath.Join("../testdata", dir), 0o755))
		}
		for name, text := range v.files {
			require.NoError(t, os.WriteFile(filepath.Join("../testdata", name), text, 0o644))
		}
	}

	var stored []string
	require.NoError(t, filepath.WalkDir("../testdata", func(path string, e fs.DirEntry, err error) error {
		if name, _ := filepath.Rel("../testdata", path); err == nil && !e.IsDir() && !strings.HasPrefix(name, "fuzz") {
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
			tr, err := readTrust("../testdata/root.vkey", testdata(c.Keys))
			require.NoError(t, err)
			var files []string
			for _, f := range c.Files {
				files = append(files, testdata(f))
			}
			r := verifyFiles(context.Background(), tr, &Options{Files: files, Expect: testdata(c.Expect), Rating: rate.Rating})
			require.Equal(t, c.Verdict, r.Verdict)
			require.Equal(t, c.Verdict == VerdictSound, r.OK)
			for i, f := range r.Files {
				require.Equal(t, c.Failures[i], failures(f.Verdicts), "%s: %+v", f.File, f.Verdicts)
				require.Equal(t, c.Verdicts[i], f.Verdict, f.File)
			}
		})
	}
}

func testdata(name string) string {
	if name == "" {
		return ""
	}
	return filepath.Join("../testdata", name)
}
