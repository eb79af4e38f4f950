package sealer_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/sealertest"
)

func TestDirectoryRoundTrip(t *testing.T) {
	w := sealertest.NewWorld(t)
	until, revoked := sealertest.Epoch.Add(time.Hour), sealertest.Epoch.Add(2*time.Hour)
	w.Keys[3].NotAfter, w.Keys[4].RevokedAt = &until, &revoked
	text := w.Directory()
	require.True(t, IsJSON(text))
	d, err := sealer.VerifyDirectory(text, w.VKey)
	require.NoError(t, err)
	require.Equal(t, w.Keys, d.Keys)
	require.True(t, d.IssuedAt.Equal(w.Now))
	require.Equal(t, sealer.KeyID(sealertest.Public(sealertest.PrivateKey("directory"))), d.SnapshotID)
	require.True(t, strings.HasPrefix(d.Delegation, "muniment/directory-key.v1\n"+d.SnapshotID+"\n"))
}

func TestVerifyDirectoryFindsEveryFlip(t *testing.T) {
	w := sealertest.NewWorld(t)
	text := w.Directory()
	for i := range text {
		b := bytes.Clone(text)
		b[i] ^= 1 << (i % 8)
		_, err := sealer.VerifyDirectory(b, w.VKey)
		require.Error(t, err, "byte %d", i)
	}
	_, err := sealer.VerifyDirectory(append(text, '\n'), w.VKey)
	require.Error(t, err)
}

func TestVerifyDirectoryRefusesAnotherRoot(t *testing.T) {
	w := sealertest.NewWorld(t)
	_, other := sealertest.RootKey(t, "other.example")
	_, err := sealer.VerifyDirectory(w.Directory(), other)
	require.Error(t, err)
	w.RootName = "other.example"
	_, err = sealer.VerifyDirectory(w.Directory(), w.VKey)
	require.Error(t, err)
	_, err = sealer.VerifyDirectory(w.Directory(), "no vkey")
	require.Error(t, err)
}

func TestSignDirectoryRefuses(t *testing.T) {
	w := sealertest.NewWorld(t)
	root, _ := sealertest.RootKey(t, w.RootName)
	key := sealertest.PrivateKey("directory")
	later := sealertest.Epoch.Add(time.Hour)
	delegate := func(name string, from, to time.Time) string {
		text, err := sealer.Delegate(root, sealertest.Public(sealertest.PrivateKey(name)), from, to)
		require.NoError(t, err)
		return text
	}
	stray, err := note.Sign(&note.Note{Text: "go.sum database tree\n1\nx\n"}, root)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*sealer.Directory){
		"no delegation":   func(d *sealer.Directory) { d.Delegation = "" },
		"another note":    func(d *sealer.Directory) { d.Delegation = string(stray) },
		"for another key": func(d *sealer.Directory) { d.Delegation = delegate("pack", sealertest.Epoch, later) },
		"not yet":         func(d *sealer.Directory) { d.Delegation = delegate("directory", later, later.Add(1e9)) },
		"no longer": func(d *sealer.Directory) {
			d.Delegation = delegate("directory", sealertest.Epoch.Add(-1e9), sealertest.Epoch)
		},
		"key twice":           func(d *sealer.Directory) { d.Keys = append(d.Keys, d.Keys[1]) },
		"own key not listed":  func(d *sealer.Directory) { d.Keys = d.Keys[1:] },
		"own key for packs":   func(d *sealer.Directory) { d.Keys[0].Purpose = sealer.PurposePack },
		"own key revoked":     func(d *sealer.Directory) { d.Keys[0].RevokedAt = &sealertest.Epoch },
		"own key not yet":     func(d *sealer.Directory) { d.Keys[0].NotBefore = later },
		"id of another key":   func(d *sealer.Directory) { d.Keys[1].KeyID = d.Keys[2].KeyID },
		"another algorithm":   func(d *sealer.Directory) { d.Keys[1].Algorithm = "rsa" },
		"malformed key":       func(d *sealer.Directory) { d.Keys[1].PublicKey += "A" },
		"without snapshot id": func(d *sealer.Directory) { d.SnapshotID = "" },
	} {
		d := sealer.Directory{
			Keys: append([]sealer.Key(nil), w.Keys...), IssuedAt: sealertest.Epoch, SnapshotID: "x",
			Delegation: delegate("directory", sealertest.Epoch, later),
		}
		spoil(&d)
		_, err := sealer.SignDirectory(&d, key)
		require.Error(t, err, name)
	}
}

func TestFind(t *testing.T) {
	w := sealertest.NewWorld(t)
	id := w.Nodes[0].KeyID
	from, to, revoked := sealertest.Epoch.Add(time.Hour), sealertest.Epoch.Add(3*time.Hour), sealertest.Epoch.Add(2*time.Hour)
	w.Key(id).NotBefore, w.Key(id).NotAfter = from, &to
	d, err := sealer.VerifyDirectory(w.Directory(), w.VKey)
	require.NoError(t, err)
	byHand := &sealer.Directory{Keys: d.Keys}
	for _, c := range []struct {
		id, purpose string
		at          time.Time
		want        sealer.Code
	}{
		{id, sealer.PurposeReceipt, from, ""},
		{id, sealer.PurposeReceipt, to.Add(-1), ""},
		{id, sealer.PurposeReceipt, from.Add(-1), sealer.KeyOutsideWindow},
		{id, sealer.PurposeReceipt, to, sealer.KeyOutsideWindow},
		{id, sealer.PurposePack, from, sealer.KeyPurpose},
		{"0123", sealer.PurposeReceipt, from, sealer.KeyUnknown},
	} {
		for _, dir := range []*sealer.Directory{d, byHand} {
			key, code := dir.Find(c.id, c.purpose, c.at)
			require.Equal(t, c.want, code)
			require.Equal(t, c.want == "", key != nil)
		}
	}

	w.Key(id).RevokedAt = &revoked
	d, err = sealer.VerifyDirectory(w.Directory(), w.VKey)
	require.NoError(t, err)
	_, code := d.Find(id, sealer.PurposeReceipt, from)
	require.Equal(t, sealer.KeyRevoked, code)
	_, code = d.FindSealed(id, sealer.PurposeReceipt, from, revoked.Add(-1))
	require.Empty(t, code)
	_, code = d.FindSealed(id, sealer.PurposeReceipt, from, revoked)
	require.Equal(t, sealer.KeyRevoked, code)
	_, code = d.FindSealed(id, sealer.PurposeReceipt, revoked, revoked.Add(-1))
	require.Equal(t, sealer.KeyRevoked, code, "issued after the revocation, whatever the seal says")
}

func TestGenerateRoot(t *testing.T) {
	skey, vkey, err := sealer.GenerateRoot("root.example")
	require.NoError(t, err)
	root, err := note.NewSigner(skey)
	require.NoError(t, err)
	delegation, err := sealer.Delegate(root, sealertest.Public(sealertest.PrivateKey("directory")), sealertest.Epoch, sealertest.Epoch.Add(1e9))
	require.NoError(t, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	_, err = note.Open([]byte(delegation), note.VerifierList(v))
	require.NoError(t, err)
	_, _, err = sealer.GenerateRoot("with space")
	require.Error(t, err)
}
