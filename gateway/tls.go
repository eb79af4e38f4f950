package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"muniment/gateway/api"
)

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
