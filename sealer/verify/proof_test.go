package verify

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tlogproof "github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"muniment.example/sealer"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// TestEveryLeafIsProven proves each leaf under each checkpoint that covers it, in
// each form.
func TestEveryLeafIsProven(t *testing.T) {
	a := newArchive(t, 3, 1, 9)
	keys := a.Directory()
	for leaf := range a.events {
		for pack := a.home(leaf); pack < len(a.packs); pack++ {
			text := []byte(a.inclusion(leaf, pack).Text())
			for about, files := range map[string][]file{
				"the answer":       {{"proof", a.proofAnswer(leaf, pack)}},
				"its data":         {{"proof", a.proofData(leaf, pack)}},
				"proof and event":  {{"proof", text}, {"event", a.events[leaf]}},
				"another order":    {{"event", a.events[leaf]}, {"proof", text}},
				"with a newline":   {{"proof", append(text, '\n')}, {"event", append(a.events[leaf][:len(a.events[leaf]):len(a.events[leaf])], '\n')}},
				"more than needed": {{"event", a.events[leaf]}, {"proof", text}, {"pack", sealertest.Bundle(t, a.packs[0], a.events[:3])}},
			} {
				r := a.verify(keys, nil, files...)
				require.True(t, r.OK, "leaf %d, pack %d, %s: %+v", leaf, pack, about, r.Files)
			}
		}
	}
}

// TestProofIsReadByOthers verifies our proof with the libraries of others alone.
func TestProofIsReadByOthers(t *testing.T) {
	a := newArchive(t, 5, 6)
	var p tlogproof.TLogProof
	require.NoError(t, p.Unmarshal([]byte(a.inclusion(4, 1).Text())))
	vkey, err := note.NewEd25519VerifierKey("muniment/"+a.Tenant, sealertest.Public(a.PackKey))
	require.NoError(t, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	n, err := note.Open(p.Checkpoint, note.VerifierList(v))
	require.NoError(t, err)
	lines := strings.Split(n.Text, "\n")
	require.Equal(t, []string{"muniment/" + a.Tenant, "11"}, lines[:2])
	root, err := tlog.ParseHash(lines[2])
	require.NoError(t, err)
	var hashes tlog.RecordProof
	for _, h := range p.Hashes {
		hashes = append(hashes, h)
	}
	require.NoError(t, tlog.CheckRecord(hashes, 11, root, 4, tlog.RecordHash(a.events[4])))
}

// TestSandboxProof: under a checkpoint of a sandbox stand receipts of sandbox keys,
// and no others.
func TestSandboxProof(t *testing.T) {
	a := newArchive(t)
	a.Tenant = sealertest.TenantID("sandbox")
	key := sealertest.PrivateKey("sandbox")
	a.PackKey, a.Nodes = key, []*sealer.Signer{{KeyID: keydir.KeyID(sealertest.Public(key)), Node: "nod_control", Key: key}}
	a.add(3)
	require.True(t, a.verify(a.Directory(), nil, file{"proof", a.proofAnswer(1, 0)}, file{"export", a.export(0, 3)}).OK)
	note, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: 3, Root: a.grown.Root(), SealedAt: a.Now}, sealertest.PrivateKey("pack"))
	require.NoError(t, err)
	a.packs[0].Header.Checkpoint = note
	r := a.verify(a.Directory(), nil, file{"proof", a.proofAnswer(1, 0)}, file{"export", a.export(0, 3)})
	require.Equal(t, [][]sealer.Code{{sealer.KeyPurpose}, {sealer.KeyPurpose}}, fails(r))
}

