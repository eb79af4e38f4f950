package signing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// TestRootOffline runs a service whose root key is elsewhere, from its first start on.
func TestRootOffline(t *testing.T) {
	p, offline := newPlace(t), t.TempDir()
	rootFile := filepath.Join(offline, "root.skey")
	vkey, err := GenerateRoot(rootFile, "root.example")
	require.NoError(t, err)
	info, err := os.Stat(rootFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = GenerateRoot(rootFile, "root.example")
	require.ErrorContains(t, err, "exists already")

	// Each start needs a delegation, for the same key.
	require.NoError(t, os.MkdirAll(p.keys(), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(p.keys(), rootPublicFile), []byte(vkey+"\n"), 0o644))
	var request string
	for range 2 {
		_, stop, err := p.start(t)
		require.ErrorIs(t, err, errRootOffline)
		stop()
		found, err := filepath.Glob(filepath.Join(p.keys(), "directory-*.pub"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.ErrorContains(t, errRootHint(p, t), found[0])
		request = found[0]
	}
	until := p.now.Add(time.Hour)
	delegation, err := DelegateOffline(rootFile, request, p.now, until)
	require.NoError(t, err)
	delegated := strings.TrimSuffix(request, ".pub") + ".delegation"
	require.NoError(t, os.WriteFile(delegated, []byte(delegation), 0o644))
	r, stop := p.mustStart(t)
	require.Equal(t, vkey, r.RootVkey())
	ends := map[string]*time.Time{}
	for _, k := range r.verified(t).Keys {
		ends[k.Purpose] = k.NotAfter
	}
	require.Equal(t, map[string]*time.Time{keydir.PurposeDirectory: &until, keydir.PurposePack: nil, keydir.PurposeBeacon: nil, keydir.PurposeWebhook: nil, keydir.PurposeSandbox: nil}, ends, "no longer than the root says")
	require.NoFileExists(t, request)
	require.NoFileExists(t, delegated)
	stop()

	// New keys of nodes and packs need no root, another directory key does.
	r, _ = p.mustStart(t)
	r.admit(t, "nod_a", keydir.PurposeReceipt)
	first := r.directory.ring().current().signer.KeyID
	s, err := r.Rotate(t.Context(), first, operator)
	require.NoError(t, err)
	require.Nil(t, s.Key)
	again, err := r.Rotate(t.Context(), first, operator)
	require.NoError(t, err)
	require.Equal(t, s, again, "one key waits at a time")
	list, err := r.SigningKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, s.Waiting, list.Waiting)
	require.Equal(t, vkey, list.Root)
	require.Len(t, list.Keys, 6)

	keyFile := filepath.Join(offline, "key.Pub")
	require.NoError(t, os.WriteFile(keyFile, []byte(s.Waiting.PublicKey), 0o644))
	delegate := func(from, to time.Time) string {
		text, err := DelegateOffline(rootFile, keyFile, from, to)
		require.NoError(t, err)
		return text
	}
	stranger := filepath.Join(offline, "stranger.skey")
	_, err = GenerateRoot(stranger, "root.example")
	require.NoError(t, err)
	p.now = p.now.Add(time.Minute)
	end := p.now.Add(time.Hour)
	forged, err := DelegateOffline(stranger, keyFile, p.now, end)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"another root": forged, "no delegation": "x", "for the old key": delegation,
		"not yet": delegate(p.now.Add(time.Second), end), "no longer": delegate(p.now.Add(-time.Hour), p.now),
		"not later than the old key's": delegate(p.now.Add(-time.Minute), end),
	} {
		_, err := r.Delegate(t.Context(), text, operator)
		require.Equal(t, api.StateConflict, api.From(err).Code, name)
	}
	before := r.verified(t)
	s, err = r.Delegate(t.Context(), delegate(p.now, end), operator)
	require.NoError(t, err)
	require.Equal(t, first, s.Replaced.KeyID)
	after := r.verified(t)
	require.True(t, after.IssuedAt.After(before.IssuedAt))
	require.Contains(t, after.Delegation, s.Key.KeyID)
	require.NoFileExists(t, directoryRole.path(p.keys(), first))
	p.now = end.Add(-time.Millisecond)
	r.verified(t)
}

// errRootHint is the error of a start without the root key.
func errRootHint(p *place, t *testing.T) error {
	_, stop, err := p.start(t)
	stop()
	return err
}

func TestRootBesideTheServer(t *testing.T) {
	p := newPlace(t)
	r, stop := p.mustStart(t)
	vkey, first := r.RootVkey(), r.directory.ring().current().signer.KeyID
	s, err := r.Rotate(t.Context(), first, operator)
	require.NoError(t, err)
	require.Equal(t, s.Replaced.NotAfter, s.Key.NotBefore)
	require.Contains(t, r.verified(t).Delegation, s.Key.KeyID)
	stop()

	// A lost directory key is replaced while the root is here, and only then.
	p.now = p.now.Add(time.Hour)
	require.NoError(t, os.Remove(directoryRole.path(p.keys(), s.Key.KeyID)))
	secret, safe := filepath.Join(p.keys(), rootSecretFile), filepath.Join(t.TempDir(), "safe")
	require.NoError(t, os.Rename(secret, safe))
	_, stop, err = p.start(t)
	require.ErrorIs(t, err, errRootOffline)
	stop()
	require.NoError(t, os.Rename(safe, secret))
	require.NoError(t, os.Remove(filepath.Join(p.keys(), rootPublicFile)))
	r, stop = p.mustStart(t)
	require.Equal(t, vkey, r.RootVkey(), "the public half is derived from the secret one")
	require.Len(t, r.verified(t).Keys, 7, "the directory keeps every directory key")
	stop()

	// The key folder of another database, or none of any.
	require.NoError(t, os.Remove(filepath.Join(p.keys(), rootPublicFile)))
	require.NoError(t, os.Rename(secret, safe))
	_, stop, err = p.start(t)
	require.ErrorContains(t, err, "it is not the key folder of this database")
	stop()
	_, other, err := keydir.GenerateRoot("muniment")
	require.NoError(t, err)
	require.NoError(t, os.Rename(safe, secret))
	require.NoError(t, os.WriteFile(filepath.Join(p.keys(), rootPublicFile), []byte(other), 0o644))
	_, stop, err = p.start(t)
	require.ErrorContains(t, err, "does not hold under root.vkey")
	stop()
}

// TestDelegationThatEnds: no directory is signed that would not verify.
func TestDelegationThatEnds(t *testing.T) {
	p := newPlace(t)
	r, stop := p.mustStart(t)
	p.now = p.now.Add(time.Second)
	rootFile, until := filepath.Join(p.keys(), rootSecretFile), p.now.Add(time.Hour)
	safe := filepath.Join(t.TempDir(), "safe")
	require.NoError(t, os.Rename(rootFile, safe))
	s, err := r.Rotate(t.Context(), r.directory.ring().current().signer.KeyID, operator)
	require.NoError(t, err)
	delegation, err := DelegateOffline(safe, beside(directoryRole.path(p.keys(), s.Waiting.KeyID), requestSuffix), p.now, until)
	require.NoError(t, err)
	_, err = r.Delegate(t.Context(), delegation, operator)
	require.NoError(t, err)
	p.now = until.Add(-time.Millisecond)
	r.verified(t)
	p.now = until
	require.NoError(t, r.Renew(t.Context()))
	_, err = r.Directory(t.Context())
	require.ErrorContains(t, err, "ended at "+canonical.FormatTime(until)+": run muniment root delegate for the public key in "+p.keys())
	stop()
	_, stop, err = p.start(t)
	require.ErrorIs(t, err, errRootOffline, "a start needs the next delegation, too")
	stop()
}

func TestDelegateOfflineRefuses(t *testing.T) {
	dir := t.TempDir()
	rootFile, keyFile := filepath.Join(dir, "root.skey"), filepath.Join(dir, "key.Pub")
	_, err := GenerateRoot(rootFile, "root.example")
	require.NoError(t, err)
	_, err = GenerateRoot(filepath.Join(dir, "other"), "with space")
	require.Error(t, err)
	now := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	key, err := makeKey(dir, directoryRole)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(keyFile, []byte(encodePublic(key.Pub)), 0o644))
	end := now.Add(time.Hour)
	_, err = DelegateOffline(rootFile, keyFile, now, end)
	require.NoError(t, err)

	_, err = DelegateOffline(rootFile, keyFile, now, now)
	require.ErrorContains(t, err, "end before it begins")
	_, err = DelegateOffline(rootFile, key.Path, now, end)
	require.ErrorContains(t, err, "PEM block of a public key", "the private half must stay where it is")
	_, err = DelegateOffline(rootFile, filepath.Join(dir, "none"), now, end)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = DelegateOffline(keyFile, keyFile, now, end)
	require.ErrorContains(t, err, "others may read it")
	require.NoError(t, os.WriteFile(rootFile, []byte("x"), 0o600))
	_, err = DelegateOffline(rootFile, keyFile, now, end)
	require.ErrorContains(t, err, "cannot load the root key")
}

