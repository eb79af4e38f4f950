package abuse

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/load"
)

// speaker is a server on a port of its own that treats each connection in the same way.
func speaker(t *testing.T, treat func(conn net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns sync.WaitGroup
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		conns.Wait()
	})
	conns.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				treat(conn)
			})
		}
	})
	return ln.Addr().String()
}

// answering treats a connection to an answer for each request.
func answering(status func(n int) int) func(net.Conn) {
	return func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for n := 0; ; n++ {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if _, err := fmt.Fprintf(conn, "HTTP/1.1 %d x\r\nContent-Length: 2\r\n\r\n{}", status(n)); err != nil {
				return
			}
		}
	}
}

// abuseFor runs an abuse until enough says so, and returns what came of it.
func abuseFor(t *testing.T, a Abuse, enough func()) Counts {
	t.Helper()
	orders, err := json.Marshal(a)
	require.NoError(t, err)
	in, give := io.Pipe()
	reader, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), in, out); out.Close() }()
	_, err = give.Write(orders)
	require.NoError(t, err)
	said := bufio.NewReader(reader)
	ready, err := said.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", ready)
	enough()
	require.NoError(t, give.Close())
	var got Counts
	require.NoError(t, json.NewDecoder(said).Decode(&got))
	_, err = io.Copy(io.Discard, said)
	require.NoError(t, err)
	require.NoError(t, <-ended)
	return got
}

func TestDrips(t *testing.T) {
	t.Run("against a server that never closes", func(t *testing.T) {
		dripped := make(chan struct{})
		addr := speaker(t, func(conn net.Conn) {
			_, err := io.ReadFull(conn, make([]byte, len("Gxx")))
			if err == nil {
				close(dripped)
			}
			_, _ = io.Copy(io.Discard, conn)
		})
		got := abuseFor(t, Abuse{Kind: Drips, Addr: addr, Connections: 1}, func() { <-dripped })
		require.Zero(t, got.Closed)
		require.Greater(t, got.Longest, 2*time.Second, "two drips, a second apart")
	})
	t.Run("against a server that closes", func(t *testing.T) {
		came := make(chan struct{}, 100_000)
		addr := speaker(t, func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 1))
			came <- struct{}{}
		})
		got := abuseFor(t, Abuse{Kind: Drips, Addr: addr, Connections: 1}, func() { <-came; <-came; <-came })
		require.GreaterOrEqual(t, got.Closed, 2)
	})
}

func TestBombs(t *testing.T) {
	for status, want := range map[int]Counts{431: {Refused: 50}, 400: {Refused: 50}, 200: {Other: 50}, 503: {Other: 50}} {
		addr := speaker(t, answering(func(int) int { return status }))
		got := abuseFor(t, Abuse{Kind: Bombs, Addr: addr, Connections: 50, During: 10 * time.Millisecond}, func() {})
		require.Equal(t, want, got, "%d", status)
	}
}

func TestCrowd(t *testing.T) {
	const each = 30
	var answered sync.WaitGroup
	answered.Add(2 * each)
	addr := speaker(t, answering(func(n int) int {
		if n < each {
			answered.Done()
		}
		return []int{200, 429, 503}[n%3]
	}))
	got := abuseFor(t, Abuse{Kind: Crowd, Addr: addr, Connections: 2, Requests: load.Requests("key", [][]byte{[]byte("{}")})}, answered.Wait)
	for _, n := range []int{got.OK, got.Refused, got.Other} {
		require.GreaterOrEqual(t, n, 2*each/3-2)
	}
}
