//go:build httpclients

package service

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// TestHTTPClients has strangers' clients of HTTP deliver, each in its default way and in chunks, straight
// and through proxies: every one is answered 200. In the short form, which CI runs, there are no
// proxies, and no Spring.
func TestHTTPClients(t *testing.T) {
	s := systemtest.NewService(t)
	body := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"screen-0042","dwellMs":8200,"telemetry":{"viewable":true}}`, s.Rights["DOOH"])
	direct := systemtest.HostPort(s.Client.API)
	fronts := map[string]string{"straight": direct}
	if systemtest.Long {
		maps.Copy(fronts, proxies(t, t.TempDir(), direct))
	}
	for name, front := range fronts {
		t.Run(name, func(t *testing.T) {
			if strings.HasSuffix(name, "HTTP/2") {
				curl(t, front, s.Client.Key, body, "--http2-prior-knowledge")
				return
			}
			strangers(t, front, s.Client.Key, body)
		})
	}
	if systemtest.Long {
		firstDelivery(t, "java", "FirstDelivery.java", "java", "-cp", os.Getenv("MUNIMENT_TEST_SPRING"))
		firstDelivery(t, "csharp", "FirstDelivery.cs", "sh", "-ec", `mcs -r:System.Net.Http "$0" && mono "${0%.cs}.exe"`)
	}
}

// strangers runs every client.
func strangers(t *testing.T, front, key, body string) {
	curl(t, front, key, body)
	byGo(t, front, key, body)
	const programs = "bench/service/testdata/httpclients/"
	deliver := "http://" + front + "/v1/delivery"
	for what, command := range map[string][]string{
		"Python": {os.Getenv("MUNIMENT_TEST_PYTHON"), programs + "client.py", deliver, key, body},
		"Node":   {"node", programs + "client.mjs", deliver, key, body},
		"Java":   {"java", programs + "Client.java", deliver, key, body},
	} {
		all200(t, what, exec.CommandContext(t.Context(), command[0], command[1:]...))
	}
	if systemtest.Long {
		spring := exec.CommandContext(t.Context(), "java", "-cp", os.Getenv("MUNIMENT_TEST_SPRING"), "Spring", deliver, key, body)
		all200(t, "Spring", spring)
	}
}

// all200 runs a command that prints lines of a name and a status.
func all200(t *testing.T, what string, cmd *exec.Cmd) {
	t.Helper()
	var faults bytes.Buffer
	cmd.Stderr = &faults
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s%s", what, out, &faults)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Greater(t, len(lines), 2, what)
	for _, line := range lines {
		require.True(t, strings.HasSuffix(line, " 200"), "%s: %s", what, line)
	}
	t.Logf("%s: %d ways", what, len(lines))
}

func curl(t *testing.T, front, key, body string, options ...string) {
	for name, way := range map[string][]string{
		"data":    {"--json", body},
		"chunked": {"--json", body, "-H", "Transfer-Encoding: chunked"},
		"upload":  {"-X", "POST", "-H", "Content-Type: application/json", "-T", "-"},
		"expect":  {"--json", body, "-H", "Expect: 100-Continue"},
	} {
		if len(options) > 0 && name == "chunked" {
			continue // HTTP/2 has no codings
		}
		args := append(append([]string{"-s", "-o", os.DevNull, "-w", "%{http_code}", "-H", "Authorization: Bearer " + key, "http://" + front + "/v1/delivery"}, options...), way...)
		cmd := exec.CommandContext(t.Context(), "curl", args...)
		cmd.Stdin = strings.NewReader(body)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "curl %s: %s", name, out)
		require.Equal(t, "200", string(out), "curl %s", name)
	}
}

func byGo(t *testing.T, front, key, body string) {
	for name, sent := range map[string]func() io.Reader{
		"text": func() io.Reader { return strings.NewReader(body) },
		"pipe": func() io.Reader {
			r, w := io.Pipe()
			go func() { _, err := io.WriteString(w, body); w.CloseWithError(err) }()
			return r
		},
	} {
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+front+"/v1/delivery", sent())
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+key)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err, name)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, errors.Join(err, resp.Body.Close()), name)
			require.Equal(t, 200, resp.StatusCode, "Go, %s", name)
		}
	}
}

// proxies starts nginx and HAProxy before the service, in their default ways and with bodies as they
// come, and returns their addresses. The folder gets HAProxy's socket.
func proxies(t *testing.T, dir, service string) map[string]string {
	fronts := map[string]string{}
	listen := func(name string) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		fronts[name] = ln.Addr().String()
		return fronts[name]
	}
	nginx := fmt.Sprintf(`daemon off; pid %[1]s/nginx.pid; error_log %[1]s/nginx.log; events {}
