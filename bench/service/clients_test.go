//go:build clients

package service

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/client"
)

// TestClientsOfAService runs the suites of the clients in gateway/client/typescript and
// gateway/client/python against a service, and holds their types against its document.
func TestClientsOfAService(t *testing.T) {
	s := systemtest.NewService(t, "--webhook-allow", "127.0.0.1")
	rights, err := json.Marshal(s.Rights)
	require.NoError(t, err)
	python := os.Getenv("MUNIMENT_TEST_PYTHON")
	require.NotEmpty(t, python, "make test-clients sets it")
	receiver := systemtest.NewHookReceiver(t)
	received := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		type message struct {
			Headers map[string]string `json:"headers"`
			Body    string            `json:"body"`
		}
		messages := []message{}
		for _, m := range receiver.Messages() {
			messages = append(messages, message{map[string]string{"webhook-id": m.Id, "webhook-timestamp": m.At, "webhook-signature": m.Signature}, m.Body})
		}
		_ = json.NewEncoder(w).Encode(messages) // the suite fails without it
	}))
	t.Cleanup(received.Close)
	// Each suite adds a play to a buffer that the Go client has made.
	plays := t.TempDir()
	buffer := func(t *testing.T, folder string) *client.Buffer {
		return must[*client.Buffer](t)(client.OpenBuffer(filepath.Join(plays, folder), client.BufferConfig{Client: s.GoClient()}))
	}
	run := func(folder string, command ...string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Dir = filepath.Join("gateway/client", folder)
			// The services that a suite calls are on this machine: no proxy is between.
			cmd.Env = append(os.Environ(), "URL="+s.Client.API, "KEY="+s.Client.Key, "ROOT="+filepath.Join(s.Data, "keys", "root.vkey"),
				"TENANT="+s.Tenant.TenantID, "RIGHTS="+string(rights), "HOOK="+receiver.URL, "HOOKED="+received.URL, "GO_BUFFER="+filepath.Join(plays, folder),
				"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			require.NoError(t, cmd.Run(), "what is above")
		}
	}
	t.Run("document/typescript", run("typescript", "node", "generate.js", s.Client.API, "--check"))
	t.Run("document/python", run("python", python, "generate.py", s.Client.API, "--check"))
	suite := func(folder string, command ...string) {
		t.Run(folder, func(t *testing.T) {
			b := buffer(t, folder)
			require.NoError(t, b.Add(t.Context(), client.Delivery{RightID: "rgh_1", SpatialAnchorID: "a", DwellMs: 1}))
			require.NoError(t, b.Close())
			run(folder, command...)(t)
			b = buffer(t, folder)
			require.Equal(t, 2, b.Stats().Waiting)
			require.Zero(t, b.Stats().Damaged)
			require.NoError(t, b.Close())
		})
	}
	suite("typescript", "npm", "test", "--silent")
	suite("python", python, "-m", "unittest", "discover", "-s", "tests", "-v")
}
