package process

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
)

// Switch is a handler that can be replaced while it serves.
type Switch struct{ current atomic.Pointer[http.Handler] }

// NewSwitch is a switch at which h answers first.
func NewSwitch(h http.Handler) *Switch {
	s := new(Switch)
	s.Set(h)
	return s
}

// Set makes h answer from the next request on.
func (s *Switch) Set(h http.Handler) { s.current.Store(&h) }

// ServeHTTP implements http.Handler.
func (s *Switch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.current.Load()).ServeHTTP(w, r)
}

// Bounds of a listener: a connection without a request for idleTimeout is closed, and beyond
// mostConnections the next one waits.
const (
	idleTimeout     = time.Minute
	mostConnections = 4096
)

// Serve answers on a listener until ctx is done, and then finishes what has begun.
//
// Go's HTTP server itself refuses what it can't read as a request, with 400, 431 or 505 in
// plain text. Callers of the API never see that, as the gateway forwards no such request.
// Operators and nodes may.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: idleTimeout, ErrorLog: log.New(handshakes{os.Stderr}, "", log.LstdFlags),
		DisableGeneralOptionsHandler: true, // the handler answers OPTIONS *, in the envelope
	}
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		drained <- server.Shutdown(limit)
	})
	defer stop()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}

// secured serves TLS on a listener, within the bound on connections; cfg is nil for a
// plain one.
func secured(ln net.Listener, cfg *tls.Config) net.Listener {
	ln = netutil.LimitListener(ln, mostConnections)
	if cfg == nil {
		return ln
	}
	return tls.NewListener(ln, cfg)
}

// handshakes keeps failed handshakes out of the log: anyone who can connect could fill it.
type handshakes struct{ io.Writer }

func (w handshakes) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		return len(line), nil
	}
	return w.Writer.Write(line)
}
