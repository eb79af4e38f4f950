package process

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
)

// Inside connects parts of this process to control without a port that others could
// reach. Its connections are socket pairs, which have buffers and deadlines: net/http and
// fasthttp both rely on these.
type Inside struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewInside is a listener that Dial connects to.
func NewInside() *Inside {
	return &Inside{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the next Accept.
func (l *Inside) Dial() (net.Conn, error) {
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
func (l *Inside) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Dial and Accept fail.
func (l *Inside) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Inside) Addr() net.Addr { return &net.UnixAddr{Name: "inside", Net: "unix"} }
