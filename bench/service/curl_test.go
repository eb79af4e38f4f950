package service

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStubOfCurl: where there is no curl, pages are run by a part of it that sends the same bytes.
func TestStubOfCurl(t *testing.T) {
	t.Parallel()
	real, err := exec.LookPath("curl")
	require.NoError(t, err)
	if target, err := filepath.EvalSymlinks(real); err == nil && filepath.Base(target) != "curl" {
		t.Skip("there is no curl to compare with")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	stub := filepath.Join(dir, "curl")
	require.NoError(t, os.Symlink(exe, stub))
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("a\r\nb\n"), 0o600))
	large := filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(large, make([]byte, 1<<20+1), 0o600))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	// sent returns the request that a curl makes of a command line, what it prints, and its exit status.
	sent := func(curl string, args []string) (request, printed string, exit int) {
		cmd := exec.CommandContext(t.Context(), curl, args...)
		cmd.Stdin = strings.NewReader("in\n")
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		conn, err := listener.Accept()
		require.NoError(t, err)
		defer conn.Close()
		var seen strings.Builder
		req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &seen)))
		require.NoError(t, err)
		if req.Header.Get("Expect") != "" {
			_, err = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
			require.NoError(t, err)
		}
		_, err = io.Copy(io.Discard, req.Body)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nLocation: /other\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnone")
		require.NoError(t, err)
		_ = cmd.Wait() // the status is compared
		return regexp.MustCompile(`curl/[0-9.]+`).ReplaceAllString(seen.String(), "curl"), out.String(), cmd.ProcessState.ExitCode()
	}
	at := "http://" + listener.Addr().String()
	for _, args := range [][]string{
		{"-s", at},
		{"-s", at + "/v1/metering?from=2026-01-01&by=a,b", "-H", "Authorization: Bearer mun_test_x"},
		{"-s", at + "/v1/delivery", "-H", "Authorization: Bearer mun_test_x", "-H", "Idempotency-Key: play-0001", "-d", `{"a": 1}`},
		{"-s", at + "/v1/delivery", "-d", "a", "-d", "b"},
		{"-s", at + "/v1/delivery", "-d", "@" + text},
		{"-s", at + "/v1/delivery", "--data-binary", "@" + text, "-H", "Content-Type: application/json"},
		{"-s", at + "/v1/delivery", "--data-binary", "@-"},
		{"-s", at + "/v1/delivery", "--data-binary", "@" + large},
		{"-s", "-X", "POST", at + "/v1/proof-packs/seal"},
		{"-s", "-X", "PUT", at + "/v1/settlement/issuer", "-d", "{}"},
		{"-s", "-X", "DELETE", at + "/v1/api-keys/key_x"},
		{"-s", at + "/", "-o", os.DevNull, "-w", `%{stderr}%{http_code} %{url_effective}\n`},
		{"-s", at + "/", "-H", "Accept:", "-H", "content-type: text/csv", "-d", ""},
	} {
		want, printed, exit := sent(real, args)
		got, stubPrinted, stubExit := sent(stub, args)
		require.Equal(t, want, got, args)
		require.Equal(t, printed, stubPrinted, args)
		require.Equal(t, exit, stubExit, args)
	}
	_, printed, exit := sent(stub, []string{"-sf", at})
	require.NotContains(t, printed, "none")
	require.NotZero(t, exit)
}
