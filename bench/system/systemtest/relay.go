package systemtest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Relay stands in front of an engine and passes connections on to it, each in a way
// that pass decides. Both ends are closed when pass returns.
type Relay struct {
	listener net.Listener
	running  sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool // nil once it has ended
}

func StartRelay(t *testing.T, engine string, pass func(client, server net.Conn)) *Relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &Relay{listener: ln, open: map[net.Conn]bool{}}
	r.running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() {
				defer client.Close()
				server, err := net.Dial("tcp", engine)
				if err != nil {
					return
				}
				defer server.Close()
				if r.keep(client, server) {
					pass(client, server)
				}
			})
		}
	})
	t.Cleanup(r.end)
	return r
}

func (r *Relay) Addr() string { return r.listener.Addr().String() }

func (r *Relay) keep(ends ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range ends {
		if r.open == nil {
			return false
		}
		r.open[c] = true
	}
	return true
}

func (r *Relay) end() {
	_ = r.listener.Close()
	r.mu.Lock()
	for c := range r.open {
		_ = c.Close()
	}
	r.open = nil
	r.mu.Unlock()
	r.running.Wait()
}

// BothWays runs a connection's two directions; when one ends, so does the other.
func BothWays(client, server net.Conn, up, down func()) {
	var upward sync.WaitGroup
	upward.Go(func() { up(); _ = client.Close(); _ = server.Close() })
	down()
	_, _ = client.Close(), server.Close()
	upward.Wait()
}

// Frames passes on Kafka's length-prefixed frames until one is not to pass.
func Frames(from io.Reader, to io.Writer, passes func(frame []byte) bool) {
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(from, size); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(from, frame); err != nil || !passes(frame) {
			return
		}
		if _, err := to.Write(append(size, frame...)); err != nil {
			return
		}
	}
}
