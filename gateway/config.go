package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/snapshot"
	"muniment.example/pipeline/trace"
)

// Config configures a Gateway. Rights, Issuer and DialControl are required.
type Config struct {
	// Version of the program, for GET /v1. Default "devel".
	Version string
	// Rights is the node's view of rights and keys: here, of who is calling.
	Rights *snapshot.View
	// Issuer issues the receipts. The caller runs these two.
	Issuer *issue.Issuer
	// DialControl opens a connection to control, which speaks HTTP/1.1 on it: one function for each address, of
	// processes that have one database.
	DialControl []func() (net.Conn, error)
	// RenderError renders the errors of paths that have an envelope of their own; ok is false
	// for all other paths. It is not called for a request whose head could not be read, and
	// must not block. Nil: there are no such paths.
	RenderError func(path string, e *api.Error) (status int, body []byte, ok bool)
	// TLS is served on every connection; nil is plain HTTP, behind a proxy. It may
	// answer with other certificates over time.
	TLS *tls.Config

	// MaxConns bounds the open connections. Default 16,384.
	MaxConns int
	// MaxInFlight bounds the requests being answered, at 503 OVERLOADED. A quarter of it, and an eighth from one address, bounds
	// those whose keys the node has yet to look up, at 429. Default 4,096.
	MaxInFlight int
	// MaxTenantInFlight bounds the deliveries of one tenant being answered, at 429.
	// Default a quarter of MaxInFlight.
	MaxTenantInFlight int
	// MaxBatchBytes bounds the bodies of batches in memory, at 503 OVERLOADED; one tenant may
	// use half of it, at 429. Default 256 MiB.
	MaxBatchBytes int
	// Hold has control hold rows whose vendor's id has no mapping, and returns once they are
	// stored. Safe for concurrent use. Nil: such rows are rejected.
	Hold func(ctx context.Context, req api.HoldRequest) ([]api.HeldResult, error)
	// SandboxRows has control issue rows of batches of the sandbox's tenants, for which this node
	// has no key, and returns once their receipts are durable. Safe for concurrent use. Nil: such
	// batches are refused.
	SandboxRows func(ctx context.Context, req api.SandboxRows) ([]api.SandboxRow, error)
	// MaxForwards bounds the requests of tenants that control is answering, at 503 OVERLOADED. Default 512.
	MaxForwards int
	// TrustedProxies is how many proxies of our own a request passes before this node:
	// control gets the address that the first of them saw. Default 0: the connection's.
	TrustedProxies int
	// BusyPause is how long the answer to a request above one of these three is held
	// back, give or take half of it. Default 1 s.
	BusyPause time.Duration
	// BusyInterval is the time between two deliveries of a tenant that exceeded its limit
	// within the last second, while tenants within theirs deliver. Default 4 ms
	// divided by Processors.
	BusyInterval time.Duration
	// Processors is how many the process may use. Default runtime.GOMAXPROCS(0), which is
	// too many where that was raised.
	Processors int
	// MaxStreams bounds the requests of callers without a key that control is answering, with the long answers
	// that they are reading, and likewise those for pages, the console, downloads by links, and those of the sandbox; one address has
	// at most an eighth of each. Tenants have MaxForwards more than that together, and each of them a quarter of it. A quarter of all of
	// these is for requests that change something. Above them it is 429. Default 256.
	MaxStreams int
	// LeastRate is how many bytes of a long answer per second a client has to take, on average over each
	// RateWindow in which the gateway waits for it; otherwise the connection is closed. Defaults 8 KiB, 30 s.
	LeastRate  int
	RateWindow time.Duration

	// ReadTimeout bounds how long a request may take to arrive. Default 10 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds each single write of an answer. Default 10 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a quiet connection is kept. Default 60 s.
	IdleTimeout time.Duration
	// ControlTimeout bounds how long control may be silent while it answers, and how long it may take to read what is
	// written at a time. Default 60 s.
	ControlTimeout time.Duration

	// DrainDelay, DrainGrace and DrainTimeout: see Gateway.Run. Defaults 0, 1 s, 10 s.
	DrainDelay, DrainGrace, DrainTimeout time.Duration

	// Now reads the clock that arrivals are dated by, the issuer's. Default time.Now.
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Tracer traces some requests; nil traces none. The caller runs it.
	Tracer *trace.Tracer
}

func (c *Config) complete() error {
	switch {
	case c.Rights == nil:
		return errors.New("gateway: Rights is missing")
	case c.Issuer == nil:
		return errors.New("gateway: Issuer is missing")
	case len(c.DialControl) == 0:
		return errors.New("gateway: DialControl is missing")
	}
	for _, n := range []struct {
		name  string
		value *int
		usual int
	}{
		{"MaxConns", &c.MaxConns, 16_384},
		{"MaxInFlight", &c.MaxInFlight, 4_096},
		{"MaxBatchBytes", &c.MaxBatchBytes, 256 << 20},
		{"MaxForwards", &c.MaxForwards, 512},
		{"TrustedProxies", &c.TrustedProxies, 0},
		{"MaxStreams", &c.MaxStreams, 256},
		{"LeastRate", &c.LeastRate, 8 << 10},
		{"Processors", &c.Processors, runtime.GOMAXPROCS(0)},
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
		{"BusyInterval", &c.BusyInterval, 4 * time.Millisecond / time.Duration(c.Processors)},
		{"ReadTimeout", &c.ReadTimeout, 10 * time.Second},
		{"WriteTimeout", &c.WriteTimeout, 10 * time.Second},
		{"IdleTimeout", &c.IdleTimeout, time.Minute},
		{"ControlTimeout", &c.ControlTimeout, time.Minute},
		{"RateWindow", &c.RateWindow, 30 * time.Second},
		{"DrainDelay", &c.DrainDelay, 0},
		{"DrainGrace", &c.DrainGrace, time.Second},
		{"DrainTimeout", &c.DrainTimeout, DrainTimeout},
	} {
		if *d.value < 0 {
			return fmt.Errorf("gateway: %s is negative", d.name)
		}
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	c.Version = cmp.Or(c.Version, "devel")
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

// DrainTimeout is the default of Config.DrainTimeout.
const DrainTimeout = 10 * time.Second

// DoubleProcs gives Go twice as many Ps as there are processors, unless the environment
// says how many; it returns the number of processors. A blocked fdatasync holds a P until
// the runtime takes it back: with one P a processor, a gateway would stall.
func DoubleProcs() (processors int) {
	processors = runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * processors)
	}
	return processors
}
