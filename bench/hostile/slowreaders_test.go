package hostile

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// readSlowly requests the longest document of the service on n connections from an address of this machine, and reads nothing.
func readSlowly(t *testing.T, server *system.Server, from byte, key string, n int) {
	t.Helper()
	for range n {
		requestDocument(t, server, from, key, 16) // more than the system keeps for who does not read
	}
}

// isRefused says whether one more reader is.
func isRefused(t *testing.T, server *system.Server, from byte, key string) bool {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(requestDocument(t, server, from, key, 1)), nil)
	require.NoError(t, err)
	if resp.StatusCode == 429 {
		require.Contains(t, []string{"1", "2"}, resp.Header.Get("Retry-After"))
	}
	return resp.StatusCode == 429
}

func requestDocument(t *testing.T, server *system.Server, from byte, key string, times int) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}, Control: func(_, _ string, c syscall.RawConn) (err error) {
		fault := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1) })
		return errors.Join(fault, err)
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", systemtest.HostPort(server.API))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	head := "GET /openapi.json HTTP/1.1\r\nHost: m\r\n"
	if key != "" {
		head += "Authorization: Bearer " + key + "\r\n"
	}
	_, err = io.WriteString(conn, strings.Repeat(head+"\r\n", times))
	require.NoError(t, err)
	return conn
}

// TestSlowReaders: callers without a key take every place that is theirs, and then a tenant does, by responses that
// they don't read. They are refused more. Of all operations none is refused to another tenant, nor
// changes to the one whose reads are.
func TestSlowReaders(t *testing.T) {
	server := systemtest.NewService(t).Server
	greedy, other := systemtest.SettleIn(t, server), systemtest.SettleIn(t, server)
	operations := systemtest.Operations(t, server)
	const fresh = 99
	require.False(t, isRefused(t, server, fresh, ""))
	waittest.Until(t, func() bool { // who reads nothing at all is cut off after a while
		for from := range byte(12) {
			readSlowly(t, server, 2+from, "", 40)
		}
		return isRefused(t, server, fresh, "")
	})
	waittest.Until(t, func() bool {
		readSlowly(t, server, fresh, greedy.Client.Key, 80)
		return isRefused(t, server, fresh, greedy.Client.Key)
	})

	called := 0
	call := func(owner systemtest.Owner, o systemtest.Operation) {
		o = o.With(owner.IDs)
		r := systemtest.Call(t, server.API, owner.Client.Key, o)
		require.NotContains(t, []int{429, 500, 503}, r.Status, "%s %s: %s", o.Method, o.Path, r.Body)
		called++
	}
	for _, o := range operations {
		if o.Method == "GET" {
			call(other, o)
		}
	}
	for _, o := range operations {
		if o.Method != "GET" {
			call(other, o)
			call(greedy, o)
		}
	}
	require.Greater(t, called, 100)
}
