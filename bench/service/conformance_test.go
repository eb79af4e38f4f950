//go:build contract

package service

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestContract has schemathesis hold a running service against its OpenAPI document:
// /v1 with a key that has the wildcard, then the sandbox with a visitor's cookie.
// control/contract says how. MUNIMENT_TEST_PYTHON has the packages of its requirements.txt. The short form
// fuzzes each operation with 5 requests of a kind in place of 20.
func TestContract(t *testing.T) {
	s := systemtest.NewService(t, "--sandbox-burst", "1000000", "--sandbox-sustained", "1000000", "--sandbox-events", "100000000") // all are of one address
	s.Client.Key = systemtest.CreateTenant(t, s.Data, "--scope", "*").APIKey
	python := os.Getenv("MUNIMENT_TEST_PYTHON")
	require.NotEmpty(t, python, "make contract sets it")
	for _, run := range []struct{ name, key, paths string }{
		{"v1", s.Client.Key, "^/(?!api/sandbox/|api/access/|api/playground/|downloads/)"},
		{"sandbox", "", "^/api/sandbox/"},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"-m", "schemathesis.cli", "--no-color", "--config-file", "control/contract/schemathesis.toml", "run", "--include-path-regex", run.paths}
			if run.key != "" {
				args = append(args, "--header", "Authorization: Bearer "+run.key)
			}
			if !systemtest.Long {
				args = append(args, "--max-examples", "5")
			}
			cmd := exec.CommandContext(t.Context(), python, append(args, s.Client.API+"/openapi.json")...)
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "CONTRACT_URL="+s.Client.API, "CONTRACT_KEY="+run.key)
			report, err := cmd.CombinedOutput()
			_, _ = os.Stdout.Write(report)
			require.NoError(t, err, "what is above")
		})
	}
}
