package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// TestVerifyingKey: a key in the form of Standard Webhooks verifies a v1a signature.
func TestVerifyingKey(t *testing.T) {
	signature, err := sign("dlv_x", noon, []byte("{}"), nil, &sealer.Signer{Key: signingKey})
	require.NoError(t, err)
	key := keydir.NewKey(signingKey.Public().(ed25519.PublicKey), keydir.PurposeWebhook, noon)
	text, err := verifyingKey(&key)
	require.NoError(t, err)
	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whpk_"))
	require.NoError(t, err)
	signed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signature, "v1a,"))
	require.NoError(t, err)
	require.True(t, ed25519.Verify(public, []byte("dlv_x."+unix(noon)+".{}"), signed))
}
