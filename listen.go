package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
)

// switchable is a handler that can be replaced while it serves.
type switchable struct{ current atomic.Pointer[http.Handler] }

func newSwitch(h http.Handler) *switchable {
	s := new(switchable)
	s.Set(h)
	return s
}

// Set makes h answer from the next request on.
func (s *switchable) Set(h http.Handler) { s.current.Store(&h) }

func (s *switchable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.current.Load()).ServeHTTP(w, r)
}

// Bounds of a listener: a connection without a request for idleTimeout is closed, and beyond
// mostConnections the next one waits.
const (
	idleTimeout     = time.Minute
	mostConnections = 4096
)

// serve answers on a listener until ctx is done, and then finishes what has begun.
//
// Go's HTTP server itself refuses what it can't read as a request, with 400, 431 or 505 in
// plain text. Callers of the API never see that, as the gateway forwards no such request.
// Operators and nodes may.
func serve(ctx context.Context, ln net.Listener, handler http.Handler) error {
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

// cannotListen names the flag that says where to listen: if another process has the port, the
// flag has to change.
func cannotListen(flag string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot listen: %w: choose another port by %s, or stop the process that has it", err, flag)
	}
	return fmt.Errorf("cannot listen as %s says: %w", flag, err)
}

// urlOf is the URL of an address; cfg is nil without TLS.
func urlOf(address net.Addr, cfg *tls.Config) string {
	if cfg == nil {
		return "http://" + address.String()
	}
	return "https://" + address.String()
}

// handshakes keeps failed handshakes out of the log: anyone who can connect could fill it.
type handshakes struct{ io.Writer }

func (w handshakes) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		return len(line), nil
	}
	return w.Writer.Write(line)
}

// insideListener connects parts of this process to control without a port that others could
// reach. Its connections are socket pairs, which have buffers and deadlines: net/http and
// fasthttp both rely on these.
type insideListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newInsideListener() *insideListener {
	return &insideListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the next Accept.
func (l *insideListener) Dial() (net.Conn, error) {
	syscall.ForkLock.RLock() // not every system can make pairs that commands don't inherit
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "inside")
		ends[i], err = net.FileConn(f) // a copy of f
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	select {
	case l.conns <- ends[0]:
		return ends[1], nil
	case <-l.closed:
		return nil, errors.Join(net.ErrClosed, ends[0].Close(), ends[1].Close())
	}
}

// Accept returns the other end of the next Dial.
func (l *insideListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Dial and Accept fail.
func (l *insideListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *insideListener) Addr() net.Addr { return &net.UnixAddr{Name: "inside", Net: "unix"} }

// closing closes c and keeps its error if there is none yet.
func closing(err *error, c io.Closer) {
	if closeErr := c.Close(); *err == nil {
		*err = closeErr
	}
}
