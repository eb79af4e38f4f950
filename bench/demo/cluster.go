package demo

import (
	"context"
	"crypto/tls"
	"strings"

	"muniment.example/bench/system"
)

// scaled is the service as a cluster.
type scaled struct {
	system.Cluster
	d *Demo
}

func newScaled(d *Demo) *scaled {
	return &scaled{system.Cluster{Exe: d.Exe, Dir: d.Dir, Engines: d.Stack.Engines, TLS: d.Stack.TLS}, d}
}

func (s *scaled) operator() *system.Server { return s.Operator() }

func (s *scaled) root() string { return s.Root() }

func (s *scaled) apis() []string { return s.APIs() }

func (s *scaled) trust() *tls.Config { return s.Trusted }

func (s *scaled) stop() error { return s.Stop() }

func (s *scaled) end() { s.End() }

func (s *scaled) raise(ctx context.Context) (err error) {
	size := system.Size{Gateways: 3, Loaders: 2, Controls: 2, Partitions: 6}
	hops := ""
	if s.TLS != nil {
		hops = ", with TLS on each listener"
	}
	s.d.say("1  Start  %d gateways, %d loaders and %d control processes on Kafka, ClickHouse and PostgreSQL%s", size.Gateways, size.Loaders, size.Controls, hops)
	if err := s.Raise(ctx, size); err != nil {
		return err
	}
	s.d.note("on the topic %s and databases of that name, which stay", s.Topic)
	s.d.note("ready on %s", strings.Join(s.apis(), " "))
	return nil
}

// strike kills one process of each kind.
func (s *scaled) strike(ctx context.Context) (string, error) {
	last := len(s.Controls) - 1
	for _, victim := range []*system.Server{s.Gateways[0], s.Loaders[0], s.Controls[last]} {
		victim.Kill()
	}
	if err := s.StartControl(ctx, last); err != nil {
		return "", err
	}
	if err := s.StartGateway(ctx, 0); err != nil {
		return "", err
	}
	return "a gateway, a loader and a control process", s.StartLoader(ctx, 0)
}

// log collapses copies: the topic may hold a record twice whose acknowledgement was
// lost.
func (s *scaled) log(ctx context.Context) (found receipts, copies int, err error) {
	log, err := s.d.Stack.OpenLog(s.Topic)
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	if found, err = receiptsInLog(ctx, log); err != nil {
		return nil, 0, err
	}
	return found, found.collapse(), nil
}

// collapse counts each receipt once, and returns how many copies there were besides.
func (r receipts) collapse() (copies int) {
	for _, f := range r {
		copies += f.times - 1
		f.times = 1
	}
	return copies
}
