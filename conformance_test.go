//go:build contract

package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestContract has schemathesis hold a running service against its OpenAPI document:
// /v1 with a key that has the wildcard, then the sandbox with a visitor's cookie.
// control/contract says how. MUNIMENT_TEST_PYTHON has the packages of its requirements.txt.
func TestContract(t *testing.T) {
	s := newService(t, "--sandbox-burst", "1000000", "--sandbox-sustained", "1000000", "--sandbox-bytes", "68719476736") // 1 GiB of log for its one address
	s.client.Key = createTenant(t, s.data, "--scope", "*").APIKey
	t.Setenv("CONTRACT_URL", s.client.API)
	for _, run := range []struct{ name, key, paths string }{
		{"v1", s.client.Key, "^/(?!api/sandbox/|api/access/|api/playground/|downloads/)"},
		{"sandbox", "", "^/api/sandbox/"},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Setenv("CONTRACT_KEY", run.key)
			args := []string{"-m", "schemathesis.cli", "--no-color", "--config-file", "control/contract/schemathesis.toml", "run", "--include-path-regex", run.paths}
			if run.key != "" {
				args = append(args, "--header", "Authorization: Bearer "+run.key)
			}
			python := os.Getenv("MUNIMENT_TEST_PYTHON")
			require.NotEmpty(t, python, "make contract sets it")
			cmd := exec.CommandContext(t.Context(), python, append(args, s.client.API+"/openapi.json")...)
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			require.NoError(t, cmd.Run(), "what is above")
		})
	}
}
