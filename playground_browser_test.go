//go:build browser

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlaygroundInABrowser has Chromium visit the page of a running service: control/playground/browser
// is what it does there.
func TestPlaygroundInABrowser(t *testing.T) {
	s := newService(t, "--sandbox-burst", "100000", "--sandbox-sustained", "100000")
	root, err := os.ReadFile("sealer/testdata/root.vkey")
	require.NoError(t, err)
	pack, err := filepath.Abs("sealer/testdata/good/chain-1.ndjson")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "--test", "story.js")
	cmd.Dir = "control/playground/browser"
	cmd.Env = append(os.Environ(), "URL="+s.client.API, "PACK="+pack, "ROOT="+strings.TrimSpace(string(root)))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	require.NoError(t, cmd.Run(), "what is above")
}