// TestSandboxIsNamed: whatever rests on a key of a sandbox says so, once, and nothing else
// does. For anybody can have it made, with names at will, and it is as sound.
func TestSandboxIsNamed(t *testing.T) {
	for _, sandbox := range []bool{true, false} {
		a := newArchive(t)
		if sandbox {
			a.world = sandboxWorld(t)
		}
		a.add(5)
		a.add(4)
		event := file{"event", a.events[1]}
		sets := map[string][]file{
			"a bundle":              {{"pack", sealertest.Bundle(t, a.packs[0], a.events[:5])}},
			"an object":             {{"pack", pack.AppendObject(nil, a.packs[1], a.events[5:])}},
			"a proof":               {{"proof", a.proofAnswer(1, 0)}},
			"a proof and its event": {{"proof", []byte(a.inclusion(1, 1).Text())}, event},
			"an export":             {{"export", a.export(2, 6)}},
			"an export and event":   {{"export", a.export(0, 9)}, event},
			"a log that grew":       {{"consistency", a.consistency(0, 1)}},
			"a checkpoint":          {{"checkpoint", a.checkpointAnswer(1)}},
			"a receipt":             {{"receipt", answer(t, a.events[1])}},
			"a receipt and pack":    {{"receipt", answer(t, a.events[1])}, {"pack", sealertest.Bundle(t, a.packs[0], a.events[:5])}},
		}
		for name, files := range sets {
			r := a.verify(a.Directory(), nil, files...)
			require.True(t, r.OK, "%s: %+v", name, r)
			for _, f := range r.Files {
				n := 0
				for _, v := range f.Verdicts {
					if v.Code == KeySandbox {
						n++
					}
				}
				require.Equal(t, sandbox, n == 1, "%s: %+v", name, f)
				require.LessOrEqual(t, n, 1, name)
			}
			var text strings.Builder
			writeText(&text, &trust{root: a.VKey}, &r)
			require.Equal(t, sandbox, strings.Contains(text.String(), "\nOf a sandbox: "+count(len(files), "file")+". "), text.String())

			a.options.NoSandbox = true
			r = a.verify(a.Directory(), nil, files...)
			a.options.NoSandbox = false
			for i, codes := range fails(r) {
				require.Equal(t, sandbox, slices.Equal(codes, []sealer.Code{KeySandbox}), "%s: %+v", name, r.Files[i])
			}
			require.Equal(t, !sandbox, r.OK, name)
		}
	}
}

func TestFlipsInProofs(t *testing.T) {
	a := newArchive(t, 3, 4)
	t.Run("answer", func(t *testing.T) { a.flips(a.proofAnswer(1, 0)) })
	t.Run("proof", func(t *testing.T) { a.flips([]byte(a.inclusion(3, 1).Text()), file{"event", a.events[3]}) })
	t.Run("event", func(t *testing.T) { a.flips(a.events[1], file{"proof", []byte(a.inclusion(1, 1).Text())}) })
	t.Run("consistency", func(t *testing.T) { a.flips(a.consistency(0, 1)) })
	t.Run("checkpoint", func(t *testing.T) { a.flips([]byte(a.packs[1].Header.Checkpoint)) })
	t.Run("checkpoint answer", func(t *testing.T) { a.flips(a.checkpointAnswer(1)) })
}

