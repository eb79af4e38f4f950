package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// relay stands in front of an engine and passes connections on to it, each in a way
// that pass decides. Both ends are closed when pass returns.
type relay struct {
	listener net.Listener
	running  sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool // nil once it has ended
}

func startRelay(t *testing.T, engine string, pass func(client, server net.Conn)) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{listener: ln, open: map[net.Conn]bool{}}
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

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) keep(ends ...net.Conn) bool {
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

func (r *relay) end() {
	_ = r.listener.Close()
	r.mu.Lock()
	for c := range r.open {
		_ = c.Close()
	}
	r.open = nil
	r.mu.Unlock()
	r.running.Wait()
}

// bothWays runs a connection's two directions; when one ends, so does the other.
func bothWays(client, server net.Conn, up, down func()) {
	var upward sync.WaitGroup
	upward.Go(func() { up(); _ = client.Close(); _ = server.Close() })
	down()
	_, _ = client.Close(), server.Close()
	upward.Wait()
}

// batchTap is in front of ClickHouse, and holds a batch in the middle on request.
type batchTap struct {
	*relay
	next atomic.Pointer[heldBatch]
}

// heldBatch is an insert of which the server has a part. Close goOn to have the rest
// pass, or cut to end the connection instead.
type heldBatch struct{ caught, goOn, cut chan struct{} }

// batchPart is so much that only an insert can have sent it without an answer.
const batchPart = 8 << 10

func tapBatches(t *testing.T, clickhouse string) *batchTap {
	tap := new(batchTap)
	tap.relay = startRelay(t, clickhouse, func(client, server net.Conn) {
		var unanswered atomic.Int64
		bothWays(client, server, func() { tap.up(client, server, &unanswered) }, func() {
			buf := make([]byte, 32<<10)
			for {
				n, err := server.Read(buf)
				if _, writeErr := client.Write(buf[:n]); err != nil || writeErr != nil {
					return
				}
				unanswered.Store(0)
			}
		})
	})
	return tap
}

func (tap *batchTap) up(client, server net.Conn, unanswered *atomic.Int64) {
	buf := make([]byte, 2<<10)
	for {
		n, err := client.Read(buf)
		if _, writeErr := server.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
		if unanswered.Add(int64(n)) < batchPart {
			continue
		}
		if held := tap.next.Swap(nil); held != nil {
			close(held.caught)
			select {
			case <-held.goOn:
			case <-held.cut:
				return
			}
		}
	}
}

// hold returns when a batch is half way to the server.
func (tap *batchTap) hold(t *testing.T) *heldBatch {
	t.Helper()
	held := &heldBatch{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	tap.next.Store(held)
	within(t, held.caught, "no batch came")
	return held
}

// swallowProduced is for a relay in front of a broker that takes records and whose
// answer never arrives: one of so many answers to a produce request, and the connection
// with it.
func swallowProduced(oneOf int64, answers, swallowed *atomic.Int64) func(client, server net.Conn) {
	return func(client, server net.Conn) {
		var mu sync.Mutex
		produced := map[uint32]bool{} // requests by their correlation id
		bothWays(client, server, func() {
			frames(client, server, func(request []byte) bool {
				if binary.BigEndian.Uint16(request) == 0 { // Produce
					mu.Lock()
					produced[binary.BigEndian.Uint32(request[4:])] = true
					mu.Unlock()
				}
				return true
			})
		}, func() {
			frames(server, client, func(response []byte) bool {
				id := binary.BigEndian.Uint32(response)
				mu.Lock()
				ours := produced[id]
				delete(produced, id)
				mu.Unlock()
				if ours && answers.Add(1)%oneOf == 0 {
					swallowed.Add(1)
					return false
				}
				return true
			})
		})
	}
}

// renameBroker is for a relay in front of a broker of 127.0.0.1 that is to be known by
// another port: what the broker says of itself is changed on its way.
func renameBroker(broker, to string) func(client, server net.Conn) {
	endpoint := func(address string) []byte {
		host, port, _ := net.SplitHostPort(address)
		n, _ := strconv.ParseUint(port, 10, 16)
		return binary.BigEndian.AppendUint32([]byte(host), uint32(n))
	}
	from, by := endpoint(broker), endpoint(to)
	return func(client, server net.Conn) {
		bothWays(client, server, func() { _, _ = io.Copy(server, client) }, func() {
			frames(server, client, func(response []byte) bool {
				copy(response, bytes.ReplaceAll(response, from, by))
				return true
			})
		})
	}
}

// frames passes on Kafka's length-prefixed frames until one is not to pass.
func frames(from io.Reader, to io.Writer, passes func(frame []byte) bool) {
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
