package service

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
)

// TestServesWithoutExecutableWrites: the service, with all of its databases, runs where memory that
// can be written can't become executable, which its systemd unit demands.
func TestServesWithoutExecutableWrites(t *testing.T) {
	t.Parallel()
	require.Contains(t, string(systemtest.ReadFile(t, "deploy/systemd/muniment.service")), "MemoryDenyWriteExecute=yes")
	probe := exec.CommandContext(t.Context(), "muniment-confined")
	if out, err := probe.CombinedOutput(); err != nil {
		require.Equal(t, systemtest.ExitNotConfined, probe.ProcessState.ExitCode(), string(out))
		t.Skipf("this kernel can't do it: %s", out)
	}
	server, err := system.StartServer(t.Context(), "muniment-confined", filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	s := systemtest.NotStarted(t, server.Data)
	s.Server, s.Client.API = server, server.API
	s.Settle()
	status, answer := s.Deliver(s.Client.Key, "DOOH")
	require.Equal(t, http.StatusOK, status, answer)
	systemtest.VerifyPacks(t, s.Data, systemtest.SealAndExport(t, s.Client))
	s.Stop()
}
