package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// The fixture of the tests in this folder: commands, what they serve, and how a test waits.
//
//   - muniment and fails run a command to its end; process is one that serves.
//   - service is a running service as its callers and operators meet it: newService has all
//     in one process of its own, shared in one that many tests share, scaledOut has many
//     processes on the engines of make stack. Callers that deliver all the while are in
//     fixture_load_test.go.
//   - until waits for a condition, whatever it is.
//
// A test of what control does inside one process opens it in this one: see openSandbox.

// TestMain lets the test binary be muniment, or the part of curl that the pages use, when
// it is called by that name. Commands of those names come first in PATH.
func TestMain(m *testing.M) {
	// Nothing is sealed by itself but where a test wants it.
	_, _ = os.Setenv("MUNIMENT_SEAL_EVERY", "0"), os.Setenv("MUNIMENT_SEAL_AT", "0")
	testscript.Main(endsShared{m}, map[string]func(){"muniment": main, "muniment-confined": confined, "curl": func() {
		if err := curl(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "curl:", err)
			os.Exit(1)
		}
	}})
}

// systemPath is PATH without them: what is no part of a test finds the system's curl there.
var systemPath = os.Getenv("PATH")

// long is whether tests have their long forms: more rounds of the same (make test-full).
var long = os.Getenv("MUNIMENT_TEST_FULL") != ""

// times is how often something is done in the short form of a test, and in the long one.
func times(short, inFull int) int {
	if long {
		return inFull
	}
	return short
}

// muniment runs a command that has to succeed, and returns its standard output.
func muniment(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "muniment", args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "%q: %s", args, &said)
	return string(out)
}

// fails runs a command that has to fail, and returns all that it says.
func fails(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "muniment", args...).CombinedOutput()
	require.Error(t, err, "%q: %s", args, out)
	require.NotContains(t, string(out), "goroutine", "a refusal is no crash")
	return string(out)
}

// parse reads what a command or a service has printed as JSON.
func parse[T any](t *testing.T, text string) (value T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &value), text)
	return value
}

// until waits for a condition, for a minute at most.
func until(t testing.TB, holds func() bool, what ...any) {
	t.Helper()
	untilAtMost(t, time.Minute, holds, what...)
}

func untilAtMost(t testing.TB, limit time.Duration, holds func() bool, what ...any) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(limit); !holds(); {
		select {
		case <-tick.C:
		case <-late:
			require.FailNow(t, "a condition was awaited in vain", what...)
		}
	}
}

// launched is a command that serves; it ends with the test.
type launched struct {
	api, admin, nodes string // addresses, as far as it has them
	cmd               *exec.Cmd
	exited            chan error
	log               func() string
}

// launch starts a command, and returns once it has named its addresses.
func launch(t *testing.T, args ...string) *launched {
	t.Helper()
	cmd := exec.Command("muniment", args...)
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var mu sync.Mutex
	var text strings.Builder
	p := &launched{cmd: cmd, exited: make(chan error, 1), log: func() string { mu.Lock(); defer mu.Unlock(); return text.String() }}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(pipe)
		for {
			line, err := lines.ReadString('\n')
			mu.Lock()
			text.WriteString(line)
			mu.Unlock()
			select {
			case first <- line:
			default:
			}
			if err != nil {
				break
			}
		}
		p.exited <- cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Log(p.log())
		}
	})
	m := regexp.MustCompile(`(?:api=(\S+) )?admin=(\S+)(?: nodes=(\S+))?`).FindStringSubmatch(<-first)
	require.NotNil(t, m, p.log())
	p.api, p.admin, p.nodes = m[1], m[2], m[3]
	return p
}

// ready requests /readyz.
func (p *launched) ready() (status int, text string) {
	resp, err := http.Get(p.admin + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

func (p *launched) awaitReady(t *testing.T, want int) {
	t.Helper()
	until(t, func() bool { status, _ := p.ready(); return status == want }, "/readyz answers %d", want)
}

// awaitNote waits until /readyz says something, and returns its status then.
func (p *launched) awaitNote(t *testing.T, said string) (status int) {
	t.Helper()
	until(t, func() bool {
		var text string
		status, text = p.ready()
		return strings.Contains(text, said)
	}, "/readyz does not say %q", said)
	return status
}

// stop signals the process to end, which is a success.
func (p *launched) stop(t *testing.T) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections() // or it waits for a last request on each
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.ended(), p.log())
}

// ended waits until the process has, and returns its error.
func (p *launched) ended() error {
	err := <-p.exited
	p.exited <- err
	return err
}

// kill ends it as a power cut would.
func (p *launched) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.ended()
}
