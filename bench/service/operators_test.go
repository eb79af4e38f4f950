package service

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// sendRaw sends a head as it is, without its last blank line, on a connection of its own.
func sendRaw(t *testing.T, url, head string) systemtest.Response {
	t.Helper()
	c, err := net.Dial("tcp", systemtest.HostPort(url))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, head+"\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return systemtest.Response{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}
}

// TestEveryErrorIsInTheEnvelope sends what Go's HTTP server would answer by itself, of
// the API and, as far as a handler is reached, of the address for operators.
func TestEveryErrorIsInTheEnvelope(t *testing.T) {
	t.Parallel()
	server := systemtest.Shared(t).Server
	for _, c := range []struct {
		url, head string
		status    int
	}{
		{server.API, "GET /v1/%zz HTTP/1.1\r\nHost: m\r\n", 400},
		{server.API, "GET /v1/rights HTTP/1.1\r\nHost: m\r\nX Y: z\r\n", 400},
		{server.API, "GET http:///v1/rights HTTP/1.1\r\nHost: m\r\n", 400},
		{server.API, "OPTIONS * HTTP/1.1\r\nHost: m\r\n", 404},
		{server.API, "GET * HTTP/1.1\r\nHost: m\r\n", 404},
		{server.Admin, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n", 404},
		{server.Admin, "GET * HTTP/1.1\r\nHost: localhost\r\n", 404},
		{server.Admin, "GET /nothing HTTP/1.1\r\nHost: localhost\r\n", 404},
		{server.Admin, "DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n", 404},
		{server.Admin, "GET /debug/pprof/ HTTP/1.1\r\nHost: localhost\r\n", 401},
		{server.Admin, "GET /debug/tenants HTTP/1.1\r\nHost: localhost\r\n", 401},
		{server.Admin, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n", 403},
	} {
		a := sendRaw(t, c.url, c.head)
		require.Equal(t, c.status, a.Status, "%q: %s", c.head, a.Body)
		systemtest.RequireEnvelope(t, a)
	}
}

// TestAdminListeners: of each process profiles need a token, and a page of a foreign name
// gets nothing from one that listens on loopback, whatever the process waits for.
func TestAdminListeners(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("operators-token\n"), 0o600))
	server := systemtest.Shared(t).Server
	token, err := server.AdminToken()
	require.NoError(t, err)

	const nowhere, anywhere = "127.0.0.1:1", "127.0.0.1:0"
	start := func(args ...string) string { return systemtest.Launch(t, args...).Admin }
	for _, c := range []struct{ name, admin, token string }{
		{"up", server.Admin, token},
		{"gateway", start("gateway", "--kafka", nowhere, "--control", nowhere, "--nodes", "http://"+nowhere, "--invitation", "x", "--data", t.TempDir(),
			"--listen", anywhere, "--admin", anywhere, "--admin-token-file", file), "operators-token"},
		{"gateway without a token", start("gateway", "--kafka", nowhere, "--control", nowhere, "--nodes", "http://"+nowhere, "--invitation", "x", "--data", t.TempDir(),
			"--listen", anywhere, "--admin", anywhere), ""},
		{"pipeline", start("pipeline", "--kafka", nowhere, "--clickhouse", "clickhouse://u:p@"+nowhere+"/db", "--admin", anywhere, "--admin-token-file", file), "operators-token"},
		{"control, which waits for its database", start("control", "--kafka", nowhere, "--clickhouse", "clickhouse://u:p@"+nowhere+"/db",
			"--database", "postgres://u:p@"+nowhere+"/db", "--data", t.TempDir(), "--listen", anywhere, "--nodes", anywhere, "--admin", anywhere), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			get := func(path, host, headers string) systemtest.Response {
				return sendRaw(t, c.admin, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n"+headers)
			}
			_, port, err := net.SplitHostPort(systemtest.HostPort(c.admin))
			require.NoError(t, err)
			for _, host := range []string{systemtest.HostPort(c.admin), "localhost", "LOCALHOST:" + port, "127.9.9.9", "[::1]:" + port, "[::1]"} {
				require.Equal(t, 200, get("/livez", host, "").Status, host)
			}
			for _, host := range []string{"evil.example", "evil.example:" + port, "localhost.evil.example", "10.0.0.1", "[::2]", ""} {
				for _, path := range []string{"/livez", "/metrics", "/readyz", "/admin/tenants", "/debug/tenants", "/debug/pprof/"} {
					a := get(path, host, "Authorization: Bearer "+c.token+"\r\n")
					require.Equal(t, 403, a.Status, "%s of %q", path, host)
					systemtest.RequireEnvelope(t, a)
				}
			}
			require.Equal(t, 200, get("/metrics", "localhost", "").Status)
			for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap?gc=1", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
				for _, headers := range []string{"", "Authorization: Bearer \r\n", "Authorization: Bearer x\r\n", "Authorization: Basic " + c.token + "\r\n"} {
					a := get(path, "localhost", headers)
					require.Equal(t, 401, a.Status, "%s with %q", path, headers)
					systemtest.RequireEnvelope(t, a)
				}
				if c.token != "" {
					a := get(path, "localhost", "Authorization: Bearer "+c.token+"\r\n")
					require.Equal(t, 200, a.Status, path)
					require.False(t, strings.HasPrefix(a.Body, "{"), a.Body)
				}
			}
		})
	}
}
