package keydir

import (
	"crypto/ed25519"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
)

var epoch = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// testKey makes a key out of a name.
func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func pub(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// rootKey makes a root key.
func rootKey(tb testing.TB, name string) (signer note.Signer, vkey string) {
	tb.Helper()
	skey, vkey, err := GenerateRoot(name)
	require.NoError(tb, err)
	signer, err = note.NewSigner(skey)
	require.NoError(tb, err)
	return signer, vkey
}
