package gateway

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMalformedRequests sends what this server can read and control's would refuse before
// a handler is reached: each is the caller's fault, answered here, and no outage.
func TestMalformedRequests(t *testing.T) {
	var logged syncBuffer
	var seen atomic.Int32
	serve := withControl(t, func(http.ResponseWriter, *http.Request) { seen.Add(1) })
	w := newWorld(t, func(c *settings) {
		serve(c)
		c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	})
	const host = "Host: m\r\n"
	for _, c := range []struct{ name, text, message string }{
		{"no host in the URI", "GET http:///x HTTP/1.1\r\n" + host, "Host"},
		{"no host in the URI of a POST", "POST https:///x HTTP/1.1\r\n" + host + "Content-Length: 0\r\n", "Host"},
		{"no host at all", "GET /x HTTP/1.0\r\n", "Host"},
		{"a quote in the host", "GET /x HTTP/1.1\r\nHost: a\"b\r\n", "Host"},
		{"a host that is not ASCII", "GET /x HTTP/1.1\r\nHost: \xc3\xa9\r\n", "Host"},
		{"a host with an escape", "GET /x HTTP/1.1\r\nHost: a%C3%A9\r\n", "Host"},
		{"a host in the URI with an escape", "GET http://a%C3%A9/x HTTP/1.1\r\n" + host, "Host"},
		{"a bad escape", "GET /v1/%zz HTTP/1.1\r\n" + host, "path"},
		{"half an escape", "GET /v1/%4 HTTP/1.1\r\n" + host, "path"},
		{"a bad escape in an absolute URI", "GET http://m/v1/%zz?x=1 HTTP/1.1\r\n" + host, "path"},
		{"no path but an authority", "CONNECT m:443 HTTP/1.1\r\n" + host, "path"},
		{"a space in a header's name", "GET /x HTTP/1.1\r\n" + host + "X Y: z\r\n", "header"},
		{"a space in a header's name, to a route of this server", "GET /v1 HTTP/1.1\r\n" + host + "X Y: z\r\n", "header"},
		{"a space in a header's name, of a delivery", strings.TrimSuffix(request(w.token, "", "X Y: z"), "\r\n"), "header"},
		{"a bad method", "G(T /x HTTP/1.1\r\n" + host, "well-formed"},
		{"a control character in the URI", "GET /x\x7f HTTP/1.1\r\n" + host, "well-formed"},
		{"a bad host in the URI", "GET http://[m/x HTTP/1.1\r\n" + host, "well-formed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			r := w.raw(c.text + "\r\n")
			require.Equal(t, http.StatusBadRequest, r.status, r.body)
			requireEnvelope(t, r)
			require.Contains(t, r.body, `"error":"BAD_REQUEST"`)
			require.Contains(t, r.body, c.message)
		})
	}
	w.t = t
	require.Zero(t, seen.Load(), "control saw a malformed request")
	require.Equal(t, 200, w.raw("GET /x HTTP/1.1\r\n"+host+"\r\n").status)
	require.NotContains(t, logged.String(), "level=ERROR")
	require.NotContains(t, logged.String(), reachControl)
}

// TestForwardedTargetIsNotReadAnew: a path may look like an authority to a server that parses it
// a second time.
func TestForwardedTargetIsNotReadAnew(t *testing.T) {
	var target, host string
	w := newWorld(t, withControl(t, func(_ http.ResponseWriter, r *http.Request) { target, host = r.RequestURI, r.Host }))
	require.Equal(t, 200, w.raw("GET http://m//[x/y?u=a://b HTTP/1.1\r\nHost: n\r\n\r\n").status)
	require.Equal(t, "//[x/y?u=a://b", target)
	require.Equal(t, "m", host)
}

// TestUnreadableAnswerIsNoOutage: control answered, so it is there.
func TestUnreadableAnswerIsNoOutage(t *testing.T) {
	var logged syncBuffer
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX: %s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("x", 64<<10))
			}
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	w := newWorld(t, func(c *settings) {
		c.DialControl = []func() (net.Conn, error){func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }}
		c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	})
	r := w.raw("POST /x HTTP/1.1\r\nHost: m\r\nContent-Length: 0\r\n\r\n")
	require.Equal(t, http.StatusInternalServerError, r.status, r.body)
	requireEnvelope(t, r)
	require.NotContains(t, logged.String(), reachControl)
	require.Contains(t, logged.String(), "cannot answer a request")
}
