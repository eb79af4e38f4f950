package verify

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// directories are what becomes of directory keys: one is stolen, and another, to
// which the root has delegated later, takes over three years after.
func (v *vectors) directories() {
	a := newArchive(v.t)
	a.Tenant = sealertest.TenantID("old")
	a.add(3)
	old := v.put("good/old.ndjson", sealertest.Bundle(v.t, a.packs[0], a.events))
	v.good("old pack", "by itself it stays sound: the delegation of its directory was valid when it was sealed", old)
	oldKeys := a.Directory()
	a.add(2)
	v.bad("sealed-after-delegation", "sealed when the delegation of its directory had ended; signed by the pack's own key",
		a.resign(a.packs[1], a.events[3:], func(h *pack.Header) {
			var err error
			h.SealedAt = a.Until
			h.Checkpoint, err = checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(h.TenantID), Size: h.TreeSize, Root: h.RootHash, SealedAt: h.SealedAt}, a.PackKey)
			require.NoError(v.t, err)
		}), DirectoryExpired)

	thief := a.thief()
	thief.add(2)
	a.Now = sealertest.Epoch.AddDate(3, 0, 0)
	a.nextOfficer("second directory")
	a.revoke("directory")
	keys := v.put("good/keys-of-the-successor.json", a.Directory())
	thief.Keys = append(thief.Keys, keydir.NewKey(sealertest.Public(sealertest.PrivateKey(a.Officer)), keydir.PurposeDirectory, a.Now))
	thief.Key(keydir.KeyID(sealertest.Public(sealertest.PrivateKey(a.Officer)))).RevokedAt = &a.Now
	forgedKeys := v.put("bad/keys-of-a-thief.json", thief.Directory())
	forged := v.put("bad/by-a-thief.ndjson", sealertest.Bundle(v.t, thief.packs[0], thief.events))

	v.good("pack of a thief, alone", "signed by a key that a stolen directory key has listed: alone it can't be detected", forged)
	v.good("old pack and new directory", "its own directory is passed over, as the key of it was revoked", old, keys)
	v.cases = append(v.cases, []vector{
		{Name: "pack of a thief and new directory", About: "of directories the one decides whose key the root delegated to last", Files: []string{forged, keys},
			Failures: [][]sealer.Code{{KeyMismatch, sealer.KeyUnknown}, nil}},
		{Name: "directory of a thief", About: "it revokes the successor, but only a later delegation can", Files: []string{forgedKeys, keys, old},
			Failures: [][]sealer.Code{{DirectoryRevoked}, nil, nil}},
		{Name: "old directory", About: "nothing proves that the thief did not make it", Files: []string{v.put("bad/keys-by-revoked-key.json", oldKeys), keys},
			Failures: [][]sealer.Code{{DirectoryRevoked}, nil}},
	}...)
	v.delegations(a)
}

// delegations are directories that the root has not delegated to in the one way.
func (v *vectors) delegations(a *archive) {
	for _, c := range []struct{ name, about, old, new string }{
		{"delegation-open", "the delegation has no end", canonical.FormatTime(a.Until), "-"},
		{"delegation-over", "the delegation had ended when it was issued", canonical.FormatTime(a.Until), canonical.FormatTime(a.Now)},
		{"delegation-backwards", "the delegation ends before it begins", canonical.FormatTime(a.Until), canonical.FormatTime(sealertest.Epoch)},
	} {
		v.cases = append(v.cases, vector{
			Name: c.name, About: c.about, Files: []string{v.put("bad/"+c.name+".json", a.delegatedAnew(c.old, c.new))}, Failures: [][]sealer.Code{{DirectoryInvalid}},
		})
	}
	identity := append([]byte{1}, make([]byte, ed25519.PublicKeySize-1)...) // the neutral point
	unreduced := bytes.Repeat([]byte{0xff}, ed25519.PublicKeySize)
	unreduced[0], unreduced[31] = 0xf0, 0x7f // 2^255 − 19 + 3
	for _, c := range []struct {
		name, about string
		key         ed25519.PublicKey
	}{
		{"weak-key", "it lists a key of small order, with which anybody can sign", identity},
		{"unreduced-key", "it lists a key in a spelling that is not canonical", unreduced},
	} {
		v.bad("keys-"+c.name, c.about, a.listing(c.key), DirectoryInvalid)
	}
}

// listing is the directory with one key more, whatever that is.
func (w *world) listing(key ed25519.PublicKey) []byte {
	d, err := keydir.Read(w.Directory())
	require.NoError(w.TB, err)
	d.Keys = append(d.Keys, keydir.NewKey(key, keydir.PurposeReceipt, sealertest.Epoch))
	return w.signed(d)
}

// signed is the directory under the signature of its key, even if it can't be read.
func (w *world) signed(d *keydir.Directory) []byte {
	key := sealertest.PrivateKey(w.Officer)
	var keys []any
	for i := range d.Keys {
		keys = append(keys, keyObject(&d.Keys[i]))
	}
	object := map[string]any{"delegation": d.Delegation, "issuedAt": canonical.FormatTime(d.IssuedAt), "keys": keys, "snapshotId": d.SnapshotID}
	text, err := canonical.JSON(object)
	require.NoError(w.TB, err)
	signature, err := sign(key, text)
	require.NoError(w.TB, err)
	object["signature"] = jsontext.Value(appendSignature(nil, keydir.KeyID(sealertest.Public(key)), signature))
	text, err = canonical.JSON(object)
	require.NoError(w.TB, err)
	return text
}

// keyObject is a key of a directory as JSON has it.
func keyObject(k *keydir.Key) map[string]any {
	moment := func(t *time.Time) any {
		if t == nil {
			return nil
		}
		return canonical.FormatTime(*t)
	}
	return map[string]any{
		"algorithm": k.Algorithm, "keyId": k.KeyID, "notAfter": moment(k.NotAfter), "notBefore": canonical.FormatTime(k.NotBefore),
		"publicKey": k.PublicKey, "purpose": k.Purpose, "revokedAt": moment(k.RevokedAt),
	}
}

// delegatedAnew is the directory under a delegation in which the root has signed
// something else.
func (w *world) delegatedAnew(old, new string) []byte {
	root, _ := sealertest.RootKey(w.TB, w.RootName)
	d, err := keydir.Read(w.Directory())
	require.NoError(w.TB, err)
	said, _, _ := strings.Cut(d.Delegation, "\n\n")
	said += "\n"
	require.Contains(w.TB, said, old)
	text, err := note.Sign(&note.Note{Text: strings.Replace(said, old, new, 1)}, root)
	require.NoError(w.TB, err)
	d.Delegation = string(text)
	return w.signed(d)
}