func TestProofsThatProveNothing(t *testing.T) {
	a := newArchive(t, 3, 4)
	keys := a.Directory()
	other := newArchive(t, 3)
	other.Tenant = sealertest.TenantID("other")
	other.add(2)
	proof := []byte(a.inclusion(1, 1).Text())
	swap := func(old, new string) []byte { return bytes.Replace(a.proofAnswer(1, 0), []byte(old), []byte(new), 1) }
	for about, c := range map[string]struct {
		files []file
		want  [][]sealer.Code
	}{
		"no event":           {[]file{{"proof", proof}}, [][]sealer.Code{{EventMissing}}},
		"another event":      {[]file{{"proof", proof}, {"event", a.events[2]}}, [][]sealer.Code{{InclusionMismatch}, {InclusionUnproven}}},
		"two other events":   {[]file{{"proof", proof}, {"event", a.events[2]}, {"more", a.events[4]}}, [][]sealer.Code{{EventMissing}, {InclusionUnproven}, {InclusionUnproven}}},
		"an event alone":     {[]file{{"event", a.events[2]}}, [][]sealer.Code{{InclusionUnproven}}},
		"an event, altered":  {[]file{{"event", bytes.Replace(a.events[2], []byte(`rgh_2`), []byte(`rgh_3`), 3)}}, [][]sealer.Code{{sealer.WitnessMismatch}}},
		"no event at all":    {[]file{{"event", []byte(`{"actor":{"id":"x"}}`)}}, [][]sealer.Code{{sealer.EntryAltered}}},
		"another leaf":       {[]file{{"proof", swap("index 1", "index 2")}}, [][]sealer.Code{{InclusionMismatch}}},
		"a leaf beyond":      {[]file{{"proof", swap("index 1", "index 9")}}, [][]sealer.Code{{InclusionMismatch}}},
		"an extra line":      {[]file{{"proof", swap(`index 1`, `extra AAAA\nindex 1`)}}, [][]sealer.Code{{FormatInvalid}}},
		"leading zero":       {[]file{{"proof", swap("index 1", "index 01")}}, [][]sealer.Code{{FormatInvalid}}},
		"one more member":    {[]file{{"proof", swap(`,"proof":`, `,"more":1,"proof":`)}}, [][]sealer.Code{{FormatInvalid}}},
		"spaces":             {[]file{{"proof", swap(`,"proof":`, `, "proof":`)}}, [][]sealer.Code{{FormatInvalid}}},
		"two answers":        {[]file{{"proof", append(a.proofAnswer(1, 0), a.proofAnswer(1, 0)...)}}, [][]sealer.Code{{FormatInvalid}}},
		"another log's note": {[]file{{"proof", swap(`muniment/`, `munimenT/`)}}, [][]sealer.Code{{FormatInvalid}}},
		"a note by no key":   {[]file{{"note", []byte("muniment/x\n1\nAA==\n")}}, [][]sealer.Code{{FormatInvalid}}},
		"a proof of nothing": {[]file{{"proof", []byte("c2sp.org/tlog-proof@v1\n")}}, [][]sealer.Code{{FormatUnknown}}},
		"backwards":          {[]file{{"proof", wrap(reversed(t, a.consistency(0, 1)))}}, [][]sealer.Code{{ConsistencyMismatch}}},
		"of two logs":        {[]file{{"proof", wrap(between(a, other))}}, [][]sealer.Code{{sealer.TenantMismatch}}},
	} {
		r := a.verify(keys, nil, c.files...)
		require.False(t, r.OK, about)
		require.Equal(t, c.want, fails(r), "%s: %+v", about, r.Files)
	}

	// Without a directory nothing can be verified.
	for _, text := range [][]byte{a.proofAnswer(1, 0), a.events[1], a.consistency(0, 1), a.checkpointAnswer(0)} {
		r := a.verify(nil, nil, file{"alone", text})
		require.Equal(t, [][]sealer.Code{{sealer.KeyUnknown}}, fails(r))
		require.Equal(t, VerdictUnjudged, r.Files[0].Verdict)
		require.True(t, a.verify(nil, nil, file{"pack", sealertest.Bundle(t, a.packs[0], a.events[:3])}, file{"proof", a.proofAnswer(1, 0)}).OK, "a pack holds one")
	}
}

func reversed(t *testing.T, text []byte) []byte {
	p, err := checkpoint.ParseConsistencyProof([]byte(unwrap(strings.TrimSuffix(string(text), "\n"))))
	require.NoError(t, err)
	p.From, p.To = p.To, p.From
	return p.Append(nil)
}

func between(a, b *archive) []byte {
	p := checkpoint.ConsistencyProof{Hashes: nil, From: a.packs[0].Header.Checkpoint, To: b.packs[1].Header.Checkpoint}
	return p.Append(nil)
}

func TestSignersOfCheckpoints(t *testing.T) {
	a := newArchive(t, 3)
	c := checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: 3, Root: a.grown.Root(), SealedAt: a.Now}
	sealed := func(key string, at time.Time) []byte {
		c.SealedAt = at
		text, err := checkpoint.Sign(c, sealertest.PrivateKey(key))
		require.NoError(t, err)
		return []byte(text)
	}
	soon := a.Now.Add(time.Hour)
	a.Key(keydir.KeyID(sealertest.Public(a.PackKey))).NotAfter = &soon
	a.Key(keydir.KeyID(sealertest.Public(sealertest.PrivateKey("sandbox")))).NotBefore = sealertest.Epoch.Add(500 * time.Millisecond)
	a.Now = soon.Add(time.Hour)
	keys := a.Directory()
	for about, x := range map[string]struct {
		text []byte
		want []sealer.Code
	}{
		"good":                          {sealed("pack", soon.Add(-time.Second)), nil},
		"a sandbox":                     {sealed("sandbox", sealertest.Epoch.Add(time.Second)), nil},
		"in the second of the first":    {sealed("sandbox", sealertest.Epoch.Add(600*time.Millisecond)), nil},
		"before the window":             {sealed("sandbox", sealertest.Epoch.Add(-time.Second)), []sealer.Code{sealer.KeyOutsideWindow}},
		"behind the window":             {sealed("pack", soon), []sealer.Code{sealer.KeyOutsideWindow}},
		"by a node":                     {sealed("nod_a", soon), []sealer.Code{sealer.KeyPurpose}},
		"by a stranger":                 {sealed("stranger", soon), []sealer.Code{sealer.KeyUnknown}},
		"with the signature of another": {bytes.Replace(sealed("pack", sealertest.Epoch), []byte("\n3\n"), []byte("\n4\n"), 1), []sealer.Code{sealer.SignatureInvalid}},
	} {
		require.Equal(t, [][]sealer.Code{x.want}, fails(a.verify(keys, nil, file{"note", x.text})), about)
	}
}

