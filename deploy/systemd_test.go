package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSystemdUnit has systemd, where it is installed, parse the unit and rate how exposed the service is.
func TestSystemdUnit(t *testing.T) {
	text, err := os.ReadFile("systemd/muniment.service")
	require.NoError(t, err)
	program := "/usr/local/bin/muniment"
	require.Contains(t, string(text), "\nExecStart="+program+" up\n")
	require.Contains(t, string(text), "\nEnvironment=MUNIMENT_DATA=/var/lib/muniment\nStateDirectory=muniment\n")
	require.Contains(t, string(text), "\nEnvironment=GOTRACEBACK=crash\n", "a crash would end with 2, which is not restarted")
	require.Contains(t, string(text), "\nSystemCallFilter=~@privileged @resources\n", "a filter that follows allows more")
	require.Regexp(t, `(?s)@resources\n.*\nSystemCallFilter=setpriority\n`, string(text), "batches would delay single deliveries")
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	here, err := os.Executable() // a program that exists
	require.NoError(t, err)
	unit := filepath.Join(t.TempDir(), "muniment.service")
	require.NoError(t, os.WriteFile(unit, []byte(strings.Replace(string(text), program, here, 1)), 0o600))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), unit, "systemd warns")
	out, err = exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold=15", "--no-pager", unit).CombinedOutput()
	require.NoError(t, err, "the exposure is more than 1.5 of 10: %s", out)
}
