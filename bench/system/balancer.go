package system

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Balancer passes TCP connections on to its backends round robin, and skips one
// that refuses: a plain balancer of layer 4, which knows nothing of HTTP and checks
// no health. Safe for concurrent use.
type Balancer struct {
	listener net.Listener
	relays   sync.WaitGroup

	mu       sync.Mutex
	backends []string
	next     int
	open     map[net.Conn]bool
	closed   bool
}

// NewBalancer listens on a free port of the loopback interface, in front of backends
// (host:port). Close ends it.
func NewBalancer(backends ...string) (*Balancer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot balance: %w", err)
	}
	b := &Balancer{listener: ln, backends: backends, open: map[net.Conn]bool{}}
	b.relays.Go(b.accept)
	return b, nil
}

// Addr is its host:port.
func (b *Balancer) Addr() string { return b.listener.Addr().String() }

// Set replaces the backends for connections to come, and cuts those that stand. Without
// backends every connection is closed as soon as it is accepted.
func (b *Balancer) Set(backends ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = backends
	b.cut()
}

func (b *Balancer) cut() {
	for c := range b.open {
		_ = c.Close() // its relay sees it
	}
}

// Close cuts all connections and returns when nothing of the balancer runs.
func (b *Balancer) Close() error {
	err := b.listener.Close()
	b.mu.Lock()
	b.closed = true
	b.cut()
	b.mu.Unlock()
	b.relays.Wait()
	return err
}

func (b *Balancer) accept() {
	for {
		conn, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			b.relays.Go(func() { b.relay(conn) })
		}
	}
}

// order lists the backends, beginning with the one after the last call's first.
func (b *Balancer) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.backends) == 0 {
		return nil
	}
	b.next = (b.next + 1) % len(b.backends)
	return slices.Concat(b.backends[b.next:], b.backends[:b.next])
}

// hold keeps a connection for Close; false if that was called already.
func (b *Balancer) hold(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.open[c] = true
	}
	return !b.closed
}

func (b *Balancer) drop(c net.Conn) {
	b.mu.Lock()
	delete(b.open, c)
	b.mu.Unlock()
	_ = c.Close()
}

// dialTimeout is for a backend that neither accepts nor refuses.
const dialTimeout = 10 * time.Second

func (b *Balancer) relay(client net.Conn) {
	defer b.drop(client)
	if !b.hold(client) {
		return
	}
	for _, address := range b.order() {
		server, err := net.DialTimeout("tcp", address, dialTimeout)
		if err != nil {
			continue
		}
		defer b.drop(server)
		if !b.hold(server) {
			return
		}
		var up sync.WaitGroup
		up.Go(func() { pass(server, client) })
		pass(client, server)
		up.Wait()
		return
	}
}

// pass copies one direction to its end, and hands the end on.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = errors.Join(to.Close(), from.Close()) // a reset is not handed on: both ends are cut
		return
	}
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
}
