package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMakeDataDir makes its own folders and opens them again, and leaves others' alone.
func TestMakeDataDir(t *testing.T) {
	for _, c := range []struct {
		holds   string // a file; "" is nothing
		foreign bool
	}{
		{"", false}, {"LOCK", false}, {"control.db", false}, {"keys/root.vkey", false}, {"admin.json", false}, {"lost+found/x", false}, {".cache", false},
		{"letter", true}, {"keys/id_rsa", true}, {"packs/x", true},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if c.holds != "" {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, c.holds)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.holds), nil, 0o600))
		}
		err := makeDataDir(dir)
		if c.foreign {
			require.ErrorIs(t, err, errForeign, c.holds)
			continue
		}
		require.NoError(t, err, c.holds)
		require.DirExists(t, dir)
	}
}