http {
	access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server { listen %[3]s; location / { proxy_pass http://%[2]s; } }
	server { listen %[4]s; location / { proxy_pass http://%[2]s; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off; } }
	server { listen %[5]s http2; location / { proxy_pass http://%[2]s; proxy_http_version 1.1; proxy_request_buffering off; } }
}`, dir, service, listen("nginx"), listen("nginx unbuffered"), listen("nginx HTTP/2"))
	haproxy := fmt.Sprintf(`global
	stats socket %s
defaults
	mode http
	timeout connect 10s
	timeout client 1m
	timeout server 1m
frontend one
	bind %s
	default_backend service
frontend two
	bind %s proto h2
	default_backend service
backend service
	http-reuse always
	server service %s
`, dir+"/haproxy", listen("HAProxy"), listen("HAProxy HTTP/2"), service)
	for file, text := range map[string]string{"nginx.conf": nginx, "haproxy.cfg": haproxy} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	for _, command := range [][]string{{"nginx", "-c", dir + "/nginx.conf"}, {"haproxy", "-f", dir + "/haproxy.cfg"}} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		require.NoError(t, cmd.Start(), "make test-http-clients needs it")
		t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	}
	for name, front := range fronts {
		waittest.Until(t, func() bool {
			c, err := net.Dial("tcp", front)
			return err == nil && c.Close() == nil
		}, "%s listens", name)
	}
	return fronts
}

// TestSmugglingBehindHAProxy sends what parsers disagree about through HAProxy, with another request
// hidden in it: the gateway never answers more requests than HAProxy has forwarded, and who shares the
// connection gets the answer to an own request.
func TestSmugglingBehindHAProxy(t *testing.T) {
	if !systemtest.Long {
		t.Skip("the long form has HAProxy")
	}
	s := systemtest.NewService(t)
	dir := t.TempDir()
	front := proxies(t, dir, systemtest.HostPort(s.Client.API))["HAProxy"]
	delivery := func(correlation string) string {
		return fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"correlationId":%q}`, s.Rights["DOOH"], correlation)
	}
	head := "POST /v1/delivery HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer " + s.Client.Key + "\r\nContent-Type: application/json\r\n"
	inner := delivery("hidden")
	hidden := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(inner), inner)
	outer := delivery("outer")
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(outer), outer)
	coded := head + "Transfer-Encoding: chunked\r\n\r\n"
	ended := chunk + "0\r\n\r\n"
	cases := map[string]string{
		"length, and a coding":         head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"coding, and a length":         head + fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n", 5+len(hidden)) + "0\r\n\r\n" + hidden,
		"two lengths":                  head + fmt.Sprintf("Content-Length: 2\r\nContent-Length: %d\r\n\r\n{}", 2+len(hidden)) + hidden,
		"unknown coding":               head + "Transfer-Encoding: xchunked\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"coding twice":                 head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + ended + hidden,
		"coding with a tab":            head + "Transfer-Encoding:\tchunked\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"coding with a vertical tab":   head + "Transfer-Encoding: \x0bchunked\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"coding with space before":     head + "Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"folded coding":                head + "Transfer-Encoding:\r\n chunked\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"length with a sign":           head + "Content-Length: +2\r\n\r\n{}" + hidden,
		"length in hexadecimal":        head + "Content-Length: 0x2\r\n\r\n{}" + hidden,
		"length with space":            head + "Content-Length: 2 2\r\n\r\n{}" + hidden,
		"size that overflows":          coded + "10000000000000002\r\n{}\r\n0\r\n\r\n" + hidden,
		"size that overflows 32 bits":  coded + "100000002\r\n{}\r\n0\r\n\r\n" + hidden,
		"negative size":                coded + "-2\r\n{}\r\n0\r\n\r\n" + hidden,
		"extension":                    coded + "2;a=b\r\n{}\r\n0\r\n\r\n" + hidden,
		"extension with LF":            coded + "2;a\nxx\r\n{}\r\n0\r\n\r\n" + hidden,
		"extension with a request":     coded + fmt.Sprintf("%x;\n%s\r\n0\r\n\r\n", len(outer), outer) + hidden,
		"LF behind the size":           coded + "2\n{}\r\n0\r\n\r\n" + hidden,
		"LF behind the data":           coded + "2\r\n{}\n0\r\n\r\n" + hidden,
		"CR behind the size":           coded + "2\r{}\r\n0\r\n\r\n" + hidden,
		"space before the size":        coded + " 2\r\n{}\r\n0\r\n\r\n" + hidden,
		"space behind the size":        coded + "2 \r\n{}\r\n0\r\n\r\n" + hidden,
		"0x":                           coded + "0x2\r\n{}\r\n0\r\n\r\n" + hidden,
		"underscore":                   coded + "0_2\r\n{}\r\n0\r\n\r\n" + hidden,
		"leading zeros without end":    coded + strings.Repeat("0", 20_000) + "2\r\n{}\r\n0\r\n\r\n" + hidden,
		"LF for the end":               coded + chunk + "0\n\n" + hidden,
		"no end":                       coded + chunk + "0\r\n" + hidden,
		"trailer with a length":        coded + chunk + fmt.Sprintf("0\r\nContent-Length: %d\r\n\r\n", len(hidden)) + hidden,
		"trailer with a coding":        coded + chunk + "0\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden,
		"GET with a body":              "GET /v1/healthz HTTP/1.1\r\nHost: m\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
		"GET with a coding":            "GET /v1/healthz HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n" + hidden,
		"HTTP/1.0 with a coding":       strings.Replace(coded, "HTTP/1.1", "HTTP/1.0", 1) + "0\r\n\r\n" + hidden,
		"refused length":               "POST /beacon/../v1/rights HTTP/1.1\r\nHost: m\r\nContent-Length: 2000000\r\n\r\n" + hidden,
		"line that ends in LF":         strings.Replace(head, "\r\n", "\n", 1) + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + ended + hidden,
		"NUL in a name":                head + "Transfer-Encoding\x00: chunked\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"upgrade":                      head + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"connection names the length":  head + "Connection: Content-Length\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"connection names the coding":  head + "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n" + ended + hidden,
		"expect and never a 100 asked": head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}" + hidden,
	}
	answered := func() float64 {
		n, err := systemtest.Metric(s.Server, "muniment_gateway_requests_total")
		require.NoError(t, err)
		return n
	}
	// Both count a little after an answer is sent.
	before, forwarded := answered(), forwardedBy(t, dir+"/haproxy")
	for name, text := range cases {
		exchange(t, front, text)
		for n := range 4 {
			id := fmt.Sprintf("honest-%d", n)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+front+"/v1/rights/"+s.Rights["DOOH"], nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+s.Client.Key)
			req.Header.Set("X-Request-Id", id)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err, name)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, errors.Join(err, resp.Body.Close()), name)
			require.Equal(t, 200, resp.StatusCode, "%s: %s", name, text)
			require.Equal(t, id, resp.Header.Get("X-Request-Id"), name)
			require.Contains(t, string(text), s.Rights["DOOH"], name)
		}
		waittest.Until(t, func() bool {
			n := answered() - before
			return n <= forwardedBy(t, dir+"/haproxy")-forwarded
		}, "%s: the gateway has found a request that HAProxy has not sent", name)
	}
	t.Logf("%d cases, %.0f requests forwarded, %.0f answered", len(cases), forwardedBy(t, dir+"/haproxy")-forwarded, answered()-before)
}

// exchange sends bytes, and reads until the other side closes.
func exchange(t *testing.T, front, text string) {
	c, err := net.Dial("tcp", front)
	require.NoError(t, err)
	defer c.Close()
	_, _ = io.WriteString(c, text) // it may be refused before its end
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, c)
}

// forwardedBy is how many requests HAProxy has sent to the service.
func forwardedBy(t *testing.T, socket string) float64 {
	c, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "show stat\n")
	require.NoError(t, err)
	rows, err := csv.NewReader(c).ReadAll()
	require.NoError(t, err)
	column := slices.Index(rows[0], "req_tot")
	for _, row := range rows {
		if row[0] == "service" && row[1] == "BACKEND" {
			n, err := strconv.ParseFloat(row[column], 64)
			require.NoError(t, err)
			return n
		}
	}
	require.Fail(t, "HAProxy counts nothing")
	return 0
}
