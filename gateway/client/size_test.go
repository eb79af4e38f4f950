package client

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClientIsSmall: the page's program, the smallest that delivers, builds, and links at most 15 MB and 20 modules, and nothing
// of the service.
func TestClientIsSmall(t *testing.T) {
	dir := t.TempDir()
	page, err := os.ReadFile("../integrating.md")
	require.NoError(t, err)
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(page)
	require.NotNil(t, program)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), program[1], 0o600))
	built := filepath.Join(dir, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", built, filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	size, err := os.Stat(built)
	require.NoError(t, err)
	require.LessOrEqual(t, size.Size(), int64(15_000_000))
	info, err := buildinfo.ReadFile(built)
	require.NoError(t, err)
	require.LessOrEqual(t, len(info.Deps), 20, "%v", info.Deps)
}
