package sealer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nextOfficer has the root delegate to another directory key, from now on for two
// years.
func (w *world) nextOfficer(name string) {
	w.now = w.now.Add(time.Second)
	w.officer, w.until = name, w.now.AddDate(2, 0, 0)
	w.keys = append(w.keys, NewKey(pub(testKey(name)), PurposeDirectory, w.now))
}

// revoke has all later directories list a key as revoked.
func (w *world) revoke(name string) {
	w.now = w.now.Add(time.Second)
	at := w.now
	w.key(KeyID(pub(testKey(name)))).RevokedAt = &at
}

// thief is a world in the hands of whoever stole its directory key: it has a pack
// key of his own, and its directory is issued as late as the root allows and revokes
// all keys but his.
func (a *archive) thief() *archive {
	stolen := *a.world
	b := &archive{world: &stolen, grown: NewTree()}
	b.tenant, b.tree, b.previous = tenantID("stolen"), NewTree(), nil
	b.packKey, b.nodes = testKey("thief"), []*Signer{{KeyID(pub(testKey("thief's node"))), "nod_thief", testKey("thief's node")}}
	b.keys = slices.Clone(a.keys)
	b.now = b.until.Add(-time.Hour)
	for i := range b.keys {
		if b.keys[i].KeyID != KeyID(pub(testKey(b.officer))) {
			b.keys[i].RevokedAt = &epoch
		}
	}
	b.keys = append(b.keys, NewKey(pub(b.packKey), PurposePack, epoch), NewKey(pub(testKey("thief's node")), PurposeReceipt, epoch))
	return b
}

