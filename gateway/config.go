package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/gateway/api"
	"muniment/gateway/snapshot"
	"muniment/sealer"
)

// Log is the durable log that a gateway writes to and reads its own answers from.
// Safe for concurrent use. The contract of each method is pipeline.Log's, but a log may
// lose what is only read for answers to idempotent retries: then Append's position is
// the zero one, or the error of Read is fs.ErrNotExist and Scan passes over the record,
// and the key is forgotten. The receipt stands all the same, and the log tells operators.
type Log interface {
	// Append returns once the record is durable. On an error nothing is promised. The
	// record's slices and strings are the caller's again when it returns.
	Append(ctx context.Context, r *sealer.Record) (sealer.Position, error)
	// Read returns the record at a position; the caller owns it.
	Read(ctx context.Context, at sealer.Position) (sealer.Entry, error)
	// Scan calls fn for every record of from ≤ position < to, in order.
	Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error
	// Bounds returns the first position still held and the one behind the last.
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
}

// DefaultAppendTimeout is how long a delivery may take.
const DefaultAppendTimeout = 5 * time.Second

// Config configures a Gateway. NodeID, Rights and Log are required, and Signer and
// DialControl unless it serves the sandbox alone (Gateway.RunInside).
type Config struct {
	// NodeID is this node's id, Epoch the number of its start: with a sequence number
	// they head each record it writes.
	NodeID string
	Epoch  uint64
	// Version of the program, for GET /v1. Default "devel".
	Version string
	// Rights is the node's view of rights and keys. Whoever made it runs it.
	Rights *snapshot.View
	Log    Log
	// Partitions are those of Log that hold this node's events. Default: 0 alone.
	Partitions []int32
	// Signer lends the key that signs receipts of a moment. The key stands in the
	// directory already, and its window holds the moment: keys are rotated by lending
	// another. done is called once what was signed is durable or given up. Signer may
	// wait until ctx is done; its errors are answered with 503. Safe for concurrent
	// use.
	Signer func(ctx context.Context, at time.Time) (s *sealer.Signer, done func(), err error)
	// SandboxSigner is Signer for the sandbox's tenants: its keys sign their receipts and
	// no others. Without it their deliveries are refused.
	SandboxSigner func(ctx context.Context, at time.Time) (s *sealer.Signer, done func(), err error)
	// IsSandbox says whether a tenant is one of the sandbox; its errors are returned by
	// Gateway.Deliver, which serves no other. Required with SandboxSigner.
	IsSandbox func(ctx context.Context, tenantID string) (bool, error)
	// DialControl opens a connection to control, which speaks HTTP/1.1 on it.
	DialControl func() (net.Conn, error)
	// Spell has the errors of some paths in an envelope of their own, as they are sent; ok
	// is false for all others, and it is not asked where the head of a request could not be
	// read. It must not wait. Nil: there are no such paths.
	Spell func(path string, e *api.Error) (status int, body []byte, ok bool)
	// TLS is served on every connection; nil is plain HTTP, behind a proxy. It may
	// answer with other certificates over time.
	TLS *tls.Config

	// MaxConns bounds the open connections. Default 16,384.
	MaxConns int
	// MaxConnsPerIP bounds those of one IPv4 address or IPv6 /64. Default 0: no
	// bound, as all connections of a proxy come from one address.
	MaxConnsPerIP int
	// MaxInFlight bounds the requests being answered, at 503 OVERLOADED. Default
	// 4,096.
	MaxInFlight int
	// MaxTenantInFlight bounds the deliveries of one tenant being answered, at 429.
	// Default a quarter of MaxInFlight.
	MaxTenantInFlight int
	// MaxForwards bounds the requests that control is answering. Default 512.
	MaxForwards int
	// TrustedProxies is how many proxies of our own a request passes before this node:
	// control is told the address that the first of them saw. Default 0: the connection's.
	TrustedProxies int
	// BusyPause is how long the answer to a request above one of these three is held
	// back, give or take half of it. Default 1 s.
	BusyPause time.Duration
	// BusyTurn is the time between two deliveries of a tenant that was above its bound
	// within the last second, as long as tenants within theirs deliver. Default 4 ms
	// divided by Processors.
	BusyTurn time.Duration
	// Processors is how many the process may use. Default runtime.GOMAXPROCS(0), which is
	// too many where that was raised.
	Processors int
	// MaxStreams bounds the long answers of control that clients are reading; one
	// tenant, or one address where there is no key, has at most a sixteenth of them.
	// Default 256.
	MaxStreams int

	// ReadTimeout bounds how long a request may take to arrive. Default 10 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds each single write of an answer. Default 10 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a quiet connection is kept. Default 60 s.
	IdleTimeout time.Duration
	// AppendTimeout bounds how long a delivery waits for the right, the log, and an
	// earlier answer's record. Default DefaultAppendTimeout.
	AppendTimeout time.Duration
	// ControlTimeout bounds how long control may be silent while it answers. Default
	// 60 s.
	ControlTimeout time.Duration

	// IdempotencyEntries bounds the keys that are remembered, 50 to 80 bytes each.
	// Default 5,000,000.
	IdempotencyEntries int
	// IdempotencyWait bounds how long a request waits for an earlier one with its
	// key. Default 5 s.
	IdempotencyWait time.Duration

	// DrainDelay, DrainGrace and DrainTimeout: see Gateway.Run. Defaults 0, 1 s, 10 s.
	DrainDelay, DrainGrace, DrainTimeout time.Duration

	// Now reads the clock that receipts are dated by. Default time.Now.
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c *Config) complete() error {
	switch {
	case c.NodeID == "":
		return errors.New("gateway: NodeID is empty")
	case c.Rights == nil:
		return errors.New("gateway: Rights is missing")
	case c.Log == nil:
		return errors.New("gateway: Log is missing")
	case c.Signer == nil && c.SandboxSigner == nil:
		return errors.New("gateway: Signer is missing")
	case (c.SandboxSigner == nil) != (c.IsSandbox == nil):
		return errors.New("gateway: SandboxSigner and IsSandbox go together")
	case c.DialControl == nil && c.SandboxSigner == nil:
		return errors.New("gateway: DialControl is missing")
	}
	for _, n := range []struct {
		name  string
		value *int
		usual int
	}{
		{"MaxConns", &c.MaxConns, 16_384},
		{"MaxConnsPerIP", &c.MaxConnsPerIP, 0},
		{"MaxInFlight", &c.MaxInFlight, 4_096},
		{"MaxForwards", &c.MaxForwards, 512},
		{"TrustedProxies", &c.TrustedProxies, 0},
		{"MaxStreams", &c.MaxStreams, 256},
		{"Processors", &c.Processors, runtime.GOMAXPROCS(0)},
		{"IdempotencyEntries", &c.IdempotencyEntries, 5_000_000},
	} {
		if *n.value < 0 {
			return fmt.Errorf("gateway: %s is negative", n.name)
		}
		if *n.value == 0 {
			*n.value = n.usual
		}
	}
	if c.MaxTenantInFlight < 0 {
		return errors.New("gateway: MaxTenantInFlight is negative")
	}
	if c.MaxTenantInFlight == 0 {
		c.MaxTenantInFlight = max(1, c.MaxInFlight/4)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{
		{"BusyPause", &c.BusyPause, time.Second},
		{"BusyTurn", &c.BusyTurn, 4 * time.Millisecond / time.Duration(c.Processors)},
		{"ReadTimeout", &c.ReadTimeout, 10 * time.Second},
		{"WriteTimeout", &c.WriteTimeout, 10 * time.Second},
		{"IdleTimeout", &c.IdleTimeout, time.Minute},
		{"AppendTimeout", &c.AppendTimeout, DefaultAppendTimeout},
		{"ControlTimeout", &c.ControlTimeout, time.Minute},
		{"IdempotencyWait", &c.IdempotencyWait, 5 * time.Second},
		{"DrainDelay", &c.DrainDelay, 0},
		{"DrainGrace", &c.DrainGrace, time.Second},
		{"DrainTimeout", &c.DrainTimeout, 10 * time.Second},
	} {
		if *d.value < 0 {
			return fmt.Errorf("gateway: %s is negative", d.name)
		}
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	c.Version = cmp.Or(c.Version, "devel")
	if c.Partitions == nil {
		c.Partitions = []int32{0}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return nil
}
