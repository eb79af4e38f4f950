package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Hold takes an address for a Listen to come, and fails if it can't be had: the kernel
// refuses connections to it meanwhile, and gives it to nobody who asks for a free port.
// Of port 0 it is one of those; at says which. The address is held until the end of
// held, which should be closed once it is listened on.
func Hold(_ context.Context, addr string) (at net.Addr, held io.Closer, err error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	var f *os.File
	switch {
	case a.IP == nil || a.IP.IsUnspecified():
		if f, err = bound(&unix.SockaddrInet6{Port: a.Port}); err != nil && !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EACCES) {
			f, err = bound(&unix.SockaddrInet4{Port: a.Port}) // without IPv6
		}
	case a.IP.To4() != nil:
		f, err = bound(&unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())})
	default:
		to := &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}
		if ifi, err := net.InterfaceByName(a.Zone); err == nil {
			to.ZoneId = uint32(ifi.Index)
		}
		f, err = bound(to)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot bind %s: %w", addr, err)
	}
	switch is, err := unix.Getsockname(int(f.Fd())); is := is.(type) {
	case *unix.SockaddrInet4:
		a.IP, a.Port = is.Addr[:], is.Port
	case *unix.SockaddrInet6:
		a.IP, a.Port = is.Addr[:], is.Port
	default:
		return nil, nil, errors.Join(fmt.Errorf("cannot tell the port of %s: %w", addr, err), f.Close())
	}
	return a, f, nil
}

// bound is a socket that does not listen. As it allows for others, like Go's listeners, one
// of those may.
func bound(to unix.Sockaddr) (*os.File, error) {
	family := unix.AF_INET
	if _, ok := to.(*unix.SockaddrInet6); ok {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "held")
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && family == unix.AF_INET6 && to.(*unix.SockaddrInet6).Addr == [16]byte{} {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, to)
	}
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), f.Close())
	}
	return f, nil
}
