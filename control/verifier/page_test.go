package verifier

import (
	"bytes"
	"compress/gzip"
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/assets"
	"muniment.example/control/assets/assetstest"
	"muniment.example/gateway/api"
)

func open(t *testing.T) *Service {
	t.Helper()
	s, err := New()
	require.NoError(t, err)
	require.True(t, s.whole, "make build compiles the program")
	return s
}

func TestEveryFileIsReached(t *testing.T) {
	assetstest.EveryFileIsReached(t, open(t).page, Path, "charts.js")
}

func TestPolicyHolds(t *testing.T) {
	assetstest.PolicyHolds(t, open(t).page, Path, built...)
}

// TestProgramIsServed under the policy that lets a browser compile it, and is WebAssembly.
func TestProgramIsServed(t *testing.T) {
	a, err := open(t).file("muniment-verify.wasm.gz", new(assets.Condition))
	require.NoError(t, err)
	require.Equal(t, "application/gzip", a.ContentType)
	require.Contains(t, a.Policy, "script-src 'self' 'wasm-unsafe-eval';")
	unpacked, err := gzip.NewReader(bytes.NewReader(a.Body))
	require.NoError(t, err)
	text, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	require.Equal(t, "\x00asm", string(text[:4]))
}

// TestWithoutTheProgram: a binary that was built without it says which program to use.
func TestWithoutTheProgram(t *testing.T) {
	s := open(t)
	s.whole = false
	for _, name := range []string{"index.html", "worker.js"} {
		_, err := s.file(name, new(assets.Condition))
		require.Equal(t, api.ResourceNotFound, api.From(err).Code)
		require.ErrorContains(t, err, "muniment-verify")
	}
}

// TestNothingResumesAProgramThatHasExited: its timers would throw on the page, after the verdict.
func TestNothingResumesAProgramThatHasExited(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	out, err := exec.CommandContext(t.Context(), node, "nodetest/exits.js").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.JSONEq(t, `{"status": 7}`, string(out))
}
