package verify

import (
	"bytes"
	"encoding/base64"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// sound adds a case in which nothing fails, under good/proof-keys.json.
func (v *vectors) sound(name, about string, files ...string) {
	v.good(name, about, files...)
	v.cases[len(v.cases)-1].Keys = "good/proof-keys.json"
}

// unsound adds a case in which one file, or several, fail with these codes.
func (v *vectors) unsound(name, about string, files []string, codes ...[]sealer.Code) {
	v.cases = append(v.cases, vector{
		Name: name, About: about, Files: files, Keys: "good/proof-keys.json", Failures: codes,
	})
}

// expected adds a case with a checkpoint that was held outside.
func (v *vectors) expected(name, about, expect string, files []string, code sealer.Code) {
	c := vector{
		Name: name, About: about, Files: files, Keys: "good/proof-keys.json", Expect: expect, Failures: make([][]sealer.Code, len(files)+1),
	}
	if code != "" {
		c.Failures[len(files)] = []sealer.Code{code}
	}
	v.cases = append(v.cases, c)
}

// proofs are proofs, checkpoints and exports of a log of three packs, and what a
// revocation between them means.
func (v *vectors) proofs() {
	a := newArchive(v.t)
	a.Tenant = sealertest.TenantID("archive")
	a.add(3)
	a.add(5)
	revoked := a.Now.Add(time.Minute)
	a.Now = revoked.Add(time.Hour)
	a.add(2)
	v.put("good/proof-keys.json", a.Directory())

	put := func(name string, text []byte) string { return v.put("good/"+name, text) }
	bad := func(name, about string, text []byte, codes ...sealer.Code) {
		v.unsound(name, about, []string{v.put("bad/"+name, text)}, codes)
	}
	replaced := func(text []byte, old, new string) []byte {
		changed := bytes.Replace(text, []byte(old), []byte(new), 1)
		require.NotEqual(v.t, string(text), string(changed), old)
		return changed
	}
	proof, bare, event := a.proofAnswer(1, 0), []byte(a.inclusion(6, 1).Text()), a.events[6]
	consistency, note, export := a.consistency(0, 2), []byte(a.packs[1].Header.Checkpoint), a.export(2, 5)
	proofFile, bareFile := put("proof.json", proof), put("proof.tlog-proof", bare)
	eventFile, receiptFile := put("proof-event.json", event), put("proof-receipt.json", answer(v.t, a.events[1]))
	consistencyFile, noteFile := put("consistency.json", consistency), put("checkpoint.note", note)
	exportFile := put("export.ndjson", export)

	v.sound("inclusion proof", "the answer about a receipt", proofFile)
	v.sound("inclusion proof, its data", "without the envelope of the answer", put("proof-data.json", a.proofData(1, 0)))
	v.sound("tlog-proof and event", "a C2SP tlog-proof, and the event that it is about, which is no delivery", bareFile, eventFile)
	v.sound("receipt and proof", "the answer to the delivery, and the proof of its event", receiptFile, proofFile)
	v.sound("later checkpoint", "the same leaf under the checkpoint of a later pack", put("proof-late.json", a.proofAnswer(1, 2)))
	v.sound("consistency proof", "from the first pack to the third", consistencyFile)
	v.sound("checkpoint", "a signed note", noteFile)
	v.sound("checkpoint in an answer", "the same in the envelope", put("checkpoint.json", a.checkpointAnswer(1)))
	v.good("export", "leaves 2 to 6, of two packs; its header holds the directory", exportFile)
	v.good("export, one entry", "the last leaf of the log", put("export-one.ndjson", a.export(9, 1)))
	v.good("receipt and export", "the receipt is not in it", receiptFile, exportFile)

	bad("proof-index.json", "another leaf", replaced(proof, "index 1", "index 2"), InclusionMismatch)
	bad("proof-leading-zero.json", "the index has a leading zero", replaced(proof, "index 1", "index 01"), FormatInvalid)
	bad("proof-extra.json", "an extra line, which nothing vouches for", replaced(proof, "index 1", `extra AAAA\nindex 1`), FormatInvalid)
	bad("proof-hash-missing.json", "the last hash is missing", v.withoutHash(a), InclusionMismatch)
	bad("proof-event-altered.json", "the event states another quantity", replaced(proof, `"quantityMs":1500`, `"quantityMs":9500`), InclusionMismatch, sealer.WitnessMismatch)
	bad("proof-event-respelt.json", "a space in the event", replaced(proof, `"v":1}`, `"v": 1}`), InclusionMismatch, sealer.EntryAltered)
	bad("proof-size.json", "the checkpoint states another size", replaced(proof, `\n3\n`, `\n4\n`), sealer.SignatureInvalid)
	bad("proof-time.json", "the checkpoint was sealed at another time", v.otherTime(a, proof), sealer.SignatureInvalid)
	bad("proof-untimed.json", "the checkpoint does not say when it was sealed", v.untimed(proof), FormatInvalid)
	bad("proof-sealed-earlier.json", "the checkpoint says that it was sealed before the event", v.sealedBefore(a), sealer.EntryAfterSeal)
	bad("proof-member.json", "a member too many", replaced(proof, `,"proof":`, `,"more":1,"proof":`), FormatInvalid)
	v.unsound("tlog-proof alone", "its event is not given", []string{bareFile}, []sealer.Code{EventMissing})
	v.unsound("tlog-proof and another event", "an event of another leaf", []string{bareFile, put("other-event.json", a.events[0])},
		[]sealer.Code{InclusionMismatch}, []sealer.Code{InclusionUnproven})
	v.unsound("event alone", "nothing proves it", []string{eventFile}, []sealer.Code{InclusionUnproven})

	bad("consistency-hash.json", "a hash of the proof is another", replaced(consistency, `{"consistency":["`, `{"consistency":["`+merkle.Hash{}.String()+`","`), ConsistencyMismatch)
	bad("consistency-reversed.json", "from the third pack to the first", wrap(reversed(v.t, consistency)), ConsistencyMismatch)
	bad("consistency-size.json", "a checkpoint states another size", replaced(consistency, `\n3\n`, `\n4\n`), sealer.SignatureInvalid)
	bad("checkpoint-root.note", "another root", replaced(note, "\n8\n", "\n8\nA"), sealer.SignatureInvalid)
	bad("checkpoint-origin.note", "a log of no tenant", bytes.ReplaceAll(note, []byte(a.Tenant), []byte("tnt_sandbox")), FormatInvalid)
	bad("checkpoint-by-a-node.note", "signed by a node's key", v.signedBy(a, "nod_a"), sealer.KeyPurpose)
	bad("checkpoint-by-a-stranger.note", "signed by a key that the directory does not list", v.signedBy(a, "stranger"), sealer.KeyUnknown)

	bad("export-entry-missing.ndjson", "the last entry is missing", export[:len(export)-len(a.events[6])-1], FormatInvalid)
	bad("export-entry-more.ndjson", "an entry too many", forge(export[:len(export)-1], a.events[7]), FormatInvalid)
	bad("export-entry-altered.ndjson", "an entry that is no delivery says something else", replaced(export, "end of campaign", "holiday"), RootMismatch)
	bad("export-quantity.ndjson", "an entry states another quantity", replaced(export, `"quantityMs":6000`, `"quantityMs":9000`), RootMismatch, sealer.WitnessMismatch)
	bad("export-swapped.ndjson", "two entries are swapped", v.swapped(export), RootMismatch, sealer.EntryAfterSeal)
	bad("export-first.ndjson", "it claims other leaves", a.export(2, 5, func(h *pack.ExportHeader) { h.FirstIndex = 1 }), RootMismatch, sealer.EntryAfterSeal)
	bad("export-before.ndjson", "a hash before the entries is another", a.export(2, 5, func(h *pack.ExportHeader) { h.Before[0] = merkle.Hash{} }), RootMismatch)
	bad("export-after.ndjson", "a hash behind the entries is missing", a.export(2, 5, func(h *pack.ExportHeader) { h.After = nil }), FormatInvalid)
	bad("export-checkpoint.ndjson", "the checkpoint of the first pack covers not all", a.export(2, 5, func(h *pack.ExportHeader) { h.Checkpoints = h.Checkpoints[:1] }), CheckpointMismatch)
	bad("export-tenant.ndjson", "it names another tenant", a.export(2, 5, func(h *pack.ExportHeader) { h.TenantID = sealertest.TenantID("other") }), sealer.TenantMismatch)

	bad("export-tenant-id.ndjson", "the id of its tenant is no ULID", a.export(2, 5, func(h *pack.ExportHeader) { h.TenantID = "tnt_1" }), FormatInvalid)

	v.expected("grown", "the log has grown from the checkpoint that was held outside", noteFile, []string{consistencyFile, exportFile}, "")
	newest := put("checkpoint-newest.note", []byte(a.packs[2].Header.Checkpoint))
	v.expected("older files", "the log ends before the checkpoint that was held outside, and nothing of it is newer", newest, []string{proofFile, exportFile}, ConsistencyUnproven)
	v.expected("rolled back", "the log ended before the checkpoint that was held outside when a later one was sealed", newest, []string{exportFile, v.put("bad/checkpoint-shorter.note", v.resealed(a))}, Rollback)
	v.expected("unproven growth", "what lies between is not given", noteFile, []string{consistencyFile}, ConsistencyUnproven)
	v.expected("another past", "a checkpoint of the same size and another root was held outside", v.put("bad/checkpoint-forked.note", v.forked(a)),
		[]string{exportFile}, ConsistencyMismatch)

	a.Now = a.Now.Add(time.Hour)
	a.Key(a.Nodes[1].KeyID).RevokedAt = &revoked
	keys := put("proof-keys-with-revocation.json", a.Directory())
	for _, c := range []vector{
		{Name: "revoked key, receipt and proof", About: "the checkpoint is older than the revocation", Files: []string{receiptFile, proofFile}, Failures: [][]sealer.Code{nil, nil}},
		{Name: "revoked key, receipt alone", About: "it proves nothing", Files: []string{receiptFile}, Failures: [][]sealer.Code{{sealer.KeyRevoked}}},
		{Name: "revoked key, receipt and late proof", About: "the checkpoint is not older than the revocation", Files: []string{receiptFile, "good/proof-late.json"}, Failures: [][]sealer.Code{{sealer.KeyRevoked}, {sealer.KeyRevoked}}},
		{Name: "revoked key, export", About: "each entry is judged by the checkpoint of its own pack, the newest of which is too late",
			Files: []string{put("export-all.ndjson", a.export(0, 10))}, Failures: [][]sealer.Code{{sealer.KeyOutsideWindow}}},
		{Name: "revoked key, export of before", About: "all checkpoints are older than the revocation", Files: []string{exportFile}, Failures: [][]sealer.Code{nil}},
	} {
		c.Keys = keys
		v.cases = append(v.cases, c)
	}
}

// resealed is the second checkpoint of a, sealed once more after the third.
func (v *vectors) resealed(a *archive) []byte {
	text, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: a.ends[1], Root: a.packs[1].Header.RootHash, SealedAt: a.packs[2].Header.SealedAt.Add(time.Second)}, a.PackKey)
	require.NoError(v.t, err)
	return []byte(text)
}

