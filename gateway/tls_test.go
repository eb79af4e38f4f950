package gateway

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
)

// TestQuietConnectionsEndWithTheGrace holds connections that have said nothing, or
// are between two requests: they must not hold the drain up, and end cleanly.
func TestQuietConnectionsEndWithTheGrace(t *testing.T) { everyTransport(t, quietConnections) }

func quietConnections(t *testing.T, transport func(*settings)) {
	w := newWorld(t, func(c *settings) { transport(c); c.DrainTimeout = time.Hour })
	silent, idle := w.dial(), w.dial()
	_, err := io.WriteString(idle, request(w.token, w.body()))
	require.NoError(t, err)
	r := bufio.NewReader(idle)
	require.Equal(t, 200, readReply(t, r).status)
	waittest.Until(t, func() bool {
		all := w.gateway.listener.all()
		return len(all) == 2 && !slices.ContainsFunc(all, func(c *conn) bool { return c.greeting.Load() })
	})
	w.stop()
	for _, c := range []io.Reader{silent, r} {
		_, err = io.ReadAll(c)
		require.NoError(t, err, "neither a reset nor an end that TLS didn't announce")
	}
	silent.Close()
	idle.Close()
	require.NoError(t, w.end())
}

// unhurriedAfter is a listener whose connections after the first ones have all the time.
type unhurriedAfter struct {
	net.Listener
	first int
}

func (l *unhurriedAfter) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if l.first--; err != nil || l.first >= 0 {
		return c, err
	}
	return unhurriedConn{c}, nil
}

type unhurriedConn struct{ net.Conn }

func (unhurriedConn) SetReadDeadline(time.Time) error { return nil }

// TestHalfOpenHandshakes leaves many handshakes where they are. Good requests are
// served meanwhile, all of them end with the read timeout, and none is logged.
func TestHalfOpenHandshakes(t *testing.T) {
	const crowd = 500
	var out syncBuffer
	w := newStill(t)
	w.front = func(ln net.Listener) net.Listener { return &unhurriedAfter{ln, crowd} }
	w.start(func(c *settings) {
		overTLS(t)(c)
		c.ReadTimeout = 300 * time.Millisecond
		c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	before := out.String()
	failed := testutil.ToFloat64(w.gateway.metrics.handshakeErrors)
	var halfOpen []net.Conn
	for range crowd {
		c, err := net.Dial("tcp", w.addr)
		require.NoError(t, err)
		halfOpen = append(halfOpen, c)
		_, _ = c.Write([]byte{22, 3, 1, 2, 0, 1}) // the beginning of a ClientHello, if it is not too late for that
	}
	require.Equal(t, 200, w.post(w.body()).status)
	waittest.Until(t, func() bool { return testutil.ToFloat64(w.gateway.metrics.handshakeErrors)-failed == crowd })
	for _, c := range halfOpen {
		require.NoError(t, c.Close())
	}
	waittest.Until(t, func() bool { return w.gateway.listener.open() == 0 })
	said := out.String()[len(before):]
	require.Equal(t, 1, strings.Count(said, "\n"), said)
	require.Contains(t, said, "status=200", "the good one's")
	require.Equal(t, 1, testutil.CollectAndCount(w.gateway.metrics.requests), "only the good client was answered")
}

// TestHalfOpenHandshakesDoNotHoldTheDrainUp as they are no requests.
func TestHalfOpenHandshakesDoNotHoldTheDrainUp(t *testing.T) {
	w := newWorld(t, func(c *settings) { overTLS(t)(c); c.ReadTimeout, c.DrainTimeout = time.Hour, time.Hour })
	c, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	_, err = c.Write([]byte{22, 3, 1, 2, 0, 1})
	require.NoError(t, err)
	waittest.Until(t, func() bool { return w.gateway.listener.open() == 1 })
	w.stop()
	_, _ = io.Copy(io.Discard, c) // until it is given up
	require.NoError(t, c.Close())
	require.NoError(t, w.end())
}

// withheld keeps the last bytes of what is written back until it is let go.
type withheld struct {
	net.Conn
	back int
	kept []byte
}

func (c *withheld) Write(b []byte) (int, error) {
	c.kept = bytes.Clone(b[len(b)-c.back:])
	_, err := c.Conn.Write(b[:len(b)-c.back])
	return len(b), err
}

// TestPartOfARecordIsARequestUnderWay: nothing can be read of the request yet, and
// still the drain waits for the rest of it.
func TestPartOfARecordIsARequestUnderWay(t *testing.T) {
	w := newWorld(t, overTLS(t))
	below, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer below.Close()
	holding := &withheld{Conn: below}
	c, err := w.greet(holding)
	require.NoError(t, err)
	_, err = io.WriteString(c, request(w.token, w.body()))
	require.NoError(t, err)
	r := bufio.NewReader(c)
	require.Equal(t, 200, readReply(t, r).status)
	underWay := func() bool { return w.gateway.listener.all()[0].quietSince.Load() == 0 }
	waittest.Until(t, func() bool { return !underWay() })
	holding.back = 10
	_, err = io.WriteString(c, request(w.token, w.body()))
	require.NoError(t, err)
	waittest.Until(t, underWay)
	w.stop()
	waittest.Until(t, func() bool { return w.gateway.phase.Load() == refusing })
	_, err = below.Write(holding.kept)
	require.NoError(t, err)
	require.Equal(t, 503, readReply(t, r).status)
}

func TestPlainHTTPOnTheTLSPort(t *testing.T) {
	w := newWorld(t, overTLS(t))
	c, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, request(w.token, strings.Repeat(" ", 200_000))) // a reset would destroy the answer
	require.NoError(t, err)
	r := bufio.NewReader(c)
	got := readReply(t, r)
	require.Equal(t, 400, got.status)
	require.True(t, got.closes)
	require.Contains(t, got.body, "this port speaks TLS: use https")
	requireEnvelope(t, got)
	_, err = r.ReadByte()
	require.Equal(t, io.EOF, err)

	c, err = net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "\x00\x01\x02\x03\x04\x05")
	require.NoError(t, err)
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Empty(t, text, "a client that speaks neither gets no response")
	require.Empty(t, w.log.All())
}

// TestProbesAreNoFailures: balancers connect and go away.
func TestProbesAreNoFailures(t *testing.T) {
	w := newWorld(t, overTLS(t))
	for range 10 {
		c, err := net.Dial("tcp", w.addr)
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	require.Equal(t, 200, w.post(w.body()).status)
	waittest.Until(t, func() bool { return w.gateway.listener.open() == 0 })
	require.Zero(t, testutil.ToFloat64(w.gateway.metrics.handshakeErrors))
}

// TestPipelinedRequestsOverTLS sends requests that share a record, and a raw read
// with the end of the handshake.
func TestPipelinedRequestsOverTLS(t *testing.T) {
	w := newWorld(t, overTLS(t))
	c := w.dial()
	defer c.Close()
	text := request(w.token, w.body())
	_, err := io.WriteString(c, text+text+text)
	require.NoError(t, err)
	r := bufio.NewReader(c)
	for range 3 {
		require.Equal(t, 200, readReply(t, r).status)
	}
}
