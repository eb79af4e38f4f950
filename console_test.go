package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBaseOfEveryAddress: a link leads to localhost where the server listens on every address.
func TestBaseOfEveryAddress(t *testing.T) {
	for url, base := range map[string]string{
		"http://127.0.0.1:9090": "http://127.0.0.1:9090", "http://[::]:9090": "http://localhost:9090", "https://0.0.0.0:9090": "https://localhost:9090", "https://[::1]:1": "https://[::1]:1",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, adminFile), []byte(`{"url":"`+url+`","token":"x"}`), 0o600))
		got, err := (&running{Data: dir}).Base()
		require.NoError(t, err)
		require.Equal(t, base, got)
	}
	_, err := (&running{Data: t.TempDir()}).Base()
	require.ErrorContains(t, err, "no server runs on")
}
