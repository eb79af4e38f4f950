//go:build lint

package control_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// redocly checks against the OpenAPI specification, examples among the rest.
const redocly = "@redocly/cli@2.62.1"

// TestDocumentLints shows the document to a linter that shares no code with what
// wrote it. It needs Node.
func TestDocumentLints(t *testing.T) {
	_, _, document := openHouse(t)
	text, err := json.MarshalIndent(document, "", " ")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "openapi.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	lint := exec.CommandContext(t.Context(), "npx", "--yes", redocly, "lint", "--extends", "recommended-strict", file)
	lint.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	lint.Dir = t.TempDir()
	out, err := lint.CombinedOutput()
	require.NoError(t, err, string(out))
}
