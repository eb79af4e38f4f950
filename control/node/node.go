// Package node is the membership of nodes that sign receipts: who has joined, how far each
// node has followed the feed, and who was put out. Their keys, and all others, are
// control/signing's; this package asks nodes for what they alone know of theirs (keys.go).
//
// A node is live while its last poll of the feed is younger than the
// lease's bound: only then can it hold a lease and sign. A poll also reports what
// the node has applied. On a database of this process alone both are kept in memory:
// after a start of control every node in another process counts as live, with nothing
// applied, until it polls or the bound has passed, since it may still hold a lease that the
// last process gave it. Processes that share a database tell each other by it
// (polls.go). Time is taken from a clock that never steps: by the wall clock, setting
// it forward would make a node look dead that may sign. None of it decides how long a
// node signs: that is the node's own reckoning, and what is told here comes on top.
//
// There is one way to be a node (gateway/identity), in a process of its own or in one of
// control's: it joins by an invitation (join.go) or a certificate (certificate.go), asks by its
// credential, and may be put out for good (expel.go).
package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"muniment/control/signing"
	"muniment/control/store"
)

// Config of the service. DB and Keys are required.
type Config struct {
	DB *store.DB
	// Keys has the keys of nodes, too.
	Keys *signing.Service
	// Bound is the longest that a node signs after it last asked for the feed.
	// Default 30 s.
	Bound time.Duration
	// WaitFor is how long a suspension waits for the nodes. Default 2 s.
	WaitFor time.Duration
	// DrainFor is how long a rotation, a revocation or an expulsion waits for a node's word.
	// Default 15 s.
	DrainFor time.Duration
	// NodeCA returns the authorities by whose certificates nodes join. Default none: they join by
	// invitations alone.
	NodeCA func() *x509.CertPool
	// Clock reads a clock that never steps. It may stand still while the machine is
	// suspended: nodes count as live for longer then. Default Go's monotonic clock.
	Clock func() time.Duration
	// OwnNodes says that all nodes run in this process, as those of an embedded service: none
	// holds a lease that the last process gave it.
	OwnNodes bool
	// Logger; default slog.Default.
	Logger *slog.Logger
}

// Service is safe for concurrent use.
type Service struct {
	*leases
	cfg  Config
	db   *store.DB
	keys *signing.Service
}

// New opens the service, and learns who may hold a lease.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Keys == nil {
		return nil, errors.New("cannot open the nodes: DB or Keys is missing")
	}
	if cfg.Bound == 0 {
		cfg.Bound = 30 * time.Second
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
	r := &Service{cfg: cfg, db: cfg.DB, keys: cfg.Keys}
	var err error
	if r.leases, err = newLeases(ctx, &r.cfg); err != nil {
		return nil, fmt.Errorf("cannot open the nodes: %w", err)
	}
	return r, nil
}
