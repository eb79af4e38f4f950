package verify

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// nextOfficer has the root delegate to another directory key, from now on for two
// years.
func (w *world) nextOfficer(name string) {
	w.Now = w.Now.Add(time.Second)
	w.Officer, w.Until = name, w.Now.AddDate(2, 0, 0)
	w.Keys = append(w.Keys, keydir.NewKey(sealertest.Public(sealertest.PrivateKey(name)), keydir.PurposeDirectory, w.Now))
}

// revoke has all later directories list a key as revoked.
func (w *world) revoke(name string) {
	w.Now = w.Now.Add(time.Second)
	at := w.Now
	w.Key(keydir.KeyID(sealertest.Public(sealertest.PrivateKey(name)))).RevokedAt = &at
}

// thief is a world in the hands of the thief of its directory key: it has a pack
// key of his own, and its directory is issued as late as the root allows and revokes
// all keys but his.
func (a *archive) thief() *archive {
	stolen := *a.world
	b := &archive{world: &stolen, grown: merkle.NewTree()}
	b.Tenant, b.Tree, b.Previous = sealertest.TenantID("stolen"), merkle.NewTree(), nil
	b.PackKey, b.Nodes = sealertest.PrivateKey("thief"), []*sealer.Signer{{KeyID: keydir.KeyID(sealertest.Public(sealertest.PrivateKey("thief's node"))), Node: "nod_thief", Key: sealertest.PrivateKey("thief's node")}}
	b.Keys = slices.Clone(a.Keys)
	b.Now = b.Until.Add(-time.Hour)
	for i := range b.Keys {
		if b.Keys[i].KeyID != keydir.KeyID(sealertest.Public(sealertest.PrivateKey(b.Officer))) {
			b.Keys[i].RevokedAt = &sealertest.Epoch
		}
	}
	b.Keys = append(b.Keys, keydir.NewKey(sealertest.Public(b.PackKey), keydir.PurposePack, sealertest.Epoch), keydir.NewKey(sealertest.Public(sealertest.PrivateKey("thief's node")), keydir.PurposeReceipt, sealertest.Epoch))
	return b
}

// remarks are the codes of the verdicts that are OK.
func remarks(f FileReport) (codes []sealer.Code) {
	for _, v := range f.Verdicts {
		if v.OK {
			codes = append(codes, v.Code)
		}
	}
	return codes
}

// TestStolenDirectoryKey: the root's next delegation ends what a thief of the
// directory key can do, whatever he writes.
func TestStolenDirectoryKey(t *testing.T) {
	a := newArchive(t, 3)
	old := file{"old", sealertest.Bundle(t, a.packs[0], a.events)}
	export := file{"export", a.export(0, 3)}
	thief := a.thief()
	thief.add(2)
	forged := file{"forged", sealertest.Bundle(t, thief.packs[0], thief.events)}
	forgedKeys := file{"forged keys", thief.Directory()}
	// Without a pack of the same log nothing shows it.
	require.Equal(t, [][]sealer.Code{nil, {sealer.KeyOutsideWindow}}, fails(a.verify(nil, nil, forged, old)))

	// The successor, which the thief lists and revokes.
	a.nextOfficer("second directory")
	rotated := file{"rotated", a.Directory()}
	thief.Keys = append(thief.Keys, keydir.NewKey(sealertest.Public(sealertest.PrivateKey(a.Officer)), keydir.PurposeDirectory, a.Now))
	thief.Key(keydir.KeyID(sealertest.Public(sealertest.PrivateKey(a.Officer)))).RevokedAt = &a.Now
	forgedKeys.text = thief.Directory()
	a.revoke("directory")
	revoked := file{"revoked", a.Directory()}
	a.add(2)
	next := file{"next", sealertest.Bundle(t, a.packs[1], a.events[3:])}

	for name, c := range map[string]struct {
		files []file
		want  [][]sealer.Code
	}{
		"the successor alone": {[]file{old, rotated}, [][]sealer.Code{nil, nil}},
		// It decides already, so nothing of the thief's counts, but no directory says of
		// his that it was stolen.
		"not revoked":             {[]file{forged, forgedKeys, rotated, old}, [][]sealer.Code{{KeyMismatch, sealer.KeyUnknown}, nil, nil, nil}},
		"revoked":                 {[]file{forged, forgedKeys, revoked, old}, [][]sealer.Code{{KeyMismatch, sealer.KeyUnknown}, {DirectoryRevoked}, nil, nil}},
		"revoked, the other way":  {[]file{old, revoked, forgedKeys, forged}, [][]sealer.Code{nil, nil, {DirectoryRevoked}, {KeyMismatch, sealer.KeyUnknown}}},
		"the next pack shows it":  {[]file{forgedKeys, forged, next, old}, [][]sealer.Code{{DirectoryRevoked}, {KeyMismatch, sealer.KeyUnknown}, nil, nil}},
		"his directory in export": {[]file{{"export", a.export(0, 3, func(h *pack.ExportHeader) { h.Directory = forgedKeys.text })}, revoked}, [][]sealer.Code{nil, nil}},
		"his directory in a pack": {[]file{{"pack", a.resign(a.packs[1], a.events[3:], func(h *pack.Header) { h.Directory = forgedKeys.text })}, revoked}, [][]sealer.Code{nil, nil}},
		"an old directory":        {[]file{{"keys", newArchive(t).Directory()}, revoked}, [][]sealer.Code{{DirectoryRevoked}, nil}},
	} {
		require.Equal(t, c.want, fails(a.verify(nil, nil, c.files...)), name)
		require.Equal(t, c.want, fails(a.verify(forgedKeys.text, nil, c.files...)), name+", and his directory as --keys")
	}
	r := a.verify(revoked.text, nil, old, export, next)
	require.True(t, r.OK)
	require.Contains(t, remarks(r.Files[0]), DirectoryIgnored)
	require.Contains(t, remarks(r.Files[1]), DirectoryIgnored)
	require.Contains(t, remarks(r.Files[2]), DirectoryOK)
}