// TestProofOfForeignEvent has a log that holds an event of another tenant.
func TestProofOfForeignEvent(t *testing.T) {
	a, other := newArchive(t, 3), newArchive(t)
	other.Tenant = sealertest.TenantID("other")
	other.add(1)
	c := checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: 1, Root: merkle.LeafHash(other.events[0]), SealedAt: a.Now}
	note, err := checkpoint.Sign(c, a.PackKey)
	require.NoError(t, err)
	p := checkpoint.InclusionProof{Checkpoint: note}
	r := a.verify(a.Directory(), nil, file{"proof", []byte(p.Text())}, file{"event", other.events[0]})
	require.Equal(t, [][]sealer.Code{{sealer.TenantMismatch}, nil}, fails(r))
}

// TestRevokedWithinTheSecond: a checkpoint states a second, so a key revoked within
// it counts as revoked before.
func TestRevokedWithinTheSecond(t *testing.T) {
	a := newArchive(t, 2)
	sealed := a.packs[0].Header.SealedAt
	a.Now = a.Now.Add(time.Hour)
	for after, want := range map[time.Duration][]sealer.Code{0: {sealer.KeyRevoked}, 999 * time.Millisecond: {sealer.KeyRevoked}, time.Second: nil} {
		revoked := sealed.Add(after)
		for _, key := range []string{a.Nodes[1].KeyID, keydir.KeyID(sealertest.Public(a.PackKey))} {
			a.Key(key).RevokedAt = &revoked
			r := a.verify(a.Directory(), nil, file{"proof", a.proofAnswer(1, 0)}, file{"by", a.consistency(0, 0)})
			if key == a.Nodes[1].KeyID {
				require.Equal(t, want, fails(r)[0], "a node's key, revoked after %s", after)
			} else {
				code := sealer.KeyRevoked
				if after == 0 {
					code = sealer.KeyOutsideWindow
				}
				require.Equal(t, []sealer.Code{code}, fails(r)[0], "nothing else proves it")
				message := r.Files[0].Verdicts[0].Message
				require.Equal(t, want == nil, strings.Contains(message, "nothing proves"), message)
			}
			a.Key(key).RevokedAt = nil
		}
	}
}

// TestReceiptOfRevokedKeyNeedsAnEarlyProof revokes the key of a receipt between two
// packs.
func TestReceiptOfRevokedKeyNeedsAnEarlyProof(t *testing.T) {
	a := newArchive(t, 3)
	revoked := a.Now.Add(time.Minute)
	a.Now = revoked.Add(time.Hour)
	a.Nodes = a.Nodes[:1] // the other key is not used again
	a.add(4)
	a.Now = a.Now.Add(time.Hour)
	a.Key(newWorld(t).Nodes[1].KeyID).RevokedAt = &revoked
	keys := a.Directory()

	receipt := file{"receipt", answer(t, a.events[1])}
	early, late := file{"early", a.proofAnswer(1, 0)}, file{"late", a.proofAnswer(1, 1)}
	bare, event := file{"bare", []byte(a.inclusion(1, 0).Text())}, file{"event", a.events[1]}
	export := file{"export", a.export(0, 6)}
	require.Equal(t, [][]sealer.Code{{sealer.KeyRevoked}}, fails(a.verify(keys, nil, receipt)), "alone")
	require.Equal(t, [][]sealer.Code{nil, nil}, fails(a.verify(keys, nil, receipt, early)))
	require.Equal(t, [][]sealer.Code{nil, nil, nil}, fails(a.verify(keys, nil, bare, receipt, event)))
	require.Equal(t, [][]sealer.Code{nil, nil}, fails(a.verify(keys, nil, receipt, export)), "each entry by the checkpoint of its own pack")
	require.Equal(t, [][]sealer.Code{{sealer.KeyRevoked}, {sealer.KeyRevoked}}, fails(a.verify(keys, nil, receipt, late)), "the checkpoint is of after the revocation")
	require.Equal(t, [][]sealer.Code{nil, {sealer.KeyRevoked}, nil}, fails(a.verify(keys, nil, receipt, late, early)), "the earliest counts")

	another := file{"another", bytes.Replace(answer(t, a.events[1]), []byte("1500.25"), []byte("9500.25"), 1)}
	require.Equal(t, [][]sealer.Code{{sealer.EntryAltered, sealer.KeyRevoked}, nil}, fails(a.verify(keys, nil, another, early)))
	broken := file{"broken", bytes.Replace(early.text, []byte("index 1"), []byte("index 2"), 1)}
	require.Equal(t, [][]sealer.Code{{InclusionMismatch, sealer.KeyRevoked}, {InclusionMismatch}}, fails(a.verify(keys, nil, receipt, broken)))
}

