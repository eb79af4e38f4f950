package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unit is one of systemd, with the command that it runs.
type unit struct{ name, verb, data string }

var units = []unit{
	{"muniment", "up", "muniment"},
	{"muniment-gateway", "gateway", "muniment-gateway"},
	{"muniment-control", "control", "muniment-control"},
	{"muniment-pipeline", "pipeline", ""},
	{"muniment-migrate", "migrate", ""},
}

const program = "/usr/local/bin/muniment"

// TestSystemdUnits has systemd, where it is installed, parse the units and rate how exposed each service is.
func TestSystemdUnits(t *testing.T) {
	fence := ""
	for _, u := range units {
		content, err := os.ReadFile("systemd/" + u.name + ".service")
		require.NoError(t, err)
		text := string(content)
		require.Contains(t, text, "\nExecStart="+program+" "+u.verb+"\n")
		if u.data != "" {
			require.Contains(t, text, "\nEnvironment=MUNIMENT_DATA=/var/lib/"+u.data+"\nStateDirectory="+u.data+"\n")
		}
		if u.verb != "migrate" {
			require.Contains(t, text, "\nEnvironment=GOTRACEBACK=crash\n", "a crash would end with 2, which is not restarted")
		}
		require.Contains(t, text, "\nSystemCallFilter=~@privileged @resources\n", "a filter that follows allows more")
		if u.verb == "up" || u.verb == "gateway" || u.verb == "control" {
			require.Regexp(t, `(?s)@resources\n.*\nSystemCallFilter=setpriority\n`, text, "batches would delay single deliveries")
		}
		own := fenceOf(text)
		require.NotEmpty(t, own)
		if fence == "" {
			fence = own
		}
		require.Equal(t, fence, own, "%s is confined in another way than muniment.service", u.name)
		t.Run(u.name, func(t *testing.T) { analyzed(t, u.name, text) })
	}
}

// fenceOf is what confines a unit.
func fenceOf(text string) string {
	_, fence, _ := strings.Cut(text, "\nNoNewPrivileges=yes\n")
	fence, _, _ = strings.Cut(fence, "\n[Install]")
	lines := slices.DeleteFunc(strings.Split(fence, "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#") || line == "SystemCallFilter=setpriority"
	})
	return strings.Join(lines, "\n")
}

func analyzed(t *testing.T, name, text string) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	here, err := os.Executable() // a program that exists
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), name+".service")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(text, program, here, 1)), 0o600))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), file, "systemd warns")
	out, err = exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold=15", "--no-pager", file).CombinedOutput()
	require.NoError(t, err, "the exposure is more than 1.5 of 10: %s", out)
}
