package service

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/keyfile"
)

// TestDemoEndsWithItsReader: muniment demo | head ends the demo, its server with it.
func TestDemoEndsWithItsReader(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "story")
	demo := exec.CommandContext(t.Context(), "muniment", "demo", "--deliveries", "100000", "--keep", dir)
	out, err := demo.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, demo.Start())
	lines := bufio.NewReader(out)
	for line := ""; line[:min(1, len(line))] != "2"; { // the server serves
		line, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
	require.NoError(t, out.(io.Closer).Close())
	require.Error(t, demo.Wait())

	claim, err := keyfile.Claim(filepath.Join(dir, "data"))
	require.NoError(t, err, "the server of the demo lives on")
	require.NoError(t, claim.Close())
}
