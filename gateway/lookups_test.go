package gateway

import (
	"bufio"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
)

// TestUnknownKeysKeepNobodyWaiting: while control hangs, requests with keys that are made up take their part of the requests in hand and no
// more; deliveries with keys that the node knows go on, and a key that was made a moment ago works once control answers.
func TestUnknownKeysKeepNobodyWaiting(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.MaxInFlight, c.BusyPause, c.Issue.Timeout = 16, time.Millisecond, time.Minute })
	w.warm()
	release := w.control.Halt()
	foreign := issuetest.NewControl()
	send := func(n int) *bufio.Reader {
		c := w.dial()
		t.Cleanup(func() { c.Close() })
		_, err := io.WriteString(c, request(foreign.PutKey(t, byte(100+n), "tnt_a", api.EveryScope, false), w.body()))
		require.NoError(t, err)
		return bufio.NewReader(c)
	}
	var waiting []*bufio.Reader
	for n := range 2 { // an eighth of 16, of one address
		waiting = append(waiting, send(n))
	}
	waittest.Until(t, func() bool { return w.gateway.lookups.inUse() == 2 })
	for n := range 32 {
		got := readReply(t, send(2+n))
		require.Equal(t, 429, got.status, got.body)
		require.NotEmpty(t, got.header.Get("Retry-After"))
	}
	got := w.raw(fmt.Sprintf("GET /v1/rights HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer %s\r\n\r\n", foreign.PutKey(t, 99, "tnt_a", api.EveryScope, false)))
	require.Equal(t, 429, got.status, "nor is it for control to look up")
	for range 32 {
		require.Equal(t, 200, w.post(w.body()).status)
	}
	release()
	for _, r := range waiting {
		require.Equal(t, 401, readReply(t, r).status)
	}
	made := w.control.PutKey(t, 98, "tnt_a", api.EveryScope, false)
	require.Equal(t, 200, w.raw(request(made, w.body())).status)
}
