package sealer

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
)

func TestDirectoryRoundTrip(t *testing.T) {
	w := newWorld(t)
	until, revoked := epoch.Add(time.Hour), epoch.Add(2*time.Hour)
	w.keys[3].NotAfter, w.keys[4].RevokedAt = &until, &revoked
	text := w.directory()
	require.True(t, isCanonical(text))
	d, err := VerifyDirectory(text, w.vkey)
	require.NoError(t, err)
	require.Equal(t, w.keys, d.Keys)
	require.True(t, d.IssuedAt.Equal(w.now))
	require.Equal(t, KeyID(pub(testKey("directory"))), d.SnapshotID)
	require.True(t, strings.HasPrefix(d.Delegation, "muniment/directory-key.v1\n"+d.SnapshotID+"\n"))
}

func TestVerifyDirectoryFindsEveryFlip(t *testing.T) {
	w := newWorld(t)
	text := w.directory()
	for i := range text {
		b := bytes.Clone(text)
		b[i] ^= 1 << (i % 8)
		_, err := VerifyDirectory(b, w.vkey)
		require.Error(t, err, "byte %d", i)
	}
	_, err := VerifyDirectory(append(text, '\n'), w.vkey)
	require.Error(t, err)
}

func TestVerifyDirectoryRefusesAnotherRoot(t *testing.T) {
	w := newWorld(t)
	_, other := rootKey(t, "other.example")
	_, err := VerifyDirectory(w.directory(), other)
	require.Error(t, err)
	w.rootName = "other.example"
	_, err = VerifyDirectory(w.directory(), w.vkey)
	require.Error(t, err)
	_, err = VerifyDirectory(w.directory(), "no vkey")
	require.Error(t, err)
}

func TestSignDirectoryRefuses(t *testing.T) {
	w := newWorld(t)
	root, _ := rootKey(t, w.rootName)
	key := testKey("directory")
	later := epoch.Add(time.Hour)
	delegate := func(name string, from, to time.Time) string {
		text, err := Delegate(root, pub(testKey(name)), from, to)
		require.NoError(t, err)
		return text
	}
	stray, err := note.Sign(&note.Note{Text: "go.sum database tree\n1\nx\n"}, root)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*Directory){
		"no delegation":       func(d *Directory) { d.Delegation = "" },
		"another note":        func(d *Directory) { d.Delegation = string(stray) },
		"for another key":     func(d *Directory) { d.Delegation = delegate("pack", epoch, later) },
		"not yet":             func(d *Directory) { d.Delegation = delegate("directory", later, later.Add(1e9)) },
		"no longer":           func(d *Directory) { d.Delegation = delegate("directory", epoch.Add(-1e9), epoch) },
		"key twice":           func(d *Directory) { d.Keys = append(d.Keys, d.Keys[1]) },
		"own key not listed":  func(d *Directory) { d.Keys = d.Keys[1:] },
		"own key for packs":   func(d *Directory) { d.Keys[0].Purpose = PurposePack },
		"own key revoked":     func(d *Directory) { d.Keys[0].RevokedAt = &epoch },
		"own key not yet":     func(d *Directory) { d.Keys[0].NotBefore = later },
		"id of another key":   func(d *Directory) { d.Keys[1].KeyID = d.Keys[2].KeyID },
		"another algorithm":   func(d *Directory) { d.Keys[1].Algorithm = "rsa" },
		"malformed key":       func(d *Directory) { d.Keys[1].PublicKey += "A" },
		"without snapshot id": func(d *Directory) { d.SnapshotID = "" },
	} {
		d := Directory{
			Keys: append([]Key(nil), w.keys...), IssuedAt: epoch, SnapshotID: "x",
			Delegation: delegate("directory", epoch, later),
		}
		spoil(&d)
		_, err := SignDirectory(&d, key)
		require.Error(t, err, name)
	}
}

func TestFind(t *testing.T) {
	w := newWorld(t)
	id := w.nodes[0].KeyID
	from, to, revoked := epoch.Add(time.Hour), epoch.Add(3*time.Hour), epoch.Add(2*time.Hour)
	w.key(id).NotBefore, w.key(id).NotAfter = from, &to
	d, err := VerifyDirectory(w.directory(), w.vkey)
	require.NoError(t, err)
	byHand := &Directory{Keys: d.Keys}
	for _, c := range []struct {
		id, purpose string
		at          time.Time
		want        Code
	}{
		{id, PurposeReceipt, from, ""},
		{id, PurposeReceipt, to.Add(-1), ""},
		{id, PurposeReceipt, from.Add(-1), KeyOutsideWindow},
		{id, PurposeReceipt, to, KeyOutsideWindow},
		{id, PurposePack, from, KeyPurpose},
		{"0123", PurposeReceipt, from, KeyUnknown},
	} {
		for _, dir := range []*Directory{d, byHand} {
			key, code := dir.Find(c.id, c.purpose, c.at)
			require.Equal(t, c.want, code)
			require.Equal(t, c.want == "", key != nil)
		}
	}

	w.key(id).RevokedAt = &revoked
	d, err = VerifyDirectory(w.directory(), w.vkey)
	require.NoError(t, err)
	_, code := d.Find(id, PurposeReceipt, from)
	require.Equal(t, KeyRevoked, code)
	_, code = d.FindSealed(id, PurposeReceipt, from, revoked.Add(-1))
	require.Empty(t, code)
	_, code = d.FindSealed(id, PurposeReceipt, from, revoked)
	require.Equal(t, KeyRevoked, code)
	_, code = d.FindSealed(id, PurposeReceipt, revoked, revoked.Add(-1))
	require.Equal(t, KeyRevoked, code, "issued after the revocation, whatever the seal says")
}

func TestGenerateRoot(t *testing.T) {
	skey, vkey, err := GenerateRoot("root.example")
	require.NoError(t, err)
	root, err := note.NewSigner(skey)
	require.NoError(t, err)
	delegation, err := Delegate(root, pub(testKey("directory")), epoch, epoch.Add(1e9))
	require.NoError(t, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	_, err = openNote(delegation, v)
	require.NoError(t, err)
	_, _, err = GenerateRoot("with space")
	require.Error(t, err)
}
