// Package systemtest is the fixture of the black-box tests, which start the built binary: commands,
// what they serve, and how a test waits.
//
//   - Command and Fails run a command to its end; Launched is one that serves.
//   - Service is a running service as its callers and operators meet it: NewService has all
//     in one process of its own, Shared in one that many tests share; bench/stack has many
//     processes on the engines of make stack. StartLoad has callers that deliver all the while.
//
// The packages that use it say what their tests are about: bench/service, bench/stack, bench/faults,
// bench/hostile, bench/browser. What a service has to do in one process and on many machines alike is
// in storytest.
package systemtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
)

// Main runs the tests of a package against the built binary, which is muniment in PATH: the one
// that MUNIMENT_TEST_BINARY names, as make test does, or else one that it builds into ./bin. Tests run
// in the top folder. Where there is no curl, the test binary is the part of it that the pages use.
func Main(m *testing.M) {
	commands := map[string]func(){"muniment-confined": confined}
	if _, err := exec.LookPath("curl"); err != nil || filepath.Base(os.Args[0]) == "curl" {
		commands["curl"] = func() {
			if err := curl(os.Args[1:]); err != nil {
				fmt.Fprintln(os.Stderr, "curl:", err)
				os.Exit(1)
			}
		}
	}
	testscript.Main(endsShared{m}, commands)
}

// prepare changes to the top folder, and puts the built binary into PATH.
func prepare() error {
	if err := chdirToTop(); err != nil {
		return err
	}
	binary := os.Getenv("MUNIMENT_TEST_BINARY")
	if binary == "" {
		binary = filepath.Join("bin", "muniment")
		if out, err := exec.Command("make", "--silent", "build").CombinedOutput(); err != nil {
			return fmt.Errorf("make build: %w: %s", err, out)
		}
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	// The go command takes note that these tests depend on it, and runs them again once it is another.
	if _, err := os.Stat(binary); err != nil {
		return err
	}
	return errors.Join(
		os.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH")),
		// Nothing is sealed by itself but where a test wants it.
		os.Setenv("MUNIMENT_SEAL_EVERY", "0"), os.Setenv("MUNIMENT_SEAL_AT", "0"))
}

// chdirToTop changes to the folder of go.mod.
func chdirToTop() error {
	for {
		if _, err := os.Stat("go.mod"); err == nil {
			return nil
		}
		if here, err := os.Getwd(); err != nil || here == filepath.Dir(here) {
			return errors.Join(errors.New("there is no go.mod above this folder"), err)
		}
		if err := os.Chdir(".."); err != nil {
			return err
		}
	}
}

// Long is whether tests have their long forms: more rounds of the same (make test-full).
var Long = os.Getenv("MUNIMENT_TEST_FULL") != ""

// Times is how often something is done in the short form of a test, and in the long one.
func Times(short, inFull int) int {
	if Long {
		return inFull
	}
	return short
}

// Command runs a command that has to succeed, and returns its standard output.
func Command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "muniment", args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "%q: %s", args, &said)
	return string(out)
}

// Fails runs a command that has to fail, and returns all that it says.
func Fails(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "muniment", args...).CombinedOutput()
	require.Error(t, err, "%q: %s", args, out)
	require.NotContains(t, string(out), "goroutine", "a refusal is no crash")
	return string(out)
}

// Parse reads what a command or a service has printed as JSON.
func Parse[T any](t *testing.T, text string) (value T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &value), text)
	return value
}

// Launched is a command that serves; it ends with the test.
type Launched struct {
	Api, Admin, Nodes string // addresses, as far as it has them
	Cmd               *exec.Cmd
	exited            chan error // holds its error once it has ended
	Log               func() string
}

// Launch starts a command, and returns once it has named its addresses.
func Launch(t *testing.T, args ...string) *Launched {
	t.Helper()
	cmd := exec.Command("muniment", args...)
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var mu sync.Mutex
	var text strings.Builder
	p := &Launched{Cmd: cmd, exited: make(chan error, 1), Log: func() string { mu.Lock(); defer mu.Unlock(); return text.String() }}
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
		p.Kill()
		if t.Failed() {
			t.Log(p.Log())
		}
	})
	m := regexp.MustCompile(`(?:api=(\S+) )?admin=(\S+)(?: nodes=(\S+))?`).FindStringSubmatch(<-first)
	require.NotNil(t, m, p.Log())
	p.Api, p.Admin, p.Nodes = m[1], m[2], m[3]
	return p
}

// Ready requests /readyz.
func (p *Launched) Ready() (status int, text string) {
	resp, err := http.Get(p.Admin + "/readyz")
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

// AwaitReady waits until /readyz answers with a status; it fails for a process that has ended.
func (p *Launched) AwaitReady(t *testing.T, want int) {
	t.Helper()
	waittest.Until(t, func() bool {
		require.Empty(t, p.exited, "it has ended")
		status, _ := p.Ready()
		return status == want
	}, "/readyz answers %d", want)
}

// AwaitNote waits until /readyz says something, and returns its status then.
func (p *Launched) AwaitNote(t *testing.T, said string) (status int) {
	t.Helper()
	waittest.Until(t, func() bool {
		var text string
		status, text = p.Ready()
		return strings.Contains(text, said)
	}, "/readyz does not say %q", said)
	return status
}

// Stop signals the process to end, which is a success.
func (p *Launched) Stop(t *testing.T) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections() // or it waits for a last request on each
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.Ended(), p.Log())
}

// Ended waits until the process has, and returns its error.
func (p *Launched) Ended() error {
	err := <-p.exited
	p.exited <- err
	return err
}

// Kill ends it as a power cut would.
func (p *Launched) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended
	_ = p.Ended()
}
