package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
)

// listener hands connections to fasthttp and counts them, also those that
// are quiet. It answers those above a bound itself, because fasthttp would do so without
// our envelope.
type listener struct {
	net.Listener // given by Run
	cfg          *Config
	metrics      *metrics
	stopping     atomic.Bool

	mu    sync.Mutex
	conns map[*conn]struct{}
	of    map[string]map[*conn]struct{} // by address, those that were not refused and not given up
}

func newListener(cfg *Config, m *metrics) *listener {
	return &listener{cfg: cfg, metrics: m, conns: map[*conn]struct{}{}, of: map[string]map[*conn]struct{}{}}
}

// Accept returns the next connection within the bounds, and io.EOF, which ends
// fasthttp's Serve, once the listener was stopped.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		switch {
		case err == nil:
		case l.stopping.Load():
			return nil, io.EOF
		case isTemporary(err):
			l.metrics.acceptErrors.Inc()
			time.Sleep(10 * time.Millisecond) // out of descriptors: some must be closed first
			continue
		default:
			return nil, err
		}
		c := &conn{Conn: inner, owner: l, address: subnet(hostOf(inner))}
		c.quietSince.Store(time.Now().UnixNano())
		refusal, counted := l.admit(c)
		if counted && refusal == "" {
			return l.front(c), nil
		}
		l.metrics.refusedConns.Inc()
		if counted {
			go c.refuse(l.front(c), refusal)
		} else {
			inner.Close() // too many even for a 503
		}
	}
}

// admit counts the connection, or returns why it is refused. A refused connection counts, too,
// until its 503 is sent; above twice the bound connections are not counted and get none. At the bound an address that
// has fewer connections than another gets one of those that the other does not use: one host must not keep out all
// others. Behind a proxy all have one address, and then it is refused.
func (l *listener) admit(c *conn) (refusal string, counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.conns) >= 2*l.cfg.MaxConns:
		return "", false
	case len(l.conns) >= l.cfg.MaxConns && !l.giveUp(len(l.of[c.address])):
		refusal = "this node has too many connections"
	}
	l.conns[c] = struct{}{}
	if refusal == "" {
		if l.of[c.address] == nil {
			l.of[c.address] = map[*conn]struct{}{}
		}
		l.of[c.address][c] = struct{}{}
	}
	return refusal, true
}

// giveUp ends a connection of the address that has most, if it has more than one above a number: the one that is quiet for
// longest or, if none is, another one, which ends unless its request has arrived, and behind the answer if it has. It is called
// with l.mu held.
func (l *listener) giveUp(above int) bool {
	var most map[*conn]struct{}
	for _, of := range l.of {
		if len(of) > len(most) {
			most = of
		}
	}
	if len(most) <= above+1 {
		return false
	}
	var chosen *conn
	for c := range most {
		if chosen == nil || c.quietFor(chosen) {
			chosen = c
		}
	}
	l.leave(chosen)
	chosen.Conn.SetReadDeadline(time.Unix(1, 0)) // wakes its worker, which closes it; one that is answered is closed behind that
	return true
}

// leave takes a connection from its address. It is called with l.mu held.
func (l *listener) leave(c *conn) {
	of := l.of[c.address]
	if delete(of, c); len(of) == 0 {
		delete(l.of, c.address)
	}
}

// hostOf is the address of the other end, without its port.
func hostOf(c net.Conn) string {
	if at := c.RemoteAddr(); at != nil {
		if host, _, err := net.SplitHostPort(at.String()); err == nil {
			return host
		}
	}
	return ""
}

func (l *listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.leave(c)
}