// TestReceiptInSeveralFiles: one sound file proves a receipt whatever others are
// worth, and one that says something else speaks against it.
func TestReceiptInSeveralFiles(t *testing.T) {
	a := newArchive(t, 3)
	keys := a.Directory()
	receipt, proof := file{"receipt", answer(t, a.events[1])}, file{"proof", a.proofAnswer(1, 0)}
	broken := sealertest.Bundle(t, a.packs[0], a.events)
	broken = bytes.Replace(broken, []byte(a.PackID(1)), []byte(a.PackID(9)), 1)
	for _, files := range [][]file{{receipt, {"pack", broken}, proof}, {receipt, proof, {"pack", broken}}} {
		r := a.verify(keys, nil, files...)
		require.Nil(t, failures(r.Files[0].Verdicts), "%+v", r.Files)
		require.Contains(t, r.Files[0].Verdicts[0].Message, "leaf 1")
	}
	require.Equal(t, []sealer.Code{InclusionMismatch}, fails(a.verify(keys, nil, receipt, file{"pack", broken}))[0])

	other := newArchive(t)
	events := [][]byte{other.Delivery(0, ""), other.Delivery(2, "")} // of the same ids
	other.Now = other.Now.Add(time.Hour)
	other.keep(events)
	lie := file{"lie", other.proofAnswer(1, 0)}
	for _, files := range [][]file{{receipt, lie, proof}, {receipt, proof, lie}} {
		require.Equal(t, []sealer.Code{sealer.EntryAltered}, fails(a.verify(keys, nil, files...))[0])
	}
}

// TestRevokedPackKey revokes the key of the first pack after its successor's time.
func TestRevokedPackKey(t *testing.T) {
	a := newArchive(t, 3)
	old := a.PackKey
	a.PackKey = sealertest.PrivateKey("pack 2")
	a.Keys = append(a.Keys, keydir.NewKey(sealertest.Public(a.PackKey), keydir.PurposePack, sealertest.Epoch))
	a.add(5)
	a.add(2)
	revoked := a.Now
	a.Now = a.Now.Add(time.Hour)
	a.Key(keydir.KeyID(sealertest.Public(old))).RevokedAt = &revoked
	keys := a.Directory()

	proof, note := file{"proof", a.proofAnswer(1, 0)}, file{"note", []byte(a.packs[0].Header.Checkpoint)}
	require.Equal(t, [][]sealer.Code{{sealer.KeyRevoked}}, fails(a.verify(keys, nil, proof)))
	require.Equal(t, [][]sealer.Code{{sealer.KeyRevoked}}, fails(a.verify(keys, nil, note)))
	require.Equal(t, [][]sealer.Code{{sealer.KeyRevoked}}, fails(a.verify(keys, nil, file{"export", a.export(0, 2)})))
	require.True(t, a.verify(keys, nil, file{"late", a.proofAnswer(1, 1)}).OK, "by another key")
	for about, by := range map[string]file{
		"a consistency proof": {"by", a.consistency(0, 2)},
		"the next pack":       {"by", sealertest.Bundle(t, a.packs[1], a.events[3:8])},
		"an export":           {"by", a.export(2, 5)},
	} {
		require.Equal(t, [][]sealer.Code{nil, nil, nil}, fails(a.verify(keys, nil, by, proof, note)), about)
	}
	require.True(t, a.verify(keys, nil, file{"export", a.export(1, 4)}).OK, "its last checkpoint proves the first")

	// Who stole the key signs another root, or an earlier time.
	c := checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: 3, Root: merkle.LeafHash(nil), SealedAt: sealertest.Epoch}
	forged, err := checkpoint.Sign(c, old)
	require.NoError(t, err)
	require.Equal(t, [][]sealer.Code{nil, {sealer.KeyRevoked}}, fails(a.verify(keys, nil, file{"by", a.consistency(0, 2)}, file{"note", []byte(forged)})))
	late := checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: 3, Root: a.packs[0].Header.RootHash, SealedAt: revoked.Add(time.Second)}
	forged, err = checkpoint.Sign(late, old)
	require.NoError(t, err)
	require.Equal(t, [][]sealer.Code{nil, {sealer.KeyOutsideWindow}}, fails(a.verify(keys, nil, file{"by", a.consistency(0, 2)}, file{"note", []byte(forged)})), "signed after the revocation")
}