// TestNothingIsSignedOfAnOlderDatabase: once an older copy replaces the database of a running
// process, a revoked key may be in force there.
func TestNothingIsSignedOfAnOlderDatabase(t *testing.T) {
	p := newPlace(t)
	r, _ := p.two(t)
	r.verified(t)
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE counters SET value = 0 WHERE name = 'revision'`)
		return err
	}))
	_, err := r.Directory(t.Context())
	require.ErrorIs(t, err, store.ErrWentBack)
	_, err = r.Signer(t.Context(), keydir.PurposePack)
	require.ErrorIs(t, err, store.ErrWentBack)
}

// mustSandboxKeys returns the ids of SandboxKeys, and requires that the directory has the same
// keys.
func (r *Service) mustSandboxKeys(t *testing.T) (keyIDs []string) {
	t.Helper()
	keys, issuedAt, err := r.SandboxKeys(t.Context())
	require.NoError(t, err)
	d := r.verified(t)
	for _, k := range keys {
		require.Equal(t, keydir.PurposeSandbox, k.Purpose)
		require.Contains(t, d.Keys, k)
		require.False(t, k.NotBefore.After(issuedAt))
		keyIDs = append(keyIDs, k.KeyID)
	}
	return keyIDs
}

// TestSandboxKeys rotates both keys of the sandbox: the one for packs is listed first, even if
// another is newer.
func TestSandboxKeys(t *testing.T) {
	p := newPlace(t)
	p.sealTime = time.Hour
	r, stop := p.mustStart(t)
	packs := r.mustSigner(t, keydir.PurposeSandbox).KeyID
	require.Equal(t, []string{packs}, r.mustSandboxKeys(t))

	p.now = p.now.Add(time.Second)
	receipts := r.admit(t, "nod_a", keydir.PurposeSandbox)
	r.admit(t, "nod_b", keydir.PurposeReceipt)
	require.Equal(t, []string{packs, receipts}, r.mustSandboxKeys(t))
	_, err := r.Rotate(t.Context(), packs, store.ByOperator())
	require.NoError(t, err)
	p.now = p.now.Add(time.Second)
	next := r.mustSigner(t, keydir.PurposeSandbox).KeyID
	require.NotEqual(t, packs, next)
	require.Equal(t, []string{next, receipts, packs}, r.mustSandboxKeys(t))
	_, err = r.Revoke(t.Context(), receipts, Revocation{}, store.ByOperator())
	require.NoError(t, err)
	require.Equal(t, []string{next, receipts, packs}, r.mustSandboxKeys(t), "a revoked key is still listed")
	stop()

	r, _ = p.mustStart(t)
	require.Equal(t, []string{next, receipts, packs}, r.mustSandboxKeys(t), "another start makes no other keys")
	require.Equal(t, next, r.mustSigner(t, keydir.PurposeSandbox).KeyID)
}

// TestWebhookKeys: the current key is listed first, and a revoked one not at all.
func TestWebhookKeys(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	keys := func() (ids []string) {
		all, err := r.WebhookKeys(t.Context())
		require.NoError(t, err)
		for _, k := range all {
			require.Equal(t, keydir.PurposeWebhook, k.Purpose)
			ids = append(ids, k.KeyID)
		}
		return ids
	}
	first := r.mustSigner(t, keydir.PurposeWebhook).KeyID
	require.Equal(t, []string{first}, keys())
	p.now = p.now.Add(time.Second)
	_, err := r.Rotate(t.Context(), first, store.ByOperator())
	require.NoError(t, err)
	p.now = p.now.Add(time.Second)
	second := r.mustSigner(t, keydir.PurposeWebhook).KeyID
	require.Equal(t, []string{second, first}, keys())
	_, err = r.Revoke(t.Context(), first, Revocation{Reason: "stolen"}, store.ByOperator())
	require.NoError(t, err)
	require.Equal(t, []string{second}, keys())
}
