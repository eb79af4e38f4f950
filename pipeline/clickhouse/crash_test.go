package clickhouse

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/sealer"
)

// cache is the folder of the test engine's files: set by deploy/stack/clickhouse.sh,
// which can then run a second server that may be killed.
const cache = "MUNIMENT_TEST_CLICKHOUSE_CACHE"

// ownServer is a server of the test's own.
type ownServer struct {
	t   *testing.T
	env []string
	dir string
}

func startServer(t *testing.T) *ownServer {
	s := &ownServer{t: t, dir: t.TempDir()}
	port := freePorts(2)
	s.env = append(os.Environ(), "MUNIMENT_STACK="+s.dir, "MUNIMENT_STACK_CACHE="+stacktest.Variable(t, cache),
		fmt.Sprint("MUNIMENT_CLICKHOUSE_TCP=", port), fmt.Sprint("MUNIMENT_CLICKHOUSE_HTTP=", port+1))
	t.Cleanup(func() { s.run("down") })
	s.run("up")
	return s
}

// run calls the script that starts and stops servers.
func (s *ownServer) run(command string) string {
	s.t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("../../deploy/stack/clickhouse.sh", command)
	cmd.Env, cmd.Stderr = s.env, &said
	out, err := cmd.Output()
	require.NoError(s.t, err, said.String())
	return string(out)
}

// url is the server's address for the native protocol.
func (s *ownServer) url() string {
	for line := range strings.Lines(s.run("env")) {
		if value, ok := strings.CutPrefix(line, "export "+native+"="); ok {
			return strings.Trim(strings.TrimSpace(value), "'")
		}
	}
	s.t.Fatal("no address")
	return ""
}

// kill ends the server with SIGKILL.
func (s *ownServer) kill() {
	text, err := os.ReadFile(filepath.Join(s.dir, "clickhouse", "pid"))
	require.NoError(s.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(s.t, err)
	process, err := os.FindProcess(pid)
	require.NoError(s.t, err)
	require.NoError(s.t, process.Kill())
	s.run("down")
}

// full runs the long forms of tests.
var full = os.Getenv("MUNIMENT_TEST_FULL") != ""

// The server is killed again and again while batches are loaded, each of which
// begins where the warehouse says: at the end there is every row, once.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	name := "muniment"
	cfg := Config{URL: inDatabase(t, s.url(), name), Timeout: 20 * time.Second}
	_, err := Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	w := mustOpen(t, cfg)

	kills, size := 2, 500
	if full {
		kills = 5
	}
	rows, metered, quantity := spread(0, 10_000)
	var loads, failures atomic.Int64
	over := make(chan struct{})
	go func() { // kills at a moment of a load that is later each time
		defer close(over)
		for i := range kills {
			before := loads.Load()
			waittest.Until(t, func() bool { return loads.Load() > before })
			<-time.After(time.Duration(i) * 37 * time.Millisecond)
			failed := failures.Load()
			s.kill()
			waittest.Until(t, func() bool { return failures.Load() > failed })
			s.run("up")
		}
	}()
	replays := 0
	for next := (sealer.Position{}); next.Offset < int64(len(rows)); {
		from := int(next.Offset)
		if err := w.Load(t.Context(), batch(rows[from:min(from+size, len(rows))])); err != nil {
			failures.Add(1)
			waittest.Until(t, func() bool { return w.Ping(t.Context()) == nil })
		} else {
			loads.Add(1)
			next = at(int64(from + size))
		}
		// As a loader that starts anew does, and from the beginning while kills are to come.
		if resume, ok, err := w.Resume(t.Context(), 3); err == nil && ok {
			require.GreaterOrEqual(t, resume.Offset, next.Offset, "what was loaded is known")
		}
		select {
		case <-over:
		default:
			if next.Offset >= int64(len(rows)) {
				next, replays = sealer.Position{}, replays+1
			}
		}
	}
	<-over
	t.Logf("%d kills, %d failed loads, %d replays of %d rows", kills, failures.Load(), replays, len(rows))
	require.Positive(t, failures.Load(), "no kill has hit a load")
	requireSums(t, w, int64(len(rows)), metered, quantity)
}
