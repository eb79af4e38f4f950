package client_test

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/client"
)

// TestClientIsSmall: the smallest program that delivers links at most 15 MB and 20 modules, and nothing
// of the service.
func TestClientIsSmall(t *testing.T) {
	dir := t.TempDir()
	program := `package main

import (
	"context"
	"fmt"

	"` + reflect.TypeFor[client.Client]().PkgPath() + `"
)

func main() {
	c, err := client.New(client.Config{URL: "http://127.0.0.1:1", Key: "k"})
	if err == nil {
		_, err = c.Deliver(context.Background(), client.Delivery{RightID: "r", SpatialAnchorID: "a"})
	}
	fmt.Println(err)
}
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
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