// withoutHash is the first proof of a without its last hash.
func (v *vectors) withoutHash(a *archive) []byte {
	p := a.inclusion(1, 0)
	p.Hashes = p.Hashes[:len(p.Hashes)-1]
	return proofOf(a.events[1], p)
}

// sealedBefore is the first proof of a, whose checkpoint lies about its time.
func (v *vectors) sealedBefore(a *archive) []byte {
	p := a.inclusion(1, 0)
	var err error
	p.Checkpoint, err = checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: a.ends[0], Root: a.packs[0].Header.RootHash, SealedAt: sealertest.Epoch}, a.PackKey)
	require.NoError(v.t, err)
	return proofOf(a.events[1], p)
}

// proofOf is the answer with an event and its proof.
func proofOf(event []byte, p *checkpoint.InclusionProof) []byte {
	text := append([]byte(`{"event":`), event...)
	return wrap(append(canonical.AppendString(append(text, `,"proof":`...), p.Text()), '}'))
}

// otherTime moves the second that the first checkpoint states.
func (v *vectors) otherTime(a *archive, proof []byte) []byte {
	lines := strings.Split(a.packs[0].Header.Checkpoint, "\n")
	when := strings.TrimPrefix(lines[5], "— muniment/sealed ")
	raw, err := base64.StdEncoding.DecodeString(when)
	require.NoError(v.t, err)
	raw[11]++
	return bytes.Replace(proof, []byte(when), []byte(base64.StdEncoding.EncodeToString(raw)), 1)
}

// untimed takes the first checkpoint's second signature away.
func (v *vectors) untimed(proof []byte) []byte {
	at := bytes.Index(proof, []byte("— muniment/sealed"))
	end := at + bytes.Index(proof[at:], []byte(`\n`)) + 2
	return append(bytes.Clone(proof[:at]), proof[end:]...)
}

// signedBy is the newest checkpoint, signed by another key.
func (v *vectors) signedBy(a *archive, key string) []byte {
	text, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: a.ends[2], Root: a.grown.Root(), SealedAt: a.Now}, sealertest.PrivateKey(key))
	require.NoError(v.t, err)
	return []byte(text)
}

// forked is a checkpoint of the second size with another root.
func (v *vectors) forked(a *archive) []byte {
	text, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: a.ends[1], Root: merkle.LeafHash(nil), SealedAt: a.Now}, a.PackKey)
	require.NoError(v.t, err)
	return []byte(text)
}

// swapped swaps the first two entries of an export.
func (v *vectors) swapped(export []byte) []byte {
	lines := bytes.Split(bytes.TrimSuffix(export, []byte("\n")), []byte("\n"))
	lines[1], lines[2] = lines[2], lines[1]
	return forge(lines...)
}
