package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// TestFilesBelongToOneRole tells the keys of nodes apart whose names begin alike.
func TestFilesBelongToOneRole(t *testing.T) {
	dir := t.TempDir()
	roles := []role{directoryRole, packRole, sandboxRole, {sealer.PurposeSandbox, "a"}, {sealer.PurposeReceipt, "a"}, {sealer.PurposeReceipt, "a-b"}, {sealer.PurposeReceipt, "a." + strings.Repeat("0", 32)}}
	for _, r := range roles {
		key, err := makeKey(dir, r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(beside(key.Path, requestSuffix), nil, 0o600))
		ids, err := r.files(dir)
		require.NoError(t, err)
		require.Equal(t, []string{sealer.KeyID(key.Pub)}, ids, r)
	}
	ids, err := packRole.files(filepath.Join(dir, "none"))
	require.NoError(t, err)
	require.Empty(t, ids)
}
