package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
)

// TestHalfBodiesOfStrangers: without a valid key no body, on whatever path and in whatever framing, takes more memory than strangers
// have together and one address has of it; short bodies and callers with a key are served all the while.
func TestHalfBodiesOfStrangers(t *testing.T) {
	reach := withControl(t, func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "{}") })
	w := newWorld(t, func(c *settings) {
		reach(c)
		c.BusyPause, c.ReadTimeout = time.Millisecond, time.Minute
	})
	share := mostStrangeBytes / 8
	half := func(path, framing, key string) (in *bufio.Reader) {
		c := w.dial()
		t.Cleanup(func() { c.Close() })
		if key != "" {
			key = "Authorization: Bearer " + key + "\r\n"
		}
		body := strings.Repeat("x", maxBody-1)
		if framing == "" {
			framing = fmt.Sprintf("Content-Length: %d", maxBody)
		} else {
			body = fmt.Sprintf("%x\r\n", maxBody) + body
		}
		_, err := io.WriteString(c, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: node\r\n%s%s\r\n\r\n", path, key, framing)+body)
		require.NoError(t, err)
		return bufio.NewReader(c)
	}
	for range share / maxBody {
		half("/v1/rights", "", "")
	}
	waittest.Until(t, func() bool { return w.gateway.strangeBytes.inUse() >= share-bodyStep })
	unknown := mended(w.token[:len(w.token)-20] + strings.Repeat("a", 11) + "_00000000")
	for _, path := range []string{"/v1/rights", "/"} { // each path of the document: bench/hostile
		for _, framing := range []string{"", "Transfer-Encoding: chunked"} {
			for _, key := range []string{"", unknown} {
				got := readReply(t, half(path, framing, key))
				require.Equal(t, 429, got.status, path+" "+got.body)
				require.NotEmpty(t, got.header.Get("Retry-After"), path)
			}
		}
	}
	require.LessOrEqual(t, w.gateway.strangeBytes.inUse(), share)
	for r := range routes { // each other route has a bound of its own
		if path := map[route]string{toDelivery: pathDelivery, toBatch: pathBatch, toPlayer: pathPlayer}[r]; path != "" && r != toPlayer {
			c := w.dial()
			defer c.Close()
			_, err := io.WriteString(c, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: node\r\nContent-Length: %d\r\n\r\n%s", path, r.bodyLimit(), strings.Repeat("x", 2*bodyStep)))
			require.NoError(t, err)
			require.Equal(t, 401, readReply(t, bufio.NewReader(c)).status, path)
		}
	}
	short := strings.Repeat("x", bodyStep)
	require.Equal(t, 200, w.raw(fmt.Sprintf("POST /console/sign-in HTTP/1.1\r\nHost: node\r\nContent-Length: %d\r\n\r\n%s", len(short), short)).status)
	require.Equal(t, 200, w.raw(fmt.Sprintf("POST /v1/rights HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", w.token, maxBody, strings.Repeat("x", maxBody))).status)
}
