package keydir

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPurposes: receipts and packs, of the sandbox and of all others, have one purpose each;
// a directory, too. Nothing else is evidence.
func TestPurposes(t *testing.T) {
	signers := func(of func(Purpose) bool) (names []string) {
		for _, p := range purposes {
			require.Equal(t, p, PurposeOf(p.Name))
			if of(p) {
				names = append(names, p.Name)
			}
		}
		return names
	}
	for sandbox, want := range map[bool]struct{ receipts, packs string }{
		false: {"receipt_signing", "proof_pack_signing"},
		true:  {"sandbox_proof_signing", "sandbox_proof_signing"},
	} {
		require.Equal(t, []string{want.receipts}, signers(func(p Purpose) bool { return p.Receipts && p.Sandbox == sandbox }))
		require.Equal(t, []string{want.packs}, signers(func(p Purpose) bool { return p.Packs && p.Sandbox == sandbox }))
		require.Equal(t, want.receipts, ReceiptPurpose(sandbox))
		require.Equal(t, want.packs, PackPurpose(sandbox))
	}
	require.Equal(t, []string{"directory_signing"}, signers(func(p Purpose) bool { return p.Directories }))
	require.Equal(t, []string{"webhook_signing", "beacon_signing"}, signers(func(p Purpose) bool { return !p.Receipts && !p.Packs && !p.Directories }))
	require.Empty(t, PurposeOf("").Name)
	require.Empty(t, PurposeOf("beacons").Name)
}
