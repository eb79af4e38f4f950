// Package node keeps the membership of nodes that sign receipts: which nodes have joined, how
// far each has followed the feed, and which were expelled. control/signing owns their keys;
// this package requests from a node what only the node knows about its keys (keys.go).
//
// A node is live while its last poll of the feed is younger than the lease bound: only then
// can it hold a lease and sign. A poll also reports what the node has applied. If no other
// process uses the database, both are kept in memory. After control starts, each node in
// another process then counts as live, with nothing applied, until it polls or the bound has
// passed, because it may still hold a lease from the previous process. Processes that share a
// database exchange polls through it (polls.go).
//
// Time comes from a clock that never steps: with the wall clock, setting it forward would make
// a node that may still sign look dead. The node alone decides, by its own clock, how long it
// signs; this package only reports which nodes may be signing.
//
// A copy of a node's folder makes two processes of one node. Each start of a node has an epoch, and each
// poll names that of its process: once a later start has polled, the polls of earlier ones are refused, so
// their leases end. Only polls count, not starts: a start whose request arrives late, or that fails
// afterwards, puts out no process that works. A process that is restarted is never refused, because the
// one before it polls no more.
//
// There is one way to be a node (gateway/identity), in a process of its own or inside a control
// process: it joins by an invitation (join.go) or a certificate (certificate.go),
// authenticates with its credential, and may be permanently expelled (expel.go). The keys of a node
// that is silent for long end (silent.go).
package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/signing"
	"muniment.example/control/store"
)

// Config of the service. DB and Keys are required.
type Config struct {
	DB *store.DB
	// Keys holds the keys of nodes as well as control's own.
	Keys *signing.Service
	// LeaseBound is the lease bound: a node stops signing this long after its last poll of the
	// feed. Default 30 s.
	LeaseBound time.Duration
	// WaitFor is how long Await waits for nodes to apply a revision. Default 2 s.
	WaitFor time.Duration
	// DrainFor is how long a rotation, a revocation or an expulsion waits for a node to report.
	// Default 15 s.
	DrainFor time.Duration
	// NodeCA returns the authorities whose certificates let nodes join. Default none: nodes join
	// by invitation only.
	NodeCA func() *x509.CertPool
	// Clock reads a clock that never steps. If it stands still while the machine is
	// suspended, nodes count as live for longer. Default Go's monotonic clock.
	Clock func() time.Duration
	// OwnNodes is true if all nodes run in this process, as in an embedded service: no node
	// holds a lease from a previous process.
	OwnNodes bool
	// Logger; default slog.Default.
	Logger *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// Service is safe for concurrent use.
type Service struct {
	*leases
	cfg  Config
	db   *store.DB
	keys *signing.Service

	began time.Duration // by Config.Clock, when it opened
}

// New opens the service, and reads which nodes may hold a lease.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Keys == nil {
		return nil, errors.New("cannot open the nodes: DB or Keys is missing")
	}
	if cfg.LeaseBound == 0 {
		cfg.LeaseBound = 30 * time.Second
	}
	if cfg.WaitFor == 0 {
		cfg.WaitFor = 2 * time.Second
	}
	if cfg.DrainFor == 0 {
		cfg.DrainFor = 15 * time.Second
	}
	if cfg.Clock == nil {
		started := time.Now()
		cfg.Clock = func() time.Duration { return time.Since(started) }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	r := &Service{cfg: cfg, db: cfg.DB, keys: cfg.Keys, began: cfg.Clock()}
	var err error
	if r.leases, err = newLeases(ctx, &r.cfg); err != nil {
		return nil, fmt.Errorf("cannot open the nodes: %w", err)
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(r.supersededPolls); err != nil {
			return nil, fmt.Errorf("cannot open the nodes: %w", err)
		}
	}
	return r, nil
}
