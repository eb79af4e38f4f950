//go:build lint

package control_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tools that read the document. redocly checks it against the OpenAPI specification,
// examples among the rest; the others make clients of it.
const (
	redocly           = "@redocly/cli@2.62.1"
	openapiTypescript = "openapi-typescript@7.13.0"
	typescript        = "typescript@5.9.3"
	oapiCodegen       = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
	ogen              = "github.com/ogen-go/ogen v1.25.0"
	oapiRuntime       = "github.com/oapi-codegen/runtime v1.8.0"
)

// served is a folder with the document as it is served, in both versions.
func served(t *testing.T) string {
	h, _, _ := openService(t)
	dir := t.TempDir()
	for _, name := range []string{"openapi.json", "openapi-3.0.json"} {
		text := h.call("", "GET", "/"+name, "").text
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func run(t *testing.T, dir, name string, args ...string) {
	c := exec.CommandContext(t.Context(), name, args...)
	c.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	c.Dir = dir
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestDocumentLints shows the document to a linter that shares no code with what
// wrote it. It needs Node.
func TestDocumentLints(t *testing.T) {
	run(t, served(t), "npx", "--yes", redocly, "lint", "--extends", "recommended-strict", "openapi.json", "openapi-3.0.json")
}

// TestDocumentGenerates makes clients of the document, which compile. It needs Node.
func TestDocumentGenerates(t *testing.T) {
	dir := served(t)
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		module := filepath.Join(dir, "client")
		require.NoError(t, os.Mkdir(module, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(module, "go.mod"), []byte("module client\n\ngo 1.26\n\nrequire "+oapiRuntime+"\n"), 0o600))
		run(t, module, "go", "run", oapiCodegen, "-generate", "types,client", "-package", "client", "-o", "client.go", "../openapi-3.0.json")
		run(t, module, "go", "vet", "-mod=mod", ".")
	})
	t.Run("Go by ogen", func(t *testing.T) {
		t.Parallel()
		module := filepath.Join(dir, "ogen")
		require.NoError(t, os.Mkdir(module, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(module, "go.mod"), []byte("module client\n\ngo 1.26\n\nrequire "+ogen+"\n"), 0o600))
		run(t, module, "go", "run", "-mod=mod", "github.com/ogen-go/ogen/cmd/ogen", "-package", "client", "-target", ".", "../openapi-3.0.json")
		run(t, module, "go", "vet", "-mod=mod", ".")
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		run(t, dir, "npx", "--yes", openapiTypescript, "openapi.json", "--output", "client.ts")
		run(t, dir, "npx", "--yes", "--package", typescript, "tsc", "--noEmit", "--strict", "client.ts")
	})
}
