package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"

	"muniment.example/gateway"
	"muniment.example/gateway/certs"
)

// Port is an address that the process listens on.
type Port struct {
	net.Listener             // without TLS
	TLS          *tls.Config // nil: none
	name         string
}

// Listen takes a port, from now on: callers queue until it is served. flag names the
// address in errors.
func (p *Process) Listen(name, flag, address string, flags certs.ServerFlags) (*Port, error) {
	cfg, err := certs.Server(p.Certs(name), flags)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, CannotListen(flag, err)
	}
	p.AtEnd(func() error {
		_ = ln.Close() // a server may have closed it already
		return nil
	})
	return &Port{ln, cfg, name}, nil
}

// URL is where the port can be reached.
func (l *Port) URL() string { return URL(l.Addr(), l.TLS) }

// Operate serves operators from now on: a probe of /livez must not kill a process that
// starts slowly. ready reports what the process is waiting for. Set replaces the handler once
// the process has started.
func (p *Process) Operate(admin *Port, token string, ready func(context.Context) error) *Switch {
	operators := NewSwitch(gateway.Admin{Gatherer: p.Registry, Token: token, LogLevel: p.LogLevel, Checks: []gateway.Check{{Name: "start", Ready: ready}}}.Handler())
	p.Parts().Serve(admin, gateway.LoopbackOnly(admin.Addr(), operators))
	return operators
}

// CannotListen names the flag that says where to listen: if another process has the port, the
// flag has to change.
func CannotListen(flag string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot listen: %w: choose another port by %s, or stop the process that has it", err, flag)
	}
	return fmt.Errorf("cannot listen as %s says: %w", flag, err)
}

// URL is the URL of an address; cfg is nil without TLS.
func URL(address net.Addr, cfg *tls.Config) string {
	if cfg == nil {
		return "http://" + address.String()
	}
	return "https://" + address.String()
}
