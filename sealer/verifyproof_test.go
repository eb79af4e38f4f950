package sealer

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
)

// TestEveryLeafIsProven proves each leaf under each checkpoint that covers it, in
// each form.
func TestEveryLeafIsProven(t *testing.T) {
	a := newArchive(t, 3, 1, 9)
	keys := a.directory()
	for leaf := range a.events {
		for pack := a.home(leaf); pack < len(a.packs); pack++ {
			text := []byte(a.inclusion(leaf, pack).Text())
			for about, files := range map[string][]file{
				"the answer":       {{"proof", a.proofAnswer(leaf, pack)}},
				"its data":         {{"proof", a.proofData(leaf, pack)}},
				"proof and event":  {{"proof", text}, {"event", a.events[leaf]}},
				"another order":    {{"event", a.events[leaf]}, {"proof", text}},
				"with a newline":   {{"proof", append(text, '\n')}, {"event", append(a.events[leaf][:len(a.events[leaf]):len(a.events[leaf])], '\n')}},
				"more than needed": {{"event", a.events[leaf]}, {"proof", text}, {"pack", bundle(t, a.packs[0], a.events[:3])}},
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
	vkey, err := note.NewEd25519VerifierKey("muniment/"+a.tenant, pub(a.packKey))
	require.NoError(t, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	n, err := note.Open(p.Checkpoint, note.VerifierList(v))
	require.NoError(t, err)
	lines := strings.Split(n.Text, "\n")
	require.Equal(t, []string{"muniment/" + a.tenant, "11"}, lines[:2])
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
	a.tenant = tenantID("sandbox")
	key := testKey("sandbox")
	a.packKey, a.nodes = key, []*Signer{{KeyID(pub(key)), "nod_control", key}}
	a.add(3)
	require.True(t, a.verify(a.directory(), nil, file{"proof", a.proofAnswer(1, 0)}, file{"export", a.export(0, 3)}).OK)
	note, err := SignCheckpoint(Checkpoint{Origin(a.tenant), 3, a.grown.Root(), a.now}, testKey("pack"))
	require.NoError(t, err)
	a.packs[0].Header.Checkpoint = note
	r := a.verify(a.directory(), nil, file{"proof", a.proofAnswer(1, 0)}, file{"export", a.export(0, 3)})
	require.Equal(t, [][]Code{{KeyPurpose}, {KeyPurpose}}, fails(r))
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
			"a bundle":              {{"pack", bundle(t, a.packs[0], a.events[:5])}},
			"an object":             {{"pack", AppendPackObject(nil, a.packs[1], a.events[5:])}},
			"a proof":               {{"proof", a.proofAnswer(1, 0)}},
			"a proof and its event": {{"proof", []byte(a.inclusion(1, 1).Text())}, event},
			"an export":             {{"export", a.export(2, 6)}},
			"an export and event":   {{"export", a.export(0, 9)}, event},
			"a log that grew":       {{"consistency", a.consistency(0, 1)}},
			"a checkpoint":          {{"checkpoint", a.checkpointAnswer(1)}},
			"a receipt":             {{"receipt", answer(t, a.events[1])}},
			"a receipt and pack":    {{"receipt", answer(t, a.events[1])}, {"pack", bundle(t, a.packs[0], a.events[:5])}},
		}
		for name, files := range sets {
			r := a.verify(a.directory(), nil, files...)
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
			writeText(&text, &trust{root: a.vkey}, &r)
			require.Equal(t, sandbox, strings.Contains(text.String(), "\nOf a sandbox: "+count(len(files), "file")+". "), text.String())

			a.options.NoSandbox = true
			r = a.verify(a.directory(), nil, files...)
			a.options.NoSandbox = false
			for i, codes := range fails(r) {
				require.Equal(t, sandbox, slices.Equal(codes, []Code{KeySandbox}), "%s: %+v", name, r.Files[i])
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
	keys := a.directory()
	other := newArchive(t, 3)
	other.tenant = tenantID("other")
	other.add(2)
	proof := []byte(a.inclusion(1, 1).Text())
	swap := func(old, new string) []byte { return bytes.Replace(a.proofAnswer(1, 0), []byte(old), []byte(new), 1) }
	for about, c := range map[string]struct {
		files []file
		want  [][]Code
	}{
		"no event":           {[]file{{"proof", proof}}, [][]Code{{EventMissing}}},
		"another event":      {[]file{{"proof", proof}, {"event", a.events[2]}}, [][]Code{{InclusionMismatch}, {InclusionMismatch}}},
		"two other events":   {[]file{{"proof", proof}, {"event", a.events[2]}, {"more", a.events[4]}}, [][]Code{{EventMissing}, {InclusionMismatch}, {InclusionMismatch}}},
		"an event alone":     {[]file{{"event", a.events[2]}}, [][]Code{{InclusionMismatch}}},
		"an event, altered":  {[]file{{"event", bytes.Replace(a.events[2], []byte(`rgh_2`), []byte(`rgh_3`), 3)}}, [][]Code{{WitnessMismatch}}},
		"no event at all":    {[]file{{"event", []byte(`{"actor":1}`)}}, [][]Code{{EntryAltered}}},
		"another leaf":       {[]file{{"proof", swap("index 1", "index 2")}}, [][]Code{{InclusionMismatch}}},
		"a leaf beyond":      {[]file{{"proof", swap("index 1", "index 9")}}, [][]Code{{InclusionMismatch}}},
		"an extra line":      {[]file{{"proof", swap(`index 1`, `extra AAAA\nindex 1`)}}, [][]Code{{FormatInvalid}}},
		"leading zero":       {[]file{{"proof", swap("index 1", "index 01")}}, [][]Code{{FormatInvalid}}},
		"one more member":    {[]file{{"proof", swap(`,"proof":`, `,"more":1,"proof":`)}}, [][]Code{{FormatInvalid}}},
		"spaces":             {[]file{{"proof", swap(`,"proof":`, `, "proof":`)}}, [][]Code{{FormatInvalid}}},
		"two answers":        {[]file{{"proof", append(a.proofAnswer(1, 0), a.proofAnswer(1, 0)...)}}, [][]Code{{FormatInvalid}}},
		"another log's note": {[]file{{"proof", swap(`muniment/`, `munimenT/`)}}, [][]Code{{FormatInvalid}}},
		"a note by nobody":   {[]file{{"note", []byte("muniment/x\n1\nAA==\n")}}, [][]Code{{FormatInvalid}}},
		"a proof of nothing": {[]file{{"proof", []byte(proofStart)}}, [][]Code{{FormatInvalid}}},
		"backwards":          {[]file{{"proof", wrap(reversed(t, a.consistency(0, 1)))}}, [][]Code{{ConsistencyMismatch}}},
		"of two logs":        {[]file{{"proof", wrap(between(a, other))}}, [][]Code{{TenantMismatch}}},
	} {
		r := a.verify(keys, nil, c.files...)
		require.False(t, r.OK, about)
		require.Equal(t, c.want, fails(r), "%s: %+v", about, r.Files)
	}

	// Without a directory nothing can be told.
	for _, text := range [][]byte{a.proofAnswer(1, 0), a.events[1], a.consistency(0, 1), a.checkpointAnswer(0)} {
		r := a.verify(nil, nil, file{"alone", text})
		require.Equal(t, [][]Code{{KeyUnknown}}, fails(r))
		require.True(t, r.Files[0].stuck)
		require.True(t, a.verify(nil, nil, file{"pack", bundle(t, a.packs[0], a.events[:3])}, file{"proof", a.proofAnswer(1, 0)}).OK, "a pack holds one")
	}
}

func reversed(t *testing.T, text []byte) []byte {
	p, err := ParseConsistencyProof([]byte(unwrap(string(text))))
	require.NoError(t, err)
	p.From, p.To = p.To, p.From
	return p.Append(nil)
}

func between(a, b *archive) []byte {
	p := ConsistencyProof{nil, a.packs[0].Header.Checkpoint, b.packs[1].Header.Checkpoint}
	return p.Append(nil)
}

func TestSignersOfCheckpoints(t *testing.T) {
	a := newArchive(t, 3)
	c := Checkpoint{Origin(a.tenant), 3, a.grown.Root(), a.now}
	sealed := func(key string, at time.Time) []byte {
		c.SealedAt = at
		text, err := SignCheckpoint(c, testKey(key))
		require.NoError(t, err)
		return []byte(text)
	}
	soon := a.now.Add(time.Hour)
	a.key(KeyID(pub(a.packKey))).NotAfter = &soon
	a.key(KeyID(pub(testKey("sandbox")))).NotBefore = epoch.Add(500 * time.Millisecond)
	a.now = soon.Add(time.Hour)
	keys := a.directory()
	for about, x := range map[string]struct {
		text []byte
		want []Code
	}{
		"good":                          {sealed("pack", soon.Add(-time.Second)), nil},
		"a sandbox":                     {sealed("sandbox", epoch.Add(time.Second)), nil},
		"in the second of the first":    {sealed("sandbox", epoch.Add(600*time.Millisecond)), nil},
		"before the window":             {sealed("sandbox", epoch.Add(-time.Second)), []Code{KeyOutsideWindow}},
		"behind the window":             {sealed("pack", soon), []Code{KeyOutsideWindow}},
		"by a node":                     {sealed("nod_a", soon), []Code{KeyPurpose}},
		"by a stranger":                 {sealed("stranger", soon), []Code{KeyUnknown}},
		"with the signature of another": {bytes.Replace(sealed("pack", epoch), []byte("\n3\n"), []byte("\n4\n"), 1), []Code{SignatureInvalid}},
	} {
		require.Equal(t, [][]Code{x.want}, fails(a.verify(keys, nil, file{"note", x.text})), about)
	}
}

// TestProofOfForeignEvent has a log that holds an event of another tenant.
func TestProofOfForeignEvent(t *testing.T) {
	a, other := newArchive(t, 3), newArchive(t)
	other.tenant = tenantID("other")
	other.add(1)
	c := Checkpoint{Origin(a.tenant), 1, LeafHash(other.events[0]), a.now}
	note, err := SignCheckpoint(c, a.packKey)
	require.NoError(t, err)
	p := InclusionProof{Checkpoint: note}
	r := a.verify(a.directory(), nil, file{"proof", []byte(p.Text())}, file{"event", other.events[0]})
	require.Equal(t, [][]Code{{TenantMismatch}, nil}, fails(r))
}

// TestRevokedWithinTheSecond: a checkpoint states a second, so a key revoked within
// it counts as revoked before.
func TestRevokedWithinTheSecond(t *testing.T) {
	a := newArchive(t, 2)
	sealed := a.packs[0].Header.SealedAt
	a.now = a.now.Add(time.Hour)
	for after, want := range map[time.Duration][]Code{0: {KeyRevoked}, 999 * time.Millisecond: {KeyRevoked}, time.Second: nil} {
		revoked := sealed.Add(after)
		for _, key := range []string{a.nodes[1].KeyID, KeyID(pub(a.packKey))} {
			a.key(key).RevokedAt = &revoked
			r := a.verify(a.directory(), nil, file{"proof", a.proofAnswer(1, 0)}, file{"by", a.consistency(0, 0)})
			if key == a.nodes[1].KeyID {
				require.Equal(t, want, fails(r)[0], "a node's key, revoked after %s", after)
			} else {
				require.Equal(t, []Code{KeyRevoked}, fails(r)[0], "nothing else proves it")
				message := r.Files[0].Verdicts[0].Message
				require.Equal(t, want == nil, strings.Contains(message, "nothing proves"), message)
			}
			a.key(key).RevokedAt = nil
		}
	}
}

// TestReceiptOfRevokedKeyNeedsAnEarlyProof revokes the key of a receipt between two
// packs.
func TestReceiptOfRevokedKeyNeedsAnEarlyProof(t *testing.T) {
	a := newArchive(t, 3)
	revoked := a.now.Add(time.Minute)
	a.now = revoked.Add(time.Hour)
	a.nodes = a.nodes[:1] // nobody uses the other key again
	a.add(4)
	a.now = a.now.Add(time.Hour)
	a.key(newWorld(t).nodes[1].KeyID).RevokedAt = &revoked
	keys := a.directory()

	receipt := file{"receipt", answer(t, a.events[1])}
	early, late := file{"early", a.proofAnswer(1, 0)}, file{"late", a.proofAnswer(1, 1)}
	bare, event := file{"bare", []byte(a.inclusion(1, 0).Text())}, file{"event", a.events[1]}
	export := file{"export", a.export(0, 6)}
	require.Equal(t, [][]Code{{KeyRevoked}}, fails(a.verify(keys, nil, receipt)), "alone")
	require.Equal(t, [][]Code{nil, nil}, fails(a.verify(keys, nil, receipt, early)))
	require.Equal(t, [][]Code{nil, nil, nil}, fails(a.verify(keys, nil, bare, receipt, event)))
	require.Equal(t, [][]Code{nil, nil}, fails(a.verify(keys, nil, receipt, export)), "each entry by the checkpoint of its own pack")
	require.Equal(t, [][]Code{{KeyRevoked}, {KeyRevoked}}, fails(a.verify(keys, nil, receipt, late)), "the checkpoint is of after the revocation")
	require.Equal(t, [][]Code{nil, {KeyRevoked}, nil}, fails(a.verify(keys, nil, receipt, late, early)), "the earliest counts")

	another := file{"another", bytes.Replace(answer(t, a.events[1]), []byte("1500.25"), []byte("9500.25"), 1)}
	require.Equal(t, [][]Code{{EntryAltered, KeyRevoked}, nil}, fails(a.verify(keys, nil, another, early)))
	broken := file{"broken", bytes.Replace(early.text, []byte("index 1"), []byte("index 2"), 1)}
	require.Equal(t, [][]Code{{InclusionMismatch, KeyRevoked}, {InclusionMismatch}}, fails(a.verify(keys, nil, receipt, broken)))
}

// TestReceiptInSeveralFiles: one sound file proves a receipt whatever others are
// worth, and one that says something else speaks against it.
func TestReceiptInSeveralFiles(t *testing.T) {
	a := newArchive(t, 3)
	keys := a.directory()
	receipt, proof := file{"receipt", answer(t, a.events[1])}, file{"proof", a.proofAnswer(1, 0)}
	broken := bundle(t, a.packs[0], a.events)
	broken = bytes.Replace(broken, []byte(a.packID(1)), []byte(a.packID(9)), 1)
	for _, files := range [][]file{{receipt, {"pack", broken}, proof}, {receipt, proof, {"pack", broken}}} {
		r := a.verify(keys, nil, files...)
		require.Nil(t, failures(r.Files[0].Verdicts), "%+v", r.Files)
		require.Contains(t, r.Files[0].Verdicts[0].Message, "leaf 1")
	}
	require.Equal(t, []Code{InclusionMismatch}, fails(a.verify(keys, nil, receipt, file{"pack", broken}))[0])

	other := newArchive(t)
	events := [][]byte{other.delivery(0, ""), other.delivery(2, "")} // of the same ids
	other.now = other.now.Add(time.Hour)
	other.keep(events)
	lie := file{"lie", other.proofAnswer(1, 0)}
	for _, files := range [][]file{{receipt, lie, proof}, {receipt, proof, lie}} {
		require.Equal(t, []Code{EntryAltered}, fails(a.verify(keys, nil, files...))[0])
	}
}

// TestRevokedPackKey revokes the key of the first pack after its successor's time.
func TestRevokedPackKey(t *testing.T) {
	a := newArchive(t, 3)
	old := a.packKey
	a.packKey = testKey("pack 2")
	a.keys = append(a.keys, NewKey(pub(a.packKey), PurposePack, epoch))
	a.add(5)
	a.add(2)
	revoked := a.now
	a.now = a.now.Add(time.Hour)
	a.key(KeyID(pub(old))).RevokedAt = &revoked
	keys := a.directory()

	proof, note := file{"proof", a.proofAnswer(1, 0)}, file{"note", []byte(a.packs[0].Header.Checkpoint)}
	require.Equal(t, [][]Code{{KeyRevoked}}, fails(a.verify(keys, nil, proof)))
	require.Equal(t, [][]Code{{KeyRevoked}}, fails(a.verify(keys, nil, note)))
	require.Equal(t, [][]Code{{KeyRevoked}}, fails(a.verify(keys, nil, file{"export", a.export(0, 2)})))
	require.True(t, a.verify(keys, nil, file{"late", a.proofAnswer(1, 1)}).OK, "by another key")
	for about, by := range map[string]file{
		"a consistency proof": {"by", a.consistency(0, 2)},
		"the next pack":       {"by", bundle(t, a.packs[1], a.events[3:8])},
		"an export":           {"by", a.export(2, 5)},
	} {
		require.Equal(t, [][]Code{nil, nil, nil}, fails(a.verify(keys, nil, by, proof, note)), about)
	}
	require.True(t, a.verify(keys, nil, file{"export", a.export(1, 4)}).OK, "its last checkpoint proves the first")

	// Who stole the key signs another root, or an earlier time.
	c := Checkpoint{Origin(a.tenant), 3, LeafHash(nil), epoch}
	forged, err := SignCheckpoint(c, old)
	require.NoError(t, err)
	require.Equal(t, [][]Code{nil, {KeyRevoked}}, fails(a.verify(keys, nil, file{"by", a.consistency(0, 2)}, file{"note", []byte(forged)})))
	late := Checkpoint{Origin(a.tenant), 3, a.packs[0].Header.RootHash, revoked.Add(time.Second)}
	forged, err = SignCheckpoint(late, old)
	require.NoError(t, err)
	require.Equal(t, [][]Code{nil, {KeyRevoked}}, fails(a.verify(keys, nil, file{"by", a.consistency(0, 2)}, file{"note", []byte(forged)})), "signed after the revocation")
}

// TestForksAcrossFiles has a log that signed two roots of one size.
func TestForksAcrossFiles(t *testing.T) {
	a, b := newArchive(t, 3), newArchive(t, 3)
	a.add(4)
	b.now = b.now.Add(time.Second)
	b.add(4)
	keys := b.directory()
	forked := [][]Code{{ChainFork}, {ChainFork}}
	packA := file{"pack", bundle(t, a.packs[1], a.events[3:])}
	for about, files := range map[string][]file{
		"two notes":          {{"a", []byte(a.packs[1].Header.Checkpoint)}, {"b", b.checkpointAnswer(1)}},
		"two proofs":         {{"a", a.proofAnswer(1, 1)}, {"b", b.proofAnswer(2, 1)}},
		"a pack and a proof": {packA, {"b", b.proofAnswer(5, 1)}},
		"two exports":        {{"a", a.export(2, 3)}, {"b", b.export(4, 2)}},
		"two consistencies":  {{"a", a.consistency(0, 1)}, {"b", b.consistency(0, 1)}},
	} {
		require.Equal(t, forked, fails(a.verify(keys, nil, files...)), about)
	}
	within := Checkpoint{Origin(a.tenant), 5, LeafHash(nil), a.now}
	note, err := SignCheckpoint(within, a.packKey)
	require.NoError(t, err)
	require.Equal(t, forked, fails(a.verify(keys, nil, packA, file{"b", []byte(note)})), "a root within a pack")
	require.True(t, a.verify(keys, nil, file{"a", a.proofAnswer(1, 0)}, file{"b", b.proofAnswer(5, 1)}).OK, "by themselves they can't be told apart")
}

// TestExpectedCheckpoint holds what is given against a checkpoint from outside.
func TestExpectedCheckpoint(t *testing.T) {
	a, b := newArchive(t, 3, 4, 5), newArchive(t, 3)
	b.now = b.now.Add(time.Second)
	b.add(4)
	keys := a.directory()
	pack := func(a *archive, i int) file {
		first := a.packs[i].Header.FirstIndex
		return file{"pack" + string(rune('1'+i)), bundle(t, a.packs[i], a.events[first:a.ends[i]])}
	}
	note := func(a *archive, i int) []byte { return []byte(a.packs[i].Header.Checkpoint) }
	c := Checkpoint{Origin(a.tenant), 5, LeafHash(nil), a.now}
	within, err := SignCheckpoint(c, a.packKey)
	require.NoError(t, err)
	for about, x := range map[string]struct {
		expect []byte
		files  []file
		want   []Code
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
		"a shorter log":            {note(a, 2), []file{pack(a, 0), pack(a, 1)}, []Code{Rollback}},
		"a shorter log's proof":    {note(a, 2), []file{{"proof", a.proofAnswer(4, 1)}}, []Code{Rollback}},
		"another log of this name": {note(b, 1), []file{pack(a, 0), pack(a, 1)}, []Code{ConsistencyMismatch}},
		"another root within":      {[]byte(within), []file{pack(a, 0), pack(a, 1)}, []Code{ConsistencyMismatch}},
		"a gap":                    {note(a, 0), []file{pack(a, 2)}, []Code{ConsistencyUnproven}},
		"another tenant":           {bytes.ReplaceAll(note(a, 0), []byte(a.tenant), []byte(tenantID("2"))), []file{pack(a, 0)}, []Code{ConsistencyUnproven}},
		"no checkpoint":            {[]byte("7\n"), []file{pack(a, 0)}, []Code{FormatInvalid}},
		"a receipt":                {answer(t, a.events[1]), []file{pack(a, 0)}, []Code{FormatInvalid}},
		"a broken note":            {[]byte("muniment/x\n7\n"), []file{pack(a, 0)}, []Code{FormatInvalid}},
		"a broken pack":            {[]byte(headerStart), []file{pack(a, 0)}, []Code{FormatInvalid}},
		"a broken export":          {[]byte(exportStart), []file{pack(a, 0)}, []Code{FormatInvalid}},
	} {
		r := a.verify(keys, x.expect, x.files...)
		require.Len(t, r.Files, len(x.files)+1)
		require.Equal(t, x.want, failures(r.Files[len(x.files)].Verdicts), "%s: %+v", about, r.Files)
		require.Equal(t, x.want == nil, r.OK, about)
	}
	b.now = a.now
	b.add(1)
	r := a.verify(keys, note(a, 1), pack(b, 0), pack(b, 1), pack(b, 2))
	require.Equal(t, [][]Code{nil, nil, nil, {ConsistencyMismatch}}, fails(r), "a fork that is sound by itself")

	var out bytes.Buffer
	exit := VerifyFiles(t.Context(), Options{Root: a.vkey, Files: []string{"testdata/good/chain-1.ndjson"}, Expect: "nowhere"}, &out)
	require.Equal(t, ExitUnreadable, exit, out.String())
}

// TestLoneProofNamesTheDirectory: who was given one file reads which other one to get.
func TestLoneProofNamesTheDirectory(t *testing.T) {
	for _, name := range []string{"proof.json", "receipt.json", "checkpoint.note"} {
		var out bytes.Buffer
		exit := VerifyFiles(t.Context(), Options{Root: "testdata/root.vkey", Files: []string{"testdata/good/" + name}}, &out)
		require.Equal(t, ExitUnreadable, exit, out.String())
		require.Contains(t, out.String(), "give the service's /.well-known/muniment/keys.json as a further file or by --keys")
	}
}