// TestOnlyLaterDelegationsRevoke: of three directory keys the second is the thief's.
func TestOnlyLaterDelegationsRevoke(t *testing.T) {
	a := newArchive(t)
	one := file{"one", a.Directory()}
	a.nextOfficer("second directory")
	thief := a.thief() // revokes the first key, with all others
	a.nextOfficer("third directory")
	thief.Keys = append(thief.Keys, keydir.NewKey(sealertest.Public(sealertest.PrivateKey(a.Officer)), keydir.PurposeDirectory, a.Now))
	thief.Key(keydir.KeyID(sealertest.Public(sealertest.PrivateKey(a.Officer)))).RevokedAt = &a.Now
	two := file{"two", thief.Directory()}
	require.Equal(t, [][]sealer.Code{{DirectoryRevoked}, nil}, fails(a.verify(nil, nil, one, two)), "by these two")
	a.revoke("second directory")
	three := file{"three", a.Directory()}
	require.Equal(t, [][]sealer.Code{nil, {DirectoryRevoked}, nil}, fails(a.verify(nil, nil, one, two, three)))
}

// TestDelegationsOrder: of one delegation the newest directory decides, of two the
// later delegated, though its key signs nothing later.
func TestDelegationsOrder(t *testing.T) {
	w := newWorld(t)
	read := func() *keydir.Directory {
		d, err := keydir.Verify(w.Directory(), w.VKey)
		require.NoError(t, err)
		return d
	}
	first := read()
	w.Now = w.Now.Add(time.Hour)
	newer := read()
	w.Now = sealertest.Epoch
	w.nextOfficer("second directory")
	second := read()
	require.True(t, newer.IssuedAt.After(second.IssuedAt))
	order := []*keydir.Directory{first, newer, second}
	for i, d := range order {
		for j, other := range order {
			require.Equal(t, i > j, d.Outranks(other), "%d and %d", i, j)
		}
	}
}

// TestOldPack: an auditor's pack outlives the delegation of its directory, which
// vouches for all that was dated before its end, and for nothing that was not.
func TestOldPack(t *testing.T) {
	a := newArchive(t, 3)
	events, p := a.events, a.packs[0]
	old := file{"old", sealertest.Bundle(t, p, events)}
	late := func(at time.Time) file {
		return file{"late", a.resign(p, events, func(h *pack.Header) {
			var err error
			h.SealedAt = at
			h.Checkpoint, err = checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(a.Tenant), Size: h.TreeSize, Root: h.RootHash, SealedAt: at}, a.PackKey)
			require.NoError(t, err)
		})}
	}
	end, directory := a.Until, a.Directory()
	require.True(t, a.verify(nil, nil, old).OK, "at any time")
	require.True(t, a.verify(nil, nil, late(end.Add(-time.Millisecond))).OK)
	require.Equal(t, [][]sealer.Code{{DirectoryExpired}}, fails(a.verify(nil, nil, late(end))))
	_, err := pack.NewBuilder(pack.Config{
		PackID: a.PackID(2), TenantID: a.Tenant, Before: a.Tree, Previous: a.Previous, SealedAt: end, Directory: directory, Key: a.PackKey,
	})
	require.ErrorContains(t, err, string(sealer.KeyOutsideWindow))

	// Three years later another directory key vouches for the whole past.
	a.Now = sealertest.Epoch.AddDate(1, 11, 0)
	a.nextOfficer("second directory")
	a.Now = sealertest.Epoch.AddDate(3, 0, 0)
	keys := a.Directory()
	a.add(2)
	for _, files := range [][]file{{old}, {late(end)}, {old, {"new", sealertest.Bundle(t, a.packs[1], a.events[3:])}}, {{"export", a.export(0, 5)}}, {{"proof", a.proofAnswer(1, 1)}}} {
		r := a.verify(keys, nil, files...)
		require.True(t, r.OK, "%+v", r.Files)
	}

	// The old directory says nothing of what came after its delegation.
	new := file{"receipt", answer(t, a.events[3])}
	require.Equal(t, [][]sealer.Code{nil}, fails(a.verify(keys, nil, new)))
	for _, f := range []file{new, {"proof", a.proofAnswer(3, 1)}, {"note", []byte(a.packs[1].Header.Checkpoint)}, {"export", a.export(3, 2, func(h *pack.ExportHeader) { h.Directory = directory })}} {
		require.Equal(t, [][]sealer.Code{{DirectoryExpired}}, fails(a.verify(directory, nil, f)), f.name)
	}
}

