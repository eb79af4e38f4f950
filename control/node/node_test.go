package node

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/store"
	"muniment/sealer"
)

// place is a data folder with a clock.
type place struct {
	dir string
	now time.Time
}

func newPlace(t *testing.T) *place {
	return &place{dir: t.TempDir(), now: time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)}
}

func (p *place) keys() string { return filepath.Join(p.dir, "keys") }

// start opens the room as one start of control does; stop ends it.
func (p *place) start(t *testing.T) (r *Room, stop func(), err error) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(p.dir, "control.db"), Now: func() time.Time { return p.now }})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	r, err = New(t.Context(), Config{DB: db, Dir: p.keys(), Bound: 30 * time.Second})
	return r, func() { require.NoError(t, db.Close()) }, err
}

func (p *place) mustStart(t *testing.T) (*Room, func()) {
	t.Helper()
	r, stop, err := p.start(t)
	require.NoError(t, err)
	return r, stop
}

// events reads the types of the events that no relay has taken yet.
func (r *Room) events(t *testing.T) (types []string) {
	t.Helper()
	rows, err := r.db.Read().Query(`SELECT event FROM outbox ORDER BY epoch, seq`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var text []byte
		require.NoError(t, rows.Scan(&text))
		e, err := sealer.ParseEvent(text)
		require.NoError(t, err)
		require.Equal(t, "tnt_system", e.TenantID)
		types = append(types, e.Type)
	}
	return types
}

func TestFirstStartMakesEverything(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	require.Equal(t, []string{"key.enrolled", "key.enrolled"}, r.events(t))
	epoch, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.Equal(t, uint64(1), epoch)
	require.Equal(t, []string{"key.enrolled", "key.enrolled", "node.enrolled", "key.enrolled"}, r.events(t))

	for name, mode := range map[string]os.FileMode{
		"root.skey": 0o600, "root.vkey": 0o644, "directory.key": 0o600, "pack.key": 0o600, "node-nod_a.key": 0o600,
	} {
		info, err := os.Stat(filepath.Join(p.keys(), name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	files, err := os.ReadDir(p.keys())
	require.NoError(t, err)
	require.Len(t, files, 5, "no file is left behind")

	// A stranger with the root's public half alone trusts what is signed.
	vkey, err := os.ReadFile(filepath.Join(p.keys(), "root.vkey"))
	require.NoError(t, err)
	text, err := r.Directory(t.Context())
	require.NoError(t, err)
	d, err := sealer.VerifyDirectory(text, strings.TrimSpace(string(vkey)))
	require.NoError(t, err)
	lend, err := r.ReceiptSigner("nod_a")
	require.NoError(t, err)
	signer, done, err := lend(t.Context(), p.now)
	require.NoError(t, err)
	done()
	require.Equal(t, "nod_a", signer.Node)
	for keyID, purpose := range map[string]string{signer.KeyID: sealer.PurposeReceipt, r.PackSigner().KeyID: sealer.PurposePack} {
		_, code := d.Find(keyID, purpose, p.now)
		require.Empty(t, code)
		_, code = d.Find(keyID, purpose, p.now.Add(-time.Millisecond))
		require.Equal(t, sealer.KeyOutsideWindow, code, "no key is valid before it was enrolled")
	}
	_, other, err := sealer.GenerateRoot("muniment")
	require.NoError(t, err)
	_, err = sealer.VerifyDirectory(text, other)
	require.Error(t, err)
}

func TestSecondStartKeepsTheKeys(t *testing.T) {
	p := newPlace(t)
	first, stop := p.mustStart(t)
	_, err := first.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	before, err := first.Directory(t.Context())
	require.NoError(t, err)
	told := first.events(t)
	stop()

	second, _ := p.mustStart(t)
	epoch, err := second.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.Equal(t, uint64(2), epoch, "each start of a node is an epoch")
	after, err := second.Directory(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.Equal(t, told, second.events(t), "nothing new was enrolled")
	require.Equal(t, first.RootVkey(), second.RootVkey())
}

func TestRootKeyMayBeTakenAway(t *testing.T) {
	p := newPlace(t)
	_, stop := p.mustStart(t)
	stop()
	secret := filepath.Join(p.keys(), rootSecretFile)
	safe := filepath.Join(t.TempDir(), "safe")
	require.NoError(t, os.Rename(secret, safe))
	r, stop := p.mustStart(t)
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err, "new keys need no root")
	stop()

	// Only another directory key needs it, and the service says so.
	require.NoError(t, os.Remove(filepath.Join(p.keys(), directoryFile)))
	_, stopFailed, err := p.start(t)
	require.ErrorIs(t, err, errRootOffline)
	stopFailed()
	require.NoError(t, os.Rename(safe, secret))
	p.now = p.now.Add(time.Hour)
	r, _ = p.mustStart(t)
	text, err := r.Directory(t.Context())
	require.NoError(t, err)
	d, err := sealer.VerifyDirectory(text, r.RootVkey())
	require.NoError(t, err)
	require.Len(t, d.Keys, 4, "the old directory key is still listed")
}

func TestRootFilesMustBelongTogether(t *testing.T) {
	p := newPlace(t)
	r, stop := p.mustStart(t)
	stop()
	require.NoError(t, os.Remove(filepath.Join(p.keys(), directoryFile)))
	require.NoError(t, os.Remove(filepath.Join(p.keys(), rootPublicFile)))
	again, stop := p.mustStart(t)
	require.Equal(t, r.RootVkey(), again.RootVkey(), "the public half is mended from the secret one")
	stop()

	require.NoError(t, os.Remove(filepath.Join(p.keys(), directoryFile)))
	_, other, err := sealer.GenerateRoot("muniment")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(p.keys(), rootPublicFile), []byte(other), 0o644))
	_, _, err = p.start(t)
	require.ErrorContains(t, err, "is not the verifying half")
}

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	key, err := LoadKey(dir, "a.key")
	require.NoError(t, err)
	again, err := LoadKey(dir, "a.key")
	require.NoError(t, err)
	require.Equal(t, key, again)
	b, err := LoadKey(dir, "b.key")
	require.NoError(t, err)
	require.NotEqual(t, key, b)

	path := filepath.Join(dir, "a.key")
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	block, _ := pem.Decode(good)
	for name, text := range map[string]string{
		"empty":        "",
		"cut short":    string(good[:len(good)/2]),
		"two keys":     string(good) + string(good),
		"another type": strings.ReplaceAll(string(good), "PRIVATE", "PUBLIC"),
		"no DER":       string(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: block.Bytes[1:]})),
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := LoadKey(dir, "a.key")
		require.ErrorContains(t, err, path, name)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(kept), "a damaged key file is never replaced")
	}
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = LoadKey(dir, "a.key")
	require.ErrorContains(t, err, "others may read it")
}