// TestForksAcrossFiles has a log that signed two roots of one size.
func TestForksAcrossFiles(t *testing.T) {
	a, b := newArchive(t, 3), newArchive(t, 3)
	a.add(4)
	b.Now = b.Now.Add(time.Second)
	b.add(4)
	keys := b.Directory()
	forked := [][]sealer.Code{{ChainFork}, {ChainFork}}
	packA := file{"pack", sealertest.Bundle(t, a.packs[1], a.events[3:])}
	for about, files := range map[string][]file{
		"two notes":          {{"a", []byte(a.packs[1].Header.Checkpoint)}, {"b", b.checkpointAnswer(1)}},
		"two proofs":         {{"a", a.proofAnswer(1, 1)}, {"b", b.proofAnswer(2, 1)}},
		"a pack and a proof": {packA, {"b", b.proofAnswer(5, 1)}},
		"two exports":        {{"a", a.export(2, 3)}, {"b", b.export(4, 2)}},
		"two consistencies":  {{"a", a.consistency(0, 1)}, {"b", b.consistency(0, 1)}},
	} {
		require.Equal(t, forked, fails(a.verify(keys, nil, files...)), about)
	}
	within := checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: 5, Root: merkle.LeafHash(nil), SealedAt: a.Now}
	note, err := checkpoint.Sign(within, a.PackKey)
	require.NoError(t, err)
	require.Equal(t, forked, fails(a.verify(keys, nil, packA, file{"b", []byte(note)})), "a root within a pack")
	require.True(t, a.verify(keys, nil, file{"a", a.proofAnswer(1, 0)}, file{"b", b.proofAnswer(5, 1)}).OK, "each is sound by itself")
}

