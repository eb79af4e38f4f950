package main

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// launched is a process of the scaled service; it ends with the test.
type launched struct {
	api, admin, nodes string
	cmd               *exec.Cmd
	exited            chan error
	log               func() string
}

// launch starts a process, and returns once it has named its addresses.
func launch(t *testing.T, cmd *exec.Cmd) *launched {
	t.Helper()
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
		_ = cmd.Process.Kill()
		if t.Failed() {
			t.Log(p.log())
		}
	})
	m := regexp.MustCompile(`(?:api=(\S+) )?admin=(\S+)(?: nodes=(\S+))?`).FindStringSubmatch(<-first)
	require.NotNil(t, m, p.log())
	p.api, p.admin, p.nodes = m[1], m[2], m[3]
	return p
}

// ready asks /readyz.
func (p *launched) ready(t *testing.T) (status int, text string) {
	resp, err := http.Get(p.admin + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func (p *launched) awaitReady(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool { status, _ := p.ready(t); return status == want }, time.Minute, 10*time.Millisecond)
}

// stop tells the process to end, which is a success.
func (p *launched) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-p.exited, p.log())
}