func TestNodeIDsAreNoPaths(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	for _, id := range []string{"", "../x", "a/b", "a b", strings.Repeat("x", 65)} {
		_, err := r.Enrol(t.Context(), id)
		require.ErrorContains(t, err, "is no node id", id)
	}
	_, err := r.ReceiptSigner("nod_stranger")
	require.ErrorContains(t, err, "not enrolled")
}

func TestRevokedKeyDoesNotSign(t *testing.T) {
	p := newPlace(t)
	r, stop := p.mustStart(t)
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE signing_keys SET revoked_at = $1 WHERE key_id = $2`, store.At(p.now), r.PackSigner().KeyID)
		return err
	}))
	stop()
	_, _, err := p.start(t)
	require.ErrorContains(t, err, "is revoked")
}

func TestKeyServesOnePurpose(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	key := r.PackSigner().Key.(ed25519.PrivateKey)
	_, err := r.signer(t.Context(), key, sealer.PurposeReceipt, "nod_a")
	require.ErrorContains(t, err, "is enrolled for proof_pack_signing of control")
}

func TestClockSetBackKeepsTheDirectoryValid(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	p.now = p.now.Add(-24 * time.Hour)
	text, err := r.Directory(t.Context())
	require.NoError(t, err)
	_, err = sealer.VerifyDirectory(text, r.RootVkey())
	require.NoError(t, err)
}

// TestLiveNodes walks a clock through what is known of nodes.
func TestLiveNodes(t *testing.T) {
	p := newPlace(t)
	r, stop := p.mustStart(t)
	require.True(t, r.Propagation(9).Applied, "without nodes there is nobody to wait for")
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.True(t, r.Propagation(9).Applied, "a node that has not asked holds no lease")

	r.Polled("nod_a", 8)
	require.Equal(t, Propagation{Revision: 9, Nodes: []State{{NodeID: "nod_a", AppliedRevision: 8, Live: true}}}, r.Propagation(9))
	r.Polled("nod_a", 9)
	r.Polled("nod_b", 10)
	require.True(t, r.Propagation(9).Applied)
	require.False(t, r.Propagation(10).Applied)
	p.now = p.now.Add(30 * time.Second)
	require.False(t, r.Propagation(10).Applied, "a lease lasts to the end of the bound")
	p.now = p.now.Add(time.Millisecond)
	require.Equal(t, Propagation{Revision: 10, Applied: true, Nodes: []State{
		{NodeID: "nod_a", AppliedRevision: 9}, {NodeID: "nod_b", AppliedRevision: 10},
	}}, r.Propagation(10), "no lease is left")
	stop()

	// Another process: what the last one granted may still be held.
	r, stop = p.mustStart(t)
	require.Equal(t, []State{{NodeID: "nod_a", Live: true}}, r.Propagation(1).Nodes)
	require.False(t, r.Propagation(1).Applied)
	_, err = r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.True(t, r.Propagation(1).Applied, "unless the node is in this process, so its lease ended with the last")
	stop()
	r, _ = p.mustStart(t)
	p.now = p.now.Add(31 * time.Second)
	require.True(t, r.Propagation(1).Applied, "nor longer than the bound")
	for range 2 {
		p.now = p.now.Add(forget * 30 * time.Second)
		r.Polled("nod_c", p.now.Unix())
	}
	require.Len(t, r.Propagation(1).Nodes, 1, "who is silent for long is forgotten")
}

func TestAwait(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	r.Polled("nod_a", 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, r.Await(gone, 2).Applied)
	answer := make(chan Propagation)
	go func() { answer <- r.Await(t.Context(), 2) }()
	r.Polled("nod_a", 2)
	require.True(t, (<-answer).Applied)
}