// TestExpectedCheckpoint holds what is given against a checkpoint from outside.
func TestExpectedCheckpoint(t *testing.T) {
	a, b := newArchive(t, 3, 4, 5), newArchive(t, 3)
	b.Now = b.Now.Add(time.Second)
	b.add(4)
	keys := a.Directory()
	pack := func(a *archive, i int) file {
		first := a.packs[i].Header.FirstIndex
		return file{"pack" + string(rune('1'+i)), sealertest.Bundle(t, a.packs[i], a.events[first:a.ends[i]])}
	}
	note := func(a *archive, i int) []byte { return []byte(a.packs[i].Header.Checkpoint) }
	c := checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: 5, Root: merkle.LeafHash(nil), SealedAt: a.Now}
	within, err := checkpoint.Sign(c, a.PackKey)
	require.NoError(t, err)
	later := checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: a.ends[1], Root: a.packs[1].Header.RootHash, SealedAt: a.packs[2].Header.SealedAt.Add(time.Second)}
	sealedAgain, err := checkpoint.Sign(later, a.PackKey)
	require.NoError(t, err)
	resealed := []byte(sealedAgain)
	untimed := func(note []byte) []byte {
		text, _, _ := strings.Cut(string(note), "\n— muniment/sealed")
		return []byte(text + "\n")
	}
	for about, x := range map[string]struct {
		expect []byte
		files  []file
		want   []sealer.Code
	}{
		"the newest":               {note(a, 2), []file{pack(a, 0), pack(a, 1), pack(a, 2)}, nil},
		"one that has grown":       {note(a, 0), []file{pack(a, 0), pack(a, 1), pack(a, 2)}, nil},
		"its successor is given":   {note(a, 1), []file{pack(a, 2)}, nil},
		"the answer with it":       {a.checkpointAnswer(1), []file{pack(a, 2)}, nil},
		"a pack":                   {pack(a, 1).text, []file{pack(a, 2)}, nil},
		"a proof":                  {a.proofAnswer(2, 1), []file{pack(a, 2)}, nil},
		"a bare proof":             {[]byte(a.inclusion(2, 1).Text()), []file{pack(a, 2)}, nil},
		"a consistency proof":      {a.consistency(0, 1), []file{pack(a, 2)}, nil},
		"an export":                {a.export(2, 3), []file{pack(a, 2)}, nil},
		"beside a receipt":         {note(a, 1), []file{pack(a, 2), {"receipt", answer(t, a.events[1])}}, nil},
		"against a proof":          {note(a, 1), []file{{"proof", a.proofAnswer(4, 1)}}, nil},
		"against a consistency":    {note(a, 0), []file{{"proof", a.consistency(0, 2)}}, nil},
		"against an export":        {note(a, 1), []file{{"export", a.export(2, 7)}}, nil},
		"an older end":             {note(a, 2), []file{pack(a, 0), pack(a, 1)}, []sealer.Code{ConsistencyUnproven}},
		"a proof of an older end":  {note(a, 2), []file{{"proof", a.proofAnswer(4, 1)}}, []sealer.Code{ConsistencyUnproven}},
		"a shorter log":            {note(a, 2), []file{pack(a, 0), pack(a, 1), {"note", resealed}}, []sealer.Code{Rollback}},
		"a shorter log, no time":   {untimed(note(a, 2)), []file{pack(a, 0), {"note", resealed}}, []sealer.Code{ConsistencyUnproven}},
		"another log of this name": {note(b, 1), []file{pack(a, 0), pack(a, 1)}, []sealer.Code{ConsistencyMismatch}},
		"another root within":      {[]byte(within), []file{pack(a, 0), pack(a, 1)}, []sealer.Code{ConsistencyMismatch}},
		"a gap":                    {note(a, 0), []file{pack(a, 2)}, []sealer.Code{ConsistencyUnproven}},
		"another tenant":           {bytes.ReplaceAll(note(a, 0), []byte(a.Tenant), []byte(sealertest.TenantID("2"))), []file{pack(a, 0)}, []sealer.Code{ConsistencyUnproven}},
		"no checkpoint":            {[]byte("7\n"), []file{pack(a, 0)}, []sealer.Code{FormatUnknown}},
		"a receipt":                {answer(t, a.events[1]), []file{pack(a, 0)}, []sealer.Code{FormatUnknown}},
		"a broken note":            {[]byte("muniment/x\n7\n"), []file{pack(a, 0)}, []sealer.Code{FormatInvalid}},
		"a broken pack":            {[]byte(`{"checkpoint":"muniment/`), []file{pack(a, 0)}, []sealer.Code{FormatInvalid}},
		"a broken export":          {[]byte(`{"after":["`), []file{pack(a, 0)}, []sealer.Code{FormatInvalid}},
	} {
		r := a.verify(keys, x.expect, x.files...)
		require.Len(t, r.Files, len(x.files)+1)
		require.Equal(t, x.want, failures(r.Files[len(x.files)].Verdicts), "%s: %+v", about, r.Files)
		require.Equal(t, x.want == nil, r.OK, about)
	}
	b.Now = a.Now
	b.add(1)
	r := a.verify(keys, note(a, 1), pack(b, 0), pack(b, 1), pack(b, 2))
	require.Equal(t, [][]sealer.Code{nil, nil, nil, {ConsistencyMismatch}}, fails(r), "a fork that is sound by itself")

	var out bytes.Buffer
	exit := Files(t.Context(), Options{Root: a.VKey, Files: []string{"../testdata/good/chain-1.ndjson"}, Expect: "nowhere"}, &out)
	require.Equal(t, ExitUnjudged, exit, out.String())
}

// TestLoneProofNamesTheDirectory: who was given one file reads which other one to get.
func TestLoneProofNamesTheDirectory(t *testing.T) {
	for _, name := range []string{"proof.json", "receipt.json", "checkpoint.note"} {
		var out bytes.Buffer
		exit := Files(t.Context(), Options{Root: "../testdata/root.vkey", Files: []string{"../testdata/good/" + name}}, &out)
		require.Equal(t, ExitUnjudged, exit, out.String())
		require.Contains(t, out.String(), "add the service's newest keys.json")
	}
}
