package keydir

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer/canonical"
)

// weakKeys are public keys that are refused: those of small order, with either sign,
// and those whose y-coordinate is not reduced.
func weakKeys() (keys []ed25519.PublicKey) {
	for _, sign := range []byte{0, 0x80} {
		for _, y := range smallOrder {
			y = append([]byte(nil), y...)
			y[31] |= sign
			keys = append(keys, y)
		}
		for low := 0xed; low <= 0xff; low++ {
			y := append([]byte(nil), fieldPrime...)
			y[0], y[31] = byte(low), 0x7f|sign
			keys = append(keys, y)
		}
	}
	return keys
}

// forgeable reports whether one signature, the neutral one, is by pub over some message.
func forgeable(pub ed25519.PublicKey) bool {
	signature := make([]byte, ed25519.SignatureSize)
	signature[0] = 1 // R is the identity, S is 0
	for n := range 100 {
		if ed25519.Verify(pub, fmt.Append(nil, n), signature) {
			return true
		}
	}
	return false
}

// TestWeakKeys: a key with which anybody can sign is refused wherever a key is taken in.
func TestWeakKeys(t *testing.T) {
	forged := 0
	root, _ := rootKey(t, "root.example")
	for _, pub := range weakKeys() {
		if forgeable(pub) {
			forged++
		}
		_, err := ReadPublicKey(canonical.Base64.EncodeToString(pub))
		require.Error(t, err, "%x", pub)

		k := NewKey(pub, PurposeReceipt, epoch)
		_, err = k.Public()
		require.Error(t, err, "a directory: %x", pub)
		_, err = Delegate(root, pub, epoch, epoch.Add(time.Hour))
		require.Error(t, err, "a delegation: %x", pub)

		vkey, err := note.NewEd25519VerifierKey("weak.example", pub)
		require.NoError(t, err)
		_, err = Verify(nil, vkey)
		require.ErrorContains(t, err, "root key", "%x", pub)
		_, err = ReadDelegation("", vkey)
		require.ErrorContains(t, err, "root key", "%x", pub)
	}
	require.GreaterOrEqual(t, forged, 8, "the table holds what the class is about")
	for n := range 100 {
		_, err := ReadPublicKey(canonical.Base64.EncodeToString(pub(testKey(fmt.Sprint(n)))))
		require.NoError(t, err)
	}
	largest := append([]byte(nil), fieldPrime...)
	largest[0] -= 2 // −2, reduced and of large order
	require.NoError(t, checkPoint(largest))
	_, err := ReadRoot("weak.example+00000000+" + base64.StdEncoding.EncodeToString([]byte{1}))
	require.Error(t, err)
}
