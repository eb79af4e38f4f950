package playground

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/assets"
	"muniment.example/control/assets/assetstest"
	"muniment.example/control/sandbox"
)

func page(t *testing.T) *assets.Page {
	t.Helper()
	s, err := New(Config{Visitors: new(sandbox.Service), Feed: NewFeed()})
	require.NoError(t, err)
	return s.page
}

// vendored are files that are not ours, with the SHA-256 of what their registry has.
var vendored = map[string]string{
	"noble-ed25519.js":          "82a4ddf5a0c6d48ee64e3fde32e332ba61f53b6bad2c9a7151266e73b942cf39",
	"noble-ed25519.LICENSE.txt": "394c2e6e5552e5dba202bee6390b9d6aa2754d657f5b9869e83b3d265a315501",
}

func TestVendoredFiles(t *testing.T) {
	files := page(t)
	for name, want := range vendored {
		sum := sha256.Sum256(files.Text(name))
		require.Equal(t, want, hex.EncodeToString(sum[:]), name)
	}
}

func TestEveryFileIsReached(t *testing.T) {
	assetstest.EveryFileIsReached(t, page(t), Path, "noble-ed25519.LICENSE.txt")
}

func TestPolicyHolds(t *testing.T) {
	assetstest.PolicyHolds(t, page(t), Path, slices.Collect(maps.Keys(vendored))...)
}

// TestVerification has node run the page's own verifier on the vectors of package sealer.
func TestVerification(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("node is not installed, and it is what runs the page's verifier here: the tests in nodetest did not run")
	}
	require.NoError(t, err, "CI=true requires node")
	out, err := exec.CommandContext(t.Context(), node, "--test", "nodetest/").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `# pass \d{3}`, string(out), "the vectors were read")
}
