package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"muniment/gateway/api"
)

// tellTime bounds the handshake of a connection that is only told that it is one too
// many.
const tellTime = 2 * time.Second

// secure is TLS over a client's connection. Deadlines, the two-step close and the
// account of what is quiet are those of the connection below: a byte of a record is a
// byte of a request, once the handshake is over.
type secure struct {
	*tls.Conn
	below  *conn
	failed bool // owned by the worker that serves the connection
}

// front is what the server is given of a connection.
func (l *listener) front(c *conn) net.Conn {
	if l.cfg.TLS == nil {
		return c
	}
	c.greeting.Store(true)
	return &secure{Conn: tls.Server(c, l.cfg.TLS), below: c}
}

// Handshake is called by the server before anything is read, and once: within the
// read deadline, which stands for all of it. Failures are counted and not logged:
// whoever can connect could fill the log.
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
		tell(s.below, "400 Bad Request", &api.Error{Code: api.BadRequest, Message: "this port speaks TLS: use https"}, "")
	}
	if !errors.Is(err, io.EOF) { // who says nothing at all is a balancer's probe
		s.below.owner.metrics.handshakeErrors.Inc()
	}
	return err
}

// Read ends quietly after a handshake that failed: there is nobody to answer.
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

// looksLikeHTTP is asked of the first bytes where a TLS record should begin.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}
