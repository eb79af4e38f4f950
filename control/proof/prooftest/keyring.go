package prooftest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// Keyring is the signing keys and their directory.
type Keyring struct {
	*roomtest.Clock
	Vkey    string // of the root
	Pack    *sealer.Signer
	Receipt *sealer.Signer
	Sandbox *sealer.Signer // of packs and of receipts

	root      note.Signer
	directory ed25519.PrivateKey

	mu      sync.Mutex
	entries []keydir.Key
}

func newKeyring(t TB, c *roomtest.Clock) *Keyring {
	skey, vkey, err := keydir.GenerateRoot("muniment-test-root")
	require.NoError(t, err)
	root, err := note.NewSigner(skey)
	require.NoError(t, err)
	k := &Keyring{Clock: c, root: root, Vkey: vkey}
	since := c.Now().Add(-time.Hour)
	k.directory = k.Add(t, keydir.PurposeDirectory, since).Key.(ed25519.PrivateKey)
	k.Pack = k.Add(t, keydir.PurposePack, since)
	k.Receipt = k.Add(t, keydir.PurposeReceipt, since)
	k.Sandbox = k.Add(t, keydir.PurposeSandbox, since)
	return k
}

// Add makes a key and lists it.
func (k *Keyring) Add(t TB, purpose string, since time.Time) *sealer.Signer {
	s := NewSigner(t)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries = append(k.entries, keydir.NewKey(s.Key.Public().(ed25519.PublicKey), purpose, since))
	return s
}

// NewSigner returns a signer whose key is in no directory.
func NewSigner(t TB) *sealer.Signer {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return &sealer.Signer{KeyID: keydir.KeyID(pub), Node: "nod_test", Key: key}
}

// Revoke revokes a key.
func (k *Keyring) Revoke(keyID string, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.entries {
		if k.entries[i].KeyID == keyID {
			k.entries[i].RevokedAt = &at
		}
	}
}

// Signer implements proof.Keys.
func (k *Keyring) Signer(_ context.Context, purpose string) (*sealer.Signer, error) {
	if purpose == keydir.PurposeSandbox {
		return k.Sandbox, nil
	}
	return k.Pack, nil
}

// Vouches implements proof.Keys.
func (k *Keyring) Vouches(context.Context, *store.Tx, string) (bool, error) { return true, nil }

// Directory implements proof.Keys.
func (k *Keyring) Directory(context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	issuedAt := k.Now()
	for _, key := range k.entries {
		if key.NotBefore.After(issuedAt) {
			issuedAt = key.NotBefore // as control/signing does after the clock was set back
		}
	}
	delegation, err := keydir.Delegate(k.root, k.directory.Public().(ed25519.PublicKey), k.entries[0].NotBefore, k.entries[0].NotBefore.AddDate(10, 0, 0))
	if err != nil {
		return nil, err
	}
	return keydir.Sign(&keydir.Directory{
		Keys: k.entries, IssuedAt: issuedAt, SnapshotID: "test", Delegation: delegation,
	}, k.directory)
}