// TestIDsOfPacksAndTenants have one form.
func TestIDsOfPacksAndTenants(t *testing.T) {
	a := newArchive(t, 3, 2)
	keys := a.Directory()
	sealed := func(change func(*pack.Header)) file {
		return file{"pack", a.resign(a.packs[1], a.events[3:], func(h *pack.Header) {
			before := *h.Previous
			h.Previous = &before
			change(h)
		})}
	}
	require.True(t, a.verify(keys, nil, sealed(func(*pack.Header) {})).OK)
	good := a.PackID(2)
	for _, id := range []string{
		"", "ppk_", "ppk_2", good + "0", good[:len(good)-1], strings.ToLower(good), good[4:], "tnt" + good[3:], " " + good,
		"ppk_8" + good[5:], good[:29] + "U", good[:29] + "é",
	} {
		require.Equal(t, [][]sealer.Code{{FormatInvalid}}, fails(a.verify(keys, nil, sealed(func(h *pack.Header) { h.PackID = id }))), id)
		require.Equal(t, [][]sealer.Code{{FormatInvalid}}, fails(a.verify(keys, nil, sealed(func(h *pack.Header) { h.Previous.PackID = id }))), id)
	}
	good = a.Tenant
	for _, id := range []string{
		"", "tnt_", "tnt_sandbox", "tnt_system2", "TNT_SYSTEM", "tnt_system ", strings.ToLower(good), good + "\n", "ppk" + good[3:],
	} {
		require.Equal(t, [][]sealer.Code{{FormatInvalid}}, fails(a.verify(keys, nil, sealed(func(h *pack.Header) { h.TenantID = id }))), id)
		require.Equal(t, [][]sealer.Code{{FormatInvalid}}, fails(a.verify(keys, nil, file{"export", a.export(0, 2, func(h *pack.ExportHeader) { h.TenantID = id })})), id)
		_, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(id), Size: 1, Root: merkle.Hash{}, SealedAt: sealertest.Epoch}, a.PackKey)
		require.Error(t, err, id)
		note := strings.ReplaceAll(a.packs[1].Header.Checkpoint, a.Tenant, id)
		require.Equal(t, [][]sealer.Code{{FormatInvalid}}, fails(a.verify(keys, nil, file{"note", []byte(note)})), id)
		require.Equal(t, [][]sealer.Code{{FormatInvalid}}, fails(a.verify(keys, []byte(note))), id)
	}
	b := &archive{world: newWorld(t), grown: merkle.NewTree()}
	b.Tenant = "tnt_system"
	b.add(3)
	require.True(t, b.verify(keys, nil, file{"pack", sealertest.Bundle(t, b.packs[0], b.events)}, file{"export", b.export(0, 2)}, file{"proof", b.proofAnswer(1, 0)}).OK)
}

// TestLineEndsBehindADirectory may stand there, whatever the file is given for.
func TestLineEndsBehindADirectory(t *testing.T) {
	f := newFolder(t)
	keys := f.write("keys", append(f.w.Directory(), "\n\r\n"...))
	for _, o := range []Options{{Root: f.w.VKey}, {Root: f.w.VKey, Keys: keys}, {Keys: keys}} {
		o.Files = []string{keys}
		f.run(ExitSound, o)
	}
}

// TestForeignDirectoryIsNamed: who gives the keys of another service than the root's reads that they are not used.
func TestForeignDirectoryIsNamed(t *testing.T) {
	f := newFolder(t)
	_, other := sealertest.RootKey(t, "another.example")
	keys, receipt := f.write("keys", f.w.Directory()), f.write("receipt", answer(t, f.w.Run(2)[1]))
	var out bytes.Buffer
	require.Equal(t, ExitUnjudged, Files(t.Context(), Options{Root: other, Files: []string{receipt, keys}}, &out))
	require.Contains(t, out.String(), "key.unknown           the key directory at hand is not used, as it is of a service with another root key")
	require.NotContains(t, out.String(), giveDirectory)
}

// TestWeakAnchors: a key with which anybody can sign is no anchor. What such keys are is tested
// where keys are read.
func TestWeakAnchors(t *testing.T) {
	weak := ed25519.PublicKey(make([]byte, ed25519.PublicKeySize))
	_, err := readKeys([]byte(keysAnswer(keydir.NewKey(weak, keydir.PurposeReceipt, sealertest.Epoch))))
	require.ErrorContains(t, err, `"/data/keys/0/publicKey"`)
	vkey, err := note.NewEd25519VerifierKey("weak.example", weak)
	require.NoError(t, err)
	_, err = readRoot(vkey)
	require.Error(t, err)
}
