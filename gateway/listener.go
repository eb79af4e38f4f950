package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
)

const (
	// lingering bounds the second step of a close, in time and bytes: a client that is held
	// up for a second while it sends, or sends a batch that is too long, is still to hear its
	// answer.
	lingerTime  = 2 * time.Second
	lingerBytes = 2 * maxBatchBody
	// When the listener stops, it takes what the kernel has queued until nothing came
	// for acceptQuiet, at most acceptRounds times.
	acceptQuiet  = 20 * time.Millisecond
	acceptRounds = 50
	// lastLook is how long a read looks once more when the listener drains.
	lastLook = 10 * time.Millisecond
)

// listener hands connections to fasthttp and keeps account of them: how many, from
// where, and which are quiet. It answers those above a bound itself, because
// fasthttp would do so without our envelope.
type listener struct {
	net.Listener // given by Run
	cfg          *Config
	metrics      *metrics
	stopping     atomic.Bool

	// Owned by Accept: connections taken since the last deadline of a listener that
	// stops, and the deadlines so far.
	taken, rounds int

	mu    sync.Mutex
	conns map[*conn]struct{}
	perIP map[netip.Addr]int
}

func newListener(cfg *Config, m *metrics) *listener {
	return &listener{cfg: cfg, metrics: m, conns: map[*conn]struct{}{}, perIP: map[netip.Addr]int{}}
}

// Listen opens the socket that Run should be given: TCP without Go's default of
// Multipath TCP, whose sockets can't keep new connections out while the last of
// the old are accepted.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	return lc.Listen(ctx, "tcp", addr)
}

// Accept returns the next connection within the bounds, and io.EOF, which ends
// fasthttp's Serve, once the listener was stopped and its queue is empty.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		switch {
		case err == nil:
			l.taken++
		case l.stopping.Load():
			// Whoever comes late to ask finds the deadline passed, and the queue not looked at.
			quiet := l.taken == 0 && !queued(l.Listener)
			if quiet || l.rounds >= acceptRounds || !l.extend() {
				return nil, io.EOF
			}
			continue
		case isTemporary(err):
			l.metrics.acceptErrors.Inc()
			time.Sleep(10 * time.Millisecond) // out of descriptors: some must be closed first
			continue
		default:
			return nil, err
		}
		c := &conn{Conn: inner, owner: l, ip: subnet(inner.RemoteAddr())}
		c.quietSince.Store(time.Now().UnixNano())
		refusal, counted := l.admit(c)
		if counted && refusal == "" {
			return l.front(c), nil
		}
		l.metrics.refusedConns.Inc()
		if counted {
			go c.turnAway(l.front(c), refusal)
		} else {
			inner.Close() // too many even to be told so
		}
	}
}

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// admit takes the connection into account, or says why it must go. One that is told
// so counts too, while it is told, up to twice the bound.
func (l *listener) admit(c *conn) (refusal string, counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.conns) >= 2*l.cfg.MaxConns:
		return "", false
	case len(l.conns) >= l.cfg.MaxConns:
		refusal = "this node has too many connections"
	case l.cfg.MaxConnsPerIP > 0 && l.perIP[c.ip] >= l.cfg.MaxConnsPerIP:
		refusal = "too many connections from this address"
	}
	l.conns[c] = struct{}{}
	l.perIP[c.ip]++
	return refusal, true
}

func (l *listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.conns[c]; !ok {
		return
	}
	delete(l.conns, c)
	if l.perIP[c.ip]--; l.perIP[c.ip] <= 0 {
		delete(l.perIP, c.ip)
	}
}

func (l *listener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// subnet is the unit that a bound per address counts: IPv6 customers own a /64.
func subnet(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if ip.Is6() {
		p, _ := ip.Prefix(64) // fails for bit counts out of range only
		return p.Addr()
	}
	return ip
}

// stop ends Accept once it has taken what the kernel has queued: closing the
// socket would reset those, although their clients are connected already. Where
// the system allows it, new connections are kept out from now on, so that the queue
// has an end.
func (l *listener) stop() {
	refuseNew(l.Listener)
	l.stopping.Store(true)
	if !l.setDeadline() {
		l.Listener.Close()
	}
}

// extend gives Accept more time for the queue.
func (l *listener) extend() bool {
	l.taken = 0
	l.rounds++
	return l.setDeadline()
}

func (l *listener) setDeadline() bool {
	d, ok := l.Listener.(interface{ SetDeadline(time.Time) error })
	return ok && d.SetDeadline(time.Now().Add(acceptQuiet)) == nil
}

// drain closes connections as they fall quiet and returns when none is left, or
// when ctx is done; then it cuts the rest and says how many. A connection is quiet
// if no byte of a request came for the grace, which begins now for those that were
// quiet before.
func (l *listener) drain(ctx context.Context, grace time.Duration) (cut int) {
	l.Listener.Close()
	began := time.Now()
	tick := time.NewTicker(min(max(grace/10, time.Millisecond), 50*time.Millisecond))
	defer tick.Stop()
	for {
		now := time.Now()
		left := l.all()
		if len(left) == 0 {
			return 0
		}
		for _, c := range left {
			since := c.quietSince.Load()
			if since == 0 || c.closed.Load() {
				continue // a request is under way, or lingerTime has begun
			}
			if quiet := now.Sub(time.Unix(0, max(since, began.UnixNano()))); quiet >= grace {
				c.Conn.SetReadDeadline(now) // wakes its worker, which closes it
			}
		}
		select {
		case <-ctx.Done():
			for _, c := range left {
				c.Conn.Close()
			}
			return len(left)
		case <-tick.C:
		}
	}
}

func (l *listener) all() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		all = append(all, c)
	}
	return all
}

