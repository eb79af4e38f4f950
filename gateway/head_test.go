package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnswersWithoutBody requests responses that have no body, each followed by another request
// on the same connection: what comes next must begin where they end.
func TestAnswersWithoutBody(t *testing.T) { everyTransport(t, answersWithoutBody) }

func answersWithoutBody(t *testing.T, transport func(*settings)) {
	long := strings.Repeat("x", heldAnswer+1)
	serve := withControl(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/streamed":
			for range 4 {
				_, _ = io.WriteString(rw, long)
				rw.(http.Flusher).Flush()
			}
		case "/events":
			rw.Header().Set("Content-Type", "text/event-stream")
			rw.(http.Flusher).Flush()
			if r.Method != http.MethodHead {
				<-r.Context().Done()
			}
		case "/long":
			rw.Header().Set("Content-Length", fmt.Sprint(len(long)))
			_, _ = io.WriteString(rw, long)
		case "/short":
			_, _ = io.WriteString(rw, "short")
		case "/empty":
			rw.WriteHeader(http.StatusNoContent)
		case "/same":
			rw.Header().Set("ETag", `"e"`)
			rw.WriteHeader(http.StatusNotModified)
		}
	})
	// One stream at a time: an answer without a body must not hold it.
	w := newWorld(t, func(c *settings) { transport(c); serve(c); c.MaxStreams = 1 })
	for _, c := range []struct {
		method, path string
		status       int
		length       string
	}{
		{"HEAD", "/streamed", 200, ""},
		{"HEAD", "/events", 200, ""},
		{"HEAD", "/long", 200, fmt.Sprint(len(long))},
		{"HEAD", "/short", 200, "5"},
		{"HEAD", "/v1", 200, "any"},
		{"HEAD", "/v1/healthz", 200, "any"},
		{"HEAD", "/v1/delivery", 405, "any"},
		{"HEAD", "/v1/%zz", 400, "any"},
		{"GET", "/empty", 204, ""},
		{"HEAD", "/empty", 204, ""},
		{"GET", "/same", 304, ""},
		{"HEAD", "/same", 304, ""},
	} {
		t.Run(c.method+c.path, func(t *testing.T) {
			w.t = t
			conn := w.dial()
			defer conn.Close()
			_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: m\r\n\r\nGET /short HTTP/1.1\r\nHost: m\r\n\r\n", c.method, c.path)
			require.NoError(t, err)
			in := bufio.NewReader(conn)
			first, err := http.ReadResponse(in, &http.Request{Method: c.method})
			require.NoError(t, err)
			body, err := io.ReadAll(first.Body)
			require.NoError(t, err)
			require.Empty(t, body)
			require.Equal(t, c.status, first.StatusCode)
			if c.length == "any" {
				require.NotEmpty(t, first.Header.Get("Content-Length"))
			} else {
				require.Equal(t, c.length, first.Header.Get("Content-Length"))
			}
			next, err := in.Peek(4)
			require.NoError(t, err)
			require.Equal(t, "HTTP", string(next), "something stands between two answers")
			r := readReply(t, in)
			require.Equal(t, 200, r.status)
			require.Equal(t, "short", r.body)
		})
	}
}
