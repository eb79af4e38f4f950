package storetest

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"

	"github.com/stretchr/testify/require"
)

// Wire leads to a PostgreSQL server, and can be cut. It is safe for concurrent use.
type Wire struct {
	// URL is the URL of the database through the wire.
	URL string

	mu    sync.Mutex
	away  bool
	last  []byte // what is let through, before the wire is cut; nil: no cut is due
	conns map[net.Conn]bool
}

// NewWire makes a wire to the server of a database.
func NewWire(t TB, database string) *Wire {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &Wire{conns: map[net.Conn]bool{}}
	t.Cleanup(func() { ln.Close(); w.Cut() })
	to := u.Host
	u.Host = ln.Addr().String()
	w.URL = u.String()
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			w.connect(in, to)
		}
	}()
	return w
}

func (w *Wire) connect(in net.Conn, to string) {
	out, err := net.Dial("tcp", to)
	if err != nil {
		in.Close()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		in.Close()
		out.Close()
		return
	}
	w.conns[in], w.conns[out] = true, true
	go func() { _, _ = io.Copy(in, out); in.Close() }()
	go func() {
		defer out.Close()
		for buf := make([]byte, 64<<10); ; {
			n, err := in.Read(buf)
			if n > 0 && !w.forward(buf[:n], in, out) || err != nil {
				return
			}
		}
	}()
}

// forward passes on what a client sends. It cuts the connection behind the last text, so the server
// gets it and the client gets no answer.
func (w *Wire) forward(sent []byte, in, out net.Conn) (more bool) {
	w.mu.Lock()
	cut := w.last != nil && bytes.Contains(sent, w.last)
	if cut {
		w.last = nil
		in.Close()
	}
	w.mu.Unlock()
	_, err := out.Write(sent)
	return err == nil && !cut
}

// Cut ends all connections, and refuses others until Restore.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = true
	for c := range w.conns {
		c.Close()
	}
	clear(w.conns)
}

// Restore lets connections through again.
func (w *Wire) Restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = false
}

// CutBehind ends the next connection on which a client sends a text, once the server
// has got that.
func (w *Wire) CutBehind(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = []byte(text)
}
