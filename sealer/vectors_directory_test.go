package sealer

import (
	"crypto/ed25519"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
)

// directories are what becomes of directory keys: one is stolen, and another, to
// which the root has delegated later, takes over three years after.
func (v *vectors) directories() {
	a := newArchive(v.t)
	a.tenant = tenantID("old")
	a.add(3)
	old := v.put("good/old.ndjson", bundle(v.t, a.packs[0], a.events))
	v.good("old pack", "by itself it is sound for good: the delegation of its directory lasted when it was sealed", old)
	oldKeys := a.directory()
	a.add(2)
	v.bad("sealed-after-delegation", "sealed when the delegation of its directory had ended; signed by the pack's own key",
		a.resign(a.packs[1], a.events[3:], func(h *PackHeader) {
			var err error
			h.SealedAt = a.until
			h.Checkpoint, err = SignCheckpoint(Checkpoint{Origin(h.TenantID), h.TreeSize, h.RootHash, h.SealedAt}, a.packKey)
			require.NoError(v.t, err)
		}), KeyOutsideWindow)

	thief := a.thief()
	thief.add(2)
	a.now = epoch.AddDate(3, 0, 0)
	a.nextOfficer("second directory")
	a.revoke("directory")
	keys := v.put("good/keys-of-the-successor.json", a.directory())
	thief.keys = append(thief.keys, NewKey(pub(testKey(a.officer)), PurposeDirectory, a.now))
	thief.key(KeyID(pub(testKey(a.officer)))).RevokedAt = &a.now
	forgedKeys := v.put("bad/keys-of-a-thief.json", thief.directory())
	forged := v.put("bad/by-a-thief.ndjson", bundle(v.t, thief.packs[0], thief.events))

	v.good("pack of a thief, alone", "signed by a key that a stolen directory key has listed: alone it can't be told", forged)
	v.good("old pack and new directory", "its own directory is passed over, as the key of it was revoked", old, keys)
	for _, c := range []vector{
		{Name: "pack of a thief and new directory", About: "of directories the one decides whose key the root delegated to last", Files: []string{forged, keys},
			Failures: [][]Code{{KeyUnknown}, nil}},
		{Name: "directory of a thief", About: "it revokes the successor, but only a later delegation can", Files: []string{forgedKeys, keys, old},
			Failures: [][]Code{{DirectoryRevoked}, nil, nil}},
		{Name: "old directory", About: "nothing tells that it was not made by the thief", Files: []string{v.put("bad/keys-by-revoked-key.json", oldKeys), keys},
			Failures: [][]Code{{DirectoryRevoked}, nil}},
	} {
		c.Exit = ExitUnsound
		v.cases = append(v.cases, c)
	}
	v.delegations(a)
}

// delegations are directories that the root has not delegated to in the one way.
func (v *vectors) delegations(a *archive) {
	for _, c := range []struct{ name, about, old, new string }{
		{"delegation-open", "the delegation has no end", FormatTime(a.until), "-"},
		{"delegation-over", "the delegation had ended when it was issued", FormatTime(a.until), FormatTime(a.now)},
		{"delegation-backwards", "the delegation ends before it begins", FormatTime(a.until), FormatTime(epoch)},
	} {
		v.cases = append(v.cases, vector{
			Name: c.name, About: c.about, Files: []string{v.put("bad/"+c.name+".json", a.delegatedAnew(c.old, c.new))},
			Exit: ExitUnsound, Failures: [][]Code{{DirectoryInvalid}},
		})
	}
	unreduced := slices.Clone(fieldPrime)
	unreduced[0] += 3
	for _, c := range []struct {
		name, about string
		key         ed25519.PublicKey
	}{
		{"weak-key", "it lists a key of small order, with which anybody can sign", smallOrder[1]},
		{"unreduced-key", "it lists a key in a spelling that is not canonical", unreduced},
	} {
		v.bad("keys-"+c.name, c.about, a.listing(c.key), DirectoryInvalid)
	}
}

// listing is the directory with one key more, whatever that is.
func (w *world) listing(key ed25519.PublicKey) []byte {
	d, err := ReadDirectory(w.directory())
	require.NoError(w.tb, err)
	d.Keys = append(d.Keys, NewKey(key, PurposeReceipt, epoch))
	return w.signed(d)
}

// signed is the directory under the signature of its key, also if nobody could read it.
func (w *world) signed(d *Directory) []byte {
	key := testKey(w.officer)
	signature, err := sign(key, d.append(nil, nil))
	require.NoError(w.tb, err)
	return d.append(nil, func(dst []byte) []byte { return appendSignature(dst, KeyID(pub(key)), signature) })
}

// delegatedAnew is the directory under a delegation in which the root has signed
// something else.
func (w *world) delegatedAnew(old, new string) []byte {
	root, _ := rootKey(w.tb, w.rootName)
	d, err := ReadDirectory(w.directory())
	require.NoError(w.tb, err)
	said := delegationLines(d.Delegation)
	require.Contains(w.tb, said, old)
	text, err := note.Sign(&note.Note{Text: strings.Replace(said, old, new, 1)}, root)
	require.NoError(w.tb, err)
	d.Delegation = string(text)
	return w.signed(d)
}
