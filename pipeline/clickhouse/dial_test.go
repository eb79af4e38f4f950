package clickhouse

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
)

// TestReadyGivesUpOnAServerThatHangs: one that takes connections and says nothing, as a
// stopped process does, keeps a probe no longer than the probe has time, be it at TLS or
// at the protocol's greeting.
func TestReadyGivesUpOnAServerThatHangs(t *testing.T) {
	for _, url := range []string{"clickhouse://u:p@%s/db", "clickhouse://u:p@%s/db?secure=true", "http://u:p@%s/db", "https://u:p@%s/db"} {
		t.Run(url, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			taken := make(chan net.Conn, 100)
			var serving sync.WaitGroup
			serving.Go(func() {
				defer close(taken)
				for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
					taken <- c
				}
			})
			t.Cleanup(func() {
				require.NoError(t, ln.Close())
				serving.Wait()
				for c := range taken {
					c.Close()
				}
			})
			w, err := Open(t.Context(), Config{URL: fmt.Sprintf(url, ln.Addr()), Away: true})
			require.NoError(t, err)
			defer w.Close()

			// The driver's own limits must not be what ends it.
			w.opt.DialTimeout, w.opt.ReadTimeout, w.timeout = time.Hour, time.Hour, time.Hour
			require.NoError(t, w.probes.Close())
			w.probes, err = openProbes(w.opt)
			require.NoError(t, err)

			cancelled, stop := context.WithCancel(t.Context())
			hung := make(chan net.Conn, 1)
			go func() { hung <- <-taken; stop() }()
			require.ErrorIs(t, w.Ready(cancelled), context.Canceled)
			require.NoError(t, (<-hung).Close())

			deadline, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			require.Error(t, w.Ready(deadline))
		})
	}
}

// TestProbesShareAConnection: a probe every few seconds costs the server no connection
// each.
func TestProbesShareAConnection(t *testing.T) {
	cfg := replicas(t, fresh(t, stacktest.ClickHouse(t)))[0]
	u, err := url.Parse(cfg.URL)
	require.NoError(t, err)
	server := u.Host
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var connections atomic.Int32
	var relaying sync.WaitGroup
	relaying.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			connections.Add(1)
			engine, err := net.Dial("tcp", server)
			require.NoError(t, err)
			relaying.Go(func() { io.Copy(engine, c); engine.Close() })
			relaying.Go(func() { io.Copy(c, engine); c.Close() })
		}
	})
	t.Cleanup(func() { require.NoError(t, ln.Close()); relaying.Wait() })

	u.Host = ln.Addr().String()
	cfg.URL, cfg.Away = u.String(), true
	w, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	defer w.Close()
	const probes = 20
	for range probes {
		require.NoError(t, w.Ready(t.Context()))
	}
	// The driver gives a connection back a moment after its answer: the next call may
	// find none.
	require.Less(t, connections.Load(), int32(probes))
}