// remarks are the codes of the verdicts that are OK.
func remarks(f FileReport) (codes []Code) {
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
	old := file{"old", bundle(t, a.packs[0], a.events)}
	export := file{"export", a.export(0, 3)}
	thief := a.thief()
	thief.add(2)
	forged := file{"forged", bundle(t, thief.packs[0], thief.events)}
	forgedKeys := file{"forged keys", thief.directory()}
	// Nothing at hand can tell, if no pack of the same log is.
	require.Equal(t, [][]Code{nil, {KeyRevoked}}, fails(a.verify(nil, nil, forged, old)))

	// The successor, which the thief knows of and revokes.
	a.nextOfficer("second directory")
	rotated := file{"rotated", a.directory()}
	thief.keys = append(thief.keys, NewKey(pub(testKey(a.officer)), PurposeDirectory, a.now))
	thief.key(KeyID(pub(testKey(a.officer)))).RevokedAt = &a.now
	forgedKeys.text = thief.directory()
	a.revoke("directory")
	revoked := file{"revoked", a.directory()}
	a.add(2)
	next := file{"next", bundle(t, a.packs[1], a.events[3:])}

	for name, c := range map[string]struct {
		files []file
		want  [][]Code
	}{
		"the successor alone": {[]file{old, rotated}, [][]Code{nil, nil}},
		// It decides already, so nothing of the thief's counts, but no directory says of
		// his that it was stolen.
		"not revoked":             {[]file{forged, forgedKeys, rotated, old}, [][]Code{{KeyUnknown}, nil, nil, nil}},
		"revoked":                 {[]file{forged, forgedKeys, revoked, old}, [][]Code{{KeyUnknown}, {DirectoryRevoked}, nil, nil}},
		"revoked, the other way":  {[]file{old, revoked, forgedKeys, forged}, [][]Code{nil, nil, {DirectoryRevoked}, {KeyUnknown}}},
		"the next pack tells":     {[]file{forgedKeys, forged, next, old}, [][]Code{{DirectoryRevoked}, {KeyUnknown}, nil, nil}},
		"his directory in export": {[]file{{"export", a.export(0, 3, func(h *ExportHeader) { h.Directory = forgedKeys.text })}, revoked}, [][]Code{nil, nil}},
		"his directory in a pack": {[]file{{"pack", a.resign(a.packs[1], a.events[3:], func(h *PackHeader) { h.Directory = forgedKeys.text })}, revoked}, [][]Code{nil, nil}},
		"an old directory":        {[]file{{"keys", newArchive(t).directory()}, revoked}, [][]Code{{DirectoryRevoked}, nil}},
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
	one := file{"one", a.directory()}
	a.nextOfficer("second directory")
	thief := a.thief() // revokes the first key, with all others
	a.nextOfficer("third directory")
	thief.keys = append(thief.keys, NewKey(pub(testKey(a.officer)), PurposeDirectory, a.now))
	thief.key(KeyID(pub(testKey(a.officer)))).RevokedAt = &a.now
	two := file{"two", thief.directory()}
	require.Equal(t, [][]Code{{DirectoryRevoked}, nil}, fails(a.verify(nil, nil, one, two)), "as far as these two tell")
	a.revoke("second directory")
	three := file{"three", a.directory()}
	require.Equal(t, [][]Code{nil, {DirectoryRevoked}, nil}, fails(a.verify(nil, nil, one, two, three)))
}

// TestDelegationsOrder: of one delegation the newest directory decides, of two the
// later delegated, though its key signs nothing later.
func TestDelegationsOrder(t *testing.T) {
	w := newWorld(t)
	read := func() *Directory {
		d, err := VerifyDirectory(w.directory(), w.vkey)
		require.NoError(t, err)
		return d
	}
	first := read()
	w.now = w.now.Add(time.Hour)
	newer := read()
	w.now = epoch
	w.nextOfficer("second directory")
	second := read()
	require.True(t, newer.IssuedAt.After(second.IssuedAt))
	order := []*Directory{first, newer, second}
	for i, d := range order {
		for j, other := range order {
			require.Equal(t, i > j, d.outranks(other), "%d and %d", i, j)
		}
	}
}

// TestOldPack: an auditor's pack outlives the delegation of its directory, which
// vouches for all that was dated before its end, and for nothing that was not.
func TestOldPack(t *testing.T) {
	a := newArchive(t, 3)
	events, p := a.events, a.packs[0]
	old := file{"old", bundle(t, p, events)}
	late := func(at time.Time) file {
		return file{"late", a.resign(p, events, func(h *PackHeader) {
			var err error
			h.SealedAt = at
			h.Checkpoint, err = SignCheckpoint(Checkpoint{Origin(a.tenant), h.TreeSize, h.RootHash, at}, a.packKey)
			require.NoError(t, err)
		})}
	}
	end, directory := a.until, a.directory()
	require.True(t, a.verify(nil, nil, old).OK, "at any time")
	require.True(t, a.verify(nil, nil, late(end.Add(-time.Millisecond))).OK)
	require.Equal(t, [][]Code{{KeyOutsideWindow}}, fails(a.verify(nil, nil, late(end))))
	_, err := NewPackBuilder(PackConfig{
		PackID: a.packID(2), TenantID: a.tenant, Before: a.tree, Previous: a.previous, SealedAt: end, Directory: directory, Key: a.packKey,
	})
	require.ErrorContains(t, err, string(KeyOutsideWindow))

	// Three years later another directory key vouches for the whole past.
	a.now = epoch.AddDate(1, 11, 0)
	a.nextOfficer("second directory")
	a.now = epoch.AddDate(3, 0, 0)
	keys := a.directory()
	a.add(2)
	for _, files := range [][]file{{old}, {late(end)}, {old, {"new", bundle(t, a.packs[1], a.events[3:])}}, {{"export", a.export(0, 5)}}, {{"proof", a.proofAnswer(1, 1)}}} {
		r := a.verify(keys, nil, files...)
		require.True(t, r.OK, "%+v", r.Files)
	}

	// The old directory says nothing of what came after its delegation.
	new := file{"receipt", answer(t, a.events[3])}
	require.Equal(t, [][]Code{nil}, fails(a.verify(keys, nil, new)))
	for _, f := range []file{new, {"proof", a.proofAnswer(3, 1)}, {"note", []byte(a.packs[1].Header.Checkpoint)}, {"export", a.export(3, 2, func(h *ExportHeader) { h.Directory = directory })}} {
		require.Equal(t, [][]Code{{KeyOutsideWindow}}, fails(a.verify(directory, nil, f)), f.name)
	}
}

// TestIDsOfPacksAndTenants have one form.
func TestIDsOfPacksAndTenants(t *testing.T) {
	a := newArchive(t, 3, 2)
	keys := a.directory()
	pack := func(change func(*PackHeader)) file {
		return file{"pack", a.resign(a.packs[1], a.events[3:], func(h *PackHeader) {
			before := *h.Previous
			h.Previous = &before
			change(h)
		})}
	}
	require.True(t, a.verify(keys, nil, pack(func(*PackHeader) {})).OK)
	good := a.packID(2)
	for _, id := range []string{
		"", "ppk_", "ppk_2", good + "0", good[:len(good)-1], strings.ToLower(good), good[4:], "tnt" + good[3:], " " + good,
		"ppk_8" + good[5:], good[:29] + "U", good[:29] + "é",
	} {
		require.Equal(t, [][]Code{{FormatInvalid}}, fails(a.verify(keys, nil, pack(func(h *PackHeader) { h.PackID = id }))), id)
		require.Equal(t, [][]Code{{FormatInvalid}}, fails(a.verify(keys, nil, pack(func(h *PackHeader) { h.Previous.PackID = id }))), id)
	}
	good = a.tenant
	for _, id := range []string{
		"", "tnt_", "tnt_sandbox", "tnt_system2", "TNT_SYSTEM", "tnt_system ", strings.ToLower(good), good + "\n", "ppk" + good[3:],
	} {
		require.Equal(t, [][]Code{{FormatInvalid}}, fails(a.verify(keys, nil, pack(func(h *PackHeader) { h.TenantID = id }))), id)
		require.Equal(t, [][]Code{{FormatInvalid}}, fails(a.verify(keys, nil, file{"export", a.export(0, 2, func(h *ExportHeader) { h.TenantID = id })})), id)
		_, err := SignCheckpoint(Checkpoint{Origin(id), 1, Hash{}, epoch}, a.packKey)
		require.Error(t, err, id)
		note := strings.ReplaceAll(a.packs[1].Header.Checkpoint, a.tenant, id)
		require.Equal(t, [][]Code{{FormatInvalid}}, fails(a.verify(keys, nil, file{"note", []byte(note)})), id)
		require.Equal(t, [][]Code{{FormatInvalid}}, fails(a.verify(keys, []byte(note))), id)
	}
	b := &archive{world: newWorld(t), grown: NewTree()}
	b.tenant = systemTenant
	b.add(3)
	require.True(t, b.verify(keys, nil, file{"pack", bundle(t, b.packs[0], b.events)}, file{"export", b.export(0, 2)}, file{"proof", b.proofAnswer(1, 0)}).OK)
}

// TestNewlineBehindADirectory: one may stand there, whatever the file is given for.
func TestNewlineBehindADirectory(t *testing.T) {
	f := newFolder(t)
	one := f.write("one", append(f.w.directory(), '\n'))
	two := f.write("two", append(f.w.directory(), "\n\n"...))
	for _, o := range []Options{{Root: f.w.vkey}, {Root: f.w.vkey, Keys: one}, {Keys: one}} {
		o.Files = []string{one}
		f.run(ExitSound, o)
		o.Files = []string{two}
		f.run(ExitUnsound, o)
	}
}
