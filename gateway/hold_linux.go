package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Hold takes an address for a Listen to come, and fails if somebody listens there: the
// kernel refuses connections to it meanwhile, and gives it to nobody who asks for a free
// port; who names the port can still have it. Of port 0 it is a free one; at says which.
// The address is held until the end of held, which should be closed once it is listened
// on. ctx ends the look-up of a name.
func Hold(ctx context.Context, addr string) (at net.Addr, held io.Closer, err error) {
	a, err := resolve(ctx, net.DefaultResolver, addr)
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
		} else if index, err := strconv.ParseUint(a.Zone, 10, 32); err == nil {
			to.ZoneId = uint32(index)
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

// resolve is net.ResolveTCPAddr, which prefers IPv4 too, but ends with ctx.
func resolve(ctx context.Context, by *net.Resolver, addr string) (*net.TCPAddr, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := by.LookupPort(ctx, "tcp", service)
	if err != nil || host == "" {
		return &net.TCPAddr{Port: port}, err
	}
	all, err := by.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	first := max(0, slices.IndexFunc(all, func(ip net.IPAddr) bool { return ip.IP.To4() != nil }))
	return &net.TCPAddr{IP: all[first].IP, Zone: all[first].Zone, Port: port}, nil
}

// bound is a socket that does not listen, with SO_REUSEADDR, so that our own listener can
// be bound beside it.
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
