package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
)

// exitNotConfined is the status of muniment-confined where the kernel can't confine it.
const exitNotConfined = 77

// TestServesWithoutExecutableWrites: the service, with all of its databases, runs where memory that
// can be written can't become executable, which its systemd unit demands.
func TestServesWithoutExecutableWrites(t *testing.T) {
	t.Parallel()
	require.Contains(t, string(read(t, "deploy/systemd/muniment.service")), "MemoryDenyWriteExecute=yes")
	probe := exec.CommandContext(t.Context(), "muniment-confined")
	if out, err := probe.CombinedOutput(); err != nil {
		require.Equal(t, exitNotConfined, probe.ProcessState.ExitCode(), string(out))
		t.Skipf("this kernel can't do it: %s", out)
	}
	server, err := system.StartServer(t.Context(), "muniment-confined", filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	s := notStarted(t, server.Data)
	s.server, s.client.API = server, server.API
	s.settle()
	status, answer := s.deliver(s.client.Key, "DOOH")
	require.Equal(t, http.StatusOK, status, answer)
	verifyPacks(t, s.data, sealAndExport(t, s.client))
	s.stop()
}
