package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/netutil"
)

// TestDoorHasRoomForSoMany: one connection more waits until another has gone.
func TestDoorHasRoomForSoMany(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
	go func() { served <- serve(ctx, netutil.LimitListener(ln, 2), answer) }()
	connect := func() net.Conn {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: door\r\n\r\n")
		require.NoError(t, err)
		return c
	}
	answered := func(c net.Conn, within time.Duration) error {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
		_, err := c.Read(make([]byte, 1))
		return err
	}
	first, second := connect(), connect()
	require.NoError(t, answered(first, time.Minute))
	require.NoError(t, answered(second, time.Minute))
	third := connect()
	require.Error(t, answered(third, 100*time.Millisecond))
	require.NoError(t, first.Close())
	require.NoError(t, answered(third, time.Minute))
	require.NoError(t, second.Close())
	require.NoError(t, third.Close())
	stop()
	require.NoError(t, <-served)
}