// conn is a client's connection. Each of its writes has its own deadline, so that
// an answer may stream for hours as long as the client takes it.
type conn struct {
	net.Conn
	owner *listener
	ip    netip.Addr

	quietSince atomic.Int64 // Unix nanoseconds of the last answer; 0 while a request is read or answered
	gentle     atomic.Bool  // input may be unread: close in two steps
	closed     atomic.Bool

	// Owned by the worker that serves the connection: when its next read should end,
	// and when reads and writes do end unless they are set anew.
	readUntil, readEnds, writeEnds time.Time

	// The worker's, too, but others may look whether a handshake has ended.
	greeting atomic.Bool // bytes belong to a TLS handshake, not to a request
}

// SetReadDeadline sets when the next Read ends. One that has begun is not moved.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readUntil = t
	return nil
}

// slack is the part of a timeout by which it may be off. To set a deadline is a call
// into the runtime's timers, and a request has three of them.
const slack = 16

// tooFar says whether a deadline has to be set anew for one that is wanted. timeout
// is the shortest that it may stand for.
func tooFar(set, wanted time.Time, timeout time.Duration) bool {
	early := wanted.Sub(set)
	return early < 0 || early > timeout/slack
}

func (c *conn) Read(b []byte) (int, error) {
	// While the listener drains, the deadline may be its own: who comes late to read is to
	// find what came in time.
	if c.owner.stopping.Load() || tooFar(c.readEnds, c.readUntil, min(c.owner.cfg.ReadTimeout, c.owner.cfg.IdleTimeout)) {
		if err := c.Conn.SetReadDeadline(c.readUntil); err != nil {
			return 0, err
		}
		c.readEnds = c.readUntil
	}
	n, err := c.Conn.Read(b)
	if n == 0 && c.owner.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		// One that waited may be told so before it is told of bytes that the kernel has.
		c.readEnds = time.Now().Add(lastLook)
		if err := c.Conn.SetReadDeadline(c.readEnds); err != nil {
			return 0, err
		}
		n, err = c.Conn.Read(b)
	}
	if n > 0 && !c.greeting.Load() {
		c.quietSince.Store(0)
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	now, timeout := time.Now(), c.owner.cfg.WriteTimeout
	if until := now.Add(timeout); tooFar(c.writeEnds, until, timeout) {
		if err := c.Conn.SetWriteDeadline(until); err != nil {
			return 0, err
		}
		c.writeEnds = until
	}
	n, err := c.Conn.Write(b)
	c.quietSince.Store(now.UnixNano())
	return n, err
}

// Close closes at once, or, if the client may still be sending, first its own
// direction: a close on unread input would be a reset, which destroys answers on
// their way.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	defer c.owner.forget(c)
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && (c.gentle.Load() || c.owner.stopping.Load()) {
		if half.CloseWrite() == nil && c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes) // only to be read; however it ends
		}
	}
	return c.Conn.Close()
}

// turnAway answers 503 without reading the request. front is the connection, or TLS
// over it.
func (c *conn) turnAway(front net.Conn, message string) {
	c.gentle.Store(true)
	defer front.Close()
	if s, ok := front.(*secure); ok && (s.SetReadDeadline(time.Now().Add(tellTime)) != nil || s.Handshake() != nil) {
		return
	}
	tell(front, "503 Service Unavailable", api.Unavailable(api.Overloaded, message, time.Second), "Retry-After: 1\r\n")
}

// tell writes an answer to a request that was not read, the connection's last. It gives e
// an id.
func tell(to io.Writer, status string, e *api.Error, headers string) {
	e.RequestID = string(appendRequestID(nil))
	body, err := e.Body()
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(to, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s: %s\r\n%sConnection: close\r\n\r\n%s",
		status, contentJSON, len(body), api.HeaderRequestID, e.RequestID, headers, body) // the client may have gone
}

// lingerOn makes the connection of a request close in two steps.
func lingerOn(ctx *fasthttp.RequestCtx) {
	switch c := ctx.Conn().(type) {
	case *conn:
		c.gentle.Store(true)
	case *secure:
		c.below.gentle.Store(true)
	}
}
