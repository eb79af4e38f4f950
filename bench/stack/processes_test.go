package stack

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
)

// systemctl is what the page needs of systemd's: it starts what a unit says, with the variables that it names and no others, and
// stops it with SIGTERM. ROOT has the folders that the units name.
const systemctl = `#!/bin/sh
set -eu
stop() {
	pid=$(cat "$ROOT/run/$1.pid") && rm "$ROOT/run/$1.pid" && kill "$pid" && tail --pid="$pid" -f /dev/null
}
start() {
	unit="$ROOT/etc/systemd/system/$1.service"
	set -- "$1" $(sed -n 's/^ExecStart=//p' "$unit")
	vars="$(cat "$ROOT/stack.env" "$(sed -n 's/^EnvironmentFile=//p' "$unit")") $(sed -n 's/^Environment=//p' "$unit")"
	name=$1; shift
	if grep -q ^Type=oneshot "$unit"; then
		exec env -i $vars "$@"
	fi
	env -i $vars "$@" >> "$ROOT/run/$name.log" 2>&1 &
	echo $! > "$ROOT/run/$name.pid"
}
case "$*" in
daemon-reload) ;;
"enable --now "*) start "$3" ;;
"start "*) start "$2" ;;
"restart "*) stop "$2"; start "$2" ;;
*) echo "systemctl $*: not known here" >&2; exit 1 ;;
esac
`

// TestSeparateProcesses types the commands of the page on separate processes, from nothing to deliveries between restarts and an
// upgrade. What is root's business alone is left out: paths begin with a folder, and nothing changes the group of a file.
func TestSeparateProcesses(t *testing.T) {
	t.Parallel()
	engines := systemtest.Engines(t)
	root, name := t.TempDir(), system.RandomName("muniment_")
	database, err := system.AtDatabase(engines.Database, name)
	require.NoError(t, err)
	warehouse, err := system.AtDatabase(engines.ClickHouse, name)
	require.NoError(t, err)

	var moved []string
	for _, path := range []string{"/etc/", "/usr/local/bin/", "/var/lib/"} {
		moved = append(moved, path, root+path)
		require.NoError(t, os.MkdirAll(root+path, 0o700))
	}
	moved = append(moved, "0.0.0.0", "127.0.0.1")
	for _, port := range []string{"8080", "8081", "8082", "9090", "9091", "9093"} {
		free, err := system.FreePort()
		require.NoError(t, err)
		moved = append(moved, ":"+port, ":"+free)
	}
	move := strings.NewReplacer(moved...)
	write := func(name, text string, mode fs.FileMode) {
		t.Helper()
		name = filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), mode))
	}
	units, err := filepath.Glob("deploy/systemd/*.service")
	require.NoError(t, err)
	require.Len(t, units, 5)
	for _, unit := range units {
		write("archive/systemd/"+filepath.Base(unit), move.Replace(string(systemtest.ReadFile(t, unit))), 0o600)
	}
	exe, err := exec.LookPath("muniment")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(exe, filepath.Join(root, "archive", "muniment")))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc", "systemd", "system"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "run"), 0o700))
	for name, text := range map[string]string{"systemctl": systemctl, "groupadd": "#!/bin/sh\n", "chgrp": "#!/bin/sh\n"} {
		write("bin/"+name, text, 0o700)
	}
	write("stack.env", "MUNIMENT_TOPIC="+name+"\nMUNIMENT_REPLICATION=1\nMUNIMENT_PARTITIONS=4\n", 0o600)
	t.Cleanup(func() {
		for _, name := range []string{"gateway", "pipeline", "control"} {
			log := filepath.Join(root, "run", "muniment-"+name)
			if pid, err := os.ReadFile(log + ".pid"); err == nil {
				_ = exec.Command("kill", "-9", strings.TrimSpace(string(pid))).Run() // it may have ended
			}
			if text, err := os.ReadFile(log + ".log"); t.Failed() && err == nil {
				t.Logf("%s: %s", name, text)
			} else if !errors.Is(err, fs.ErrNotExist) {
				require.NoError(t, err)
			}
		}
	})

	script := ""
	for _, block := range typed.FindAllStringSubmatch(string(systemtest.ReadFile(t, "deploy/systemd/processes.md")), -1) {
		script += block[1]
	}
	shell := exec.CommandContext(t.Context(), "sh", "-eu")
	shell.Dir, shell.Stdin = filepath.Join(root, "archive"), strings.NewReader(move.Replace(script))
	statuses := filepath.Join(root, "statuses")
	shell.Env = append(os.Environ(), "ROOT="+root, systemtest.CurlStatuses+"="+statuses, "PATH="+systemtest.RecordingCurl(t)+":"+filepath.Join(root, "bin")+":"+filepath.Join(root, "usr", "local", "bin")+":"+os.Getenv("PATH"),
		"CONTROL=localhost", "KAFKA="+engines.Kafka, "CLICKHOUSE="+warehouse, "DATABASE="+database)
	out, err := shell.CombinedOutput()
	require.NoError(t, err, string(out))
	systemtest.RequireNoErrors(t, statuses, "/readyz")
	said := string(out)
	receipts := receiptIDs.FindAllString(said, -1)
	require.Len(t, receipts, 3, said)
	require.Contains(t, said, "Sound: 1 file.")
	require.Contains(t, said, `{"limited":{"since":`, "of the gateway")
	require.Contains(t, said, `{"backlog":[{"partition":`, "of the loader")

	// Nothing is lost: what was answered is in the warehouse, once.
	loaded, err := clickhouse.Open(t.Context(), clickhouse.Config{URL: warehouse})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loaded.Close()) })
	tenant := regexp.MustCompile(`tnt_[0-9A-Z]+`).FindString(string(systemtest.ReadFile(t, filepath.Join(root, "archive", "pack.ndjson"))))
	require.NotEmpty(t, tenant)
	waittest.Until(t, func() bool {
		rows, err := loaded.Events(t.Context(), pipeline.EventQuery{TenantID: tenant, Limit: 500})
		require.NoError(t, err)
		seen := map[string]int{}
		for _, row := range rows {
			seen[row.EventID]++
		}
		return !slices.ContainsFunc(receipts, func(id string) bool { return seen[api.EventOf(id)] != 1 })
	}, "receipts that were answered are not in the warehouse")
}

var (
	typed      = regexp.MustCompile("(?m)^<!-- a test runs these commands -->\n```sh\n((?s:.*?))^```$")
	receiptIDs = regexp.MustCompile(`rcp_[0-9A-Z]+`)
)
