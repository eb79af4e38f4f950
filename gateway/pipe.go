package gateway

import (
	"net"
	"sync"
)

// Pipe is a listener inside the process: the embedded control server listens on
// it, and Config.DialControl is its Dial. Unlike fasthttputil's, its connections
// keep their deadlines while a read blocks, which net/http's server relies on to
// end a request.
type Pipe struct {
	queue  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*Pipe)(nil)

// NewPipe makes an open Pipe.
func NewPipe() *Pipe {
	return &Pipe{queue: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects as soon as the other side accepts. It fails with net.ErrClosed
// once the pipe was closed.
func (p *Pipe) Dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.queue <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: net.ErrClosed}
	}
}

// Accept returns the next connection.
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.queue:
		return c, nil
	case <-p.closed:
		return nil, &net.OpError{Op: "accept", Net: "pipe", Err: net.ErrClosed}
	}
}

// Close ends Accept and Dial. Connections stay open.
func (p *Pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr names no place: there is nothing to connect to from outside.
func (p *Pipe) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