func (l *listener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// stop ends Accept. Connections that the kernel has and Accept has not taken are reset:
// their clients connect again, elsewhere.
func (l *listener) stop() {
	l.stopping.Store(true)
	l.Listener.Close()
}

// drain closes connections as they fall quiet and returns when none is left, or
// when ctx is done; then it cuts those that are left and returns how many. A connection is
// quiet if no byte of a request came for the grace, which begins now for those that were
// quiet before.
func (l *listener) drain(ctx context.Context, grace time.Duration) (cut int) {
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

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// conn is a client's connection. Each of its writes has its own deadline, so that
// an answer may stream for hours as long as the client takes it.
type conn struct {
	net.Conn
	owner   *listener
	address string // that limits count by

	quietSince atomic.Int64 // Unix nanoseconds of the last answer; 0 while a request is read or answered
	gentle     atomic.Bool  // input may be unread: close in two steps
	closed     atomic.Bool

	// Owned by the worker that serves the connection: when its next read should end,
	// and the deadlines that are set now.
	readUntil, readEnds, writeEnds time.Time

	greeting atomic.Bool // bytes belong to a TLS handshake, not to a request
}

// SetReadDeadline sets when the next Read ends. One that has begun is not moved.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readUntil = t
	return nil
}

// slack is the part of a timeout by which it may be off. To set a deadline is a call
// into the runtime's timers, and a request has three deadlines.
const slack = 16

// tooFar says whether the deadline that is set is too far from the one that is wanted. timeout
// is the shortest time that the deadline may end.
func tooFar(set, wanted time.Time, timeout time.Duration) bool {
	early := wanted.Sub(set)
	return early < 0 || early > timeout/slack
}

func (c *conn) Read(b []byte) (int, error) {
	if tooFar(c.readEnds, c.readUntil, min(c.owner.cfg.ReadTimeout, c.owner.cfg.IdleTimeout)) {
		if err := c.Conn.SetReadDeadline(c.readUntil); err != nil {
			return 0, err
		}
		c.readEnds = c.readUntil
	}
	n, err := c.Conn.Read(b)
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
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes) // discarded, however it ends
		}
	}
	return c.Conn.Close()
}

const (
	// These bound the second step of a close: a client that is still sending a body of up to 1 MiB,
	// and what TLS and the chunked coding add to it, gets its answer.
	lingerTime  = 1 * time.Second
	lingerBytes = maxBody + 64<<10
)

// refuse answers 503 without reading the request. front is the connection, or TLS
// over it.
func (c *conn) refuse(front net.Conn, message string) {
	c.gentle.Store(true)
	defer front.Close()
	if s, ok := front.(*secure); ok && (s.SetReadDeadline(time.Now().Add(refusalTime)) != nil || s.Handshake() != nil) {
		return
	}
	answerUnread(front, "503 Service Unavailable", api.Unavailable(api.Overloaded, message, time.Second), fmt.Sprintf("Retry-After: %d\r\n", 1+rand.IntN(2)))
}

// answerUnread answers a request that was not read, as the connection's last. It gives e an id.
func answerUnread(to io.Writer, status string, e *api.Error, headers string) {
	e.RequestID = string(appendRequestID(nil))
	body, err := e.Body()
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(to, "HTTP/1.1 %s\r\nContent-Type: %s\r\nX-Content-Type-Options: nosniff\r\nContent-Length: %d\r\n%s: %s\r\n%sConnection: close\r\n\r\n%s",
		status, contentJSON, len(body), api.HeaderRequestID, e.RequestID, headers, body) // the client may have gone
}

// quietFor says whether c is quiet for longer than another one; one whose request is arriving is not quiet.
func (c *conn) quietFor(than *conn) bool {
	since, other := c.quietSince.Load(), than.quietSince.Load()
	return since != 0 && (other == 0 || since < other)
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

// refusalTime bounds the handshake of a connection that gets only a 503.
const refusalTime = 2 * time.Second

// secure is TLS over a client's connection. The connection below has the deadlines, the two-step
// close and the time since which it is quiet: once the handshake is over, a byte of a record
// counts as a byte of a request.
type secure struct {
	*tls.Conn
	below  *conn
	failed bool // owned by the worker that serves the connection
}

// front returns the connection that the server reads: c, or TLS over it.
func (l *listener) front(c *conn) net.Conn {
	if l.cfg.TLS == nil {
		return c
	}
	c.greeting.Store(true)
	return &secure{Conn: tls.Server(c, l.cfg.TLS), below: c}
}

// Handshake is called once by the server, before anything is read, and is bounded by the read
// deadline. Failures are counted and not logged, as anyone who can connect could fill the log.
func (s *secure) Handshake() error {
	err := s.Conn.Handshake()
	s.below.quietSince.Store(time.Now().UnixNano())
	s.below.greeting.Store(false)
	if err == nil {
		return nil
	}
	s.failed = true
	s.below.gentle.Store(true) // the alert is on its way
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
		answerUnread(s.below, "400 Bad Request", &api.Error{Code: api.BadRequest, Message: "this port speaks TLS: use https"}, "")
	}
	if !errors.Is(err, io.EOF) { // a client that sends nothing at all is a balancer's probe
		s.below.owner.metrics.handshakeErrors.Inc()
	}
	return err
}

// Read returns io.EOF after a handshake that failed.
func (s *secure) Read(b []byte) (int, error) {
	if s.failed {
		return 0, io.EOF
	}
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.below.quietSince.Store(0)
	}
	return n, err
}

// looksLikeHTTP looks at the first bytes, where a TLS record should begin.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}
