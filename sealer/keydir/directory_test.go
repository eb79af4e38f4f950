package keydir_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/sealertest"
)

func TestDirectoryRoundTrip(t *testing.T) {
	w := sealertest.NewWorld(t)
	until, revoked := sealertest.Epoch.Add(time.Hour), sealertest.Epoch.Add(2*time.Hour)
	w.Keys[3].NotAfter, w.Keys[4].RevokedAt = &until, &revoked
	text := w.Directory()
	require.True(t, canonical.IsJSON(text))
	d, err := keydir.Verify(text, w.VKey)
	require.NoError(t, err)
	require.Equal(t, w.Keys, d.Keys)
	require.True(t, d.IssuedAt.Equal(w.Now))
	require.Equal(t, keydir.KeyID(sealertest.Public(sealertest.PrivateKey("directory"))), d.SnapshotID)
	require.True(t, strings.HasPrefix(w.VKey, d.NamedRoot()+"+"), "%s: %s", w.VKey, d.NamedRoot())
	require.True(t, d.Delegated().NotAfter.After(w.Now))
	require.True(t, strings.HasPrefix(d.Delegation, "muniment/directory-key.v1\n"+d.SnapshotID+"\n"))
}

func TestVerifyFindsEveryFlip(t *testing.T) {
	w := sealertest.NewWorld(t)
	text := w.Directory()
	for i := range text {
		b := bytes.Clone(text)
		b[i] ^= 1 << (i % 8)
		_, err := keydir.Verify(b, w.VKey)
		require.Error(t, err, "byte %d", i)
	}
	_, err := keydir.Verify(append(text, '\n'), w.VKey)
	require.Error(t, err)
}

func TestVerifyRefusesAnotherRoot(t *testing.T) {
	w := sealertest.NewWorld(t)
	_, other := sealertest.RootKey(t, "other.example")
	_, err := keydir.Verify(w.Directory(), other)
	require.Error(t, err)
	w.RootName = "other.example"
	_, err = keydir.Verify(w.Directory(), w.VKey)
	require.Error(t, err)
	_, err = keydir.Verify(w.Directory(), "no vkey")
	require.Error(t, err)
}

func TestSignRefuses(t *testing.T) {
	w := sealertest.NewWorld(t)
	root, _ := sealertest.RootKey(t, w.RootName)
	key := sealertest.PrivateKey("directory")
	later := sealertest.Epoch.Add(time.Hour)
	delegate := func(name string, from, to time.Time) string {
		text, err := keydir.Delegate(root, sealertest.Public(sealertest.PrivateKey(name)), from, to)
		require.NoError(t, err)
		return text
	}
	stray, err := note.Sign(&note.Note{Text: "go.sum database tree\n1\nx\n"}, root)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*keydir.Directory){
		"no delegation":   func(d *keydir.Directory) { d.Delegation = "" },
		"another note":    func(d *keydir.Directory) { d.Delegation = string(stray) },
		"for another key": func(d *keydir.Directory) { d.Delegation = delegate("pack", sealertest.Epoch, later) },
		"not yet":         func(d *keydir.Directory) { d.Delegation = delegate("directory", later, later.Add(1e9)) },
		"no longer": func(d *keydir.Directory) {
			d.Delegation = delegate("directory", sealertest.Epoch.Add(-1e9), sealertest.Epoch)
		},
		"key twice":           func(d *keydir.Directory) { d.Keys = append(d.Keys, d.Keys[1]) },
		"own key not listed":  func(d *keydir.Directory) { d.Keys = d.Keys[1:] },
		"own key for packs":   func(d *keydir.Directory) { d.Keys[0].Purpose = keydir.PurposePack },
		"own key revoked":     func(d *keydir.Directory) { d.Keys[0].RevokedAt = &sealertest.Epoch },
		"own key not yet":     func(d *keydir.Directory) { d.Keys[0].NotBefore = later },
		"id of another key":   func(d *keydir.Directory) { d.Keys[1].KeyID = d.Keys[2].KeyID },
		"another algorithm":   func(d *keydir.Directory) { d.Keys[1].Algorithm = "rsa" },
		"malformed key":       func(d *keydir.Directory) { d.Keys[1].PublicKey += "A" },
		"without snapshot id": func(d *keydir.Directory) { d.SnapshotID = "" },
	} {
		d := keydir.Directory{
			Keys: append([]keydir.Key(nil), w.Keys...), IssuedAt: sealertest.Epoch, SnapshotID: "x",
			Delegation: delegate("directory", sealertest.Epoch, later),
		}
		spoil(&d)
		_, err := keydir.Sign(&d, key)
		require.Error(t, err, name)
	}
}

func TestFind(t *testing.T) {
	w := sealertest.NewWorld(t)
	id := w.Nodes[0].KeyID
	from, to, revoked := sealertest.Epoch.Add(time.Hour), sealertest.Epoch.Add(3*time.Hour), sealertest.Epoch.Add(2*time.Hour)
	w.Key(id).NotBefore, w.Key(id).NotAfter = from, &to
	d, err := keydir.Verify(w.Directory(), w.VKey)
	require.NoError(t, err)
	byHand := &keydir.Directory{Keys: d.Keys}
	for _, c := range []struct {
		id, purpose string
		at          time.Time
		want        sealer.Code
	}{
		{id, keydir.PurposeReceipt, from, ""},
		{id, keydir.PurposeReceipt, to.Add(-1), ""},
		{id, keydir.PurposeReceipt, from.Add(-1), sealer.KeyOutsideWindow},
		{id, keydir.PurposeReceipt, to, sealer.KeyOutsideWindow},
		{id, keydir.PurposePack, from, sealer.KeyPurpose},
		{"0123", keydir.PurposeReceipt, from, sealer.KeyUnknown},
	} {
		for _, dir := range []*keydir.Directory{d, byHand} {
			key, code := dir.Find(c.id, c.purpose, c.at)
			require.Equal(t, c.want, code)
			require.Equal(t, c.want == "", key != nil)
		}
	}

	w.Key(id).RevokedAt = &revoked
	d, err = keydir.Verify(w.Directory(), w.VKey)
	require.NoError(t, err)
	_, code := d.Find(id, keydir.PurposeReceipt, from)
	require.Equal(t, sealer.KeyRevoked, code)
	_, code = d.FindSealed(id, keydir.PurposeReceipt, from, revoked.Add(-1))
	require.Empty(t, code)
	_, code = d.FindSealed(id, keydir.PurposeReceipt, from, revoked)
	require.Equal(t, sealer.KeyRevoked, code)
	_, code = d.FindSealed(id, keydir.PurposeReceipt, revoked, revoked.Add(-1))
	require.Equal(t, sealer.KeyRevoked, code, "issued after the revocation, whatever the seal says")
}

func TestGenerateRoot(t *testing.T) {
	skey, vkey, err := keydir.GenerateRoot("root.example")
	require.NoError(t, err)
	root, err := note.NewSigner(skey)
	require.NoError(t, err)
	delegation, err := keydir.Delegate(root, sealertest.Public(sealertest.PrivateKey("directory")), sealertest.Epoch, sealertest.Epoch.Add(1e9))
	require.NoError(t, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	_, err = note.Open([]byte(delegation), note.VerifierList(v))
	require.NoError(t, err)
	_, _, err = keydir.GenerateRoot("with space")
	require.Error(t, err)
}
