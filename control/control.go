// Package control is the control process: it puts the rooms of resources behind
// one door.
//
// A room adds its operations to the API (Room, package route); control knows nothing of what
// they do. At the door it gives every request an id, lets in whom the operation's Access names,
// and reads the body strictly: JSON by RFC 8259 as I-JSON (RFC 7493) has it, no name twice, no
// invalid UTF-8 or U+0000, nothing behind it, at most 32 levels deep, 1 MiB long, and of 10,000 names and values.
// Every list and every text has a bound of its own in its schema. Unknown members are
// accepted, but for one that is a known one misspelt. Names are exact in case, and the
// header Content-Type is not asked for. Under /v1 an unknown query parameter is refused: it
// may be a misspelt filter. Whatever goes wrong is told in the contract's envelope. A fault
// of the service is logged, at most once a second for each operation, and told to the caller
// by a fixed text; what is refused is only counted. At debug level each request is a line of
// the log.
//
// There are three doors, each a listener or a part of one: for keys and visitors, for operators,
// and for nodes. An operation whose access its door can't grant keeps control from starting.
// Under the sandbox's paths all errors are in the sandbox's envelope, of operations or of none.
//
// A tenant has a share of what can be in hand at a time (share.go), less of operations that
// are Heavy.
//
// A POST under /v1 may have an Idempotency-Key (idempotency.go). The same request with the
// same key, of the same API key and to the same path, gets the bytes of the first answer
// again for 24 hours, with the header "Idempotent-Replayed: true", and takes no second
// effect, also after kill -9 (store/idempotency.go). Only answers of 200 are kept; a refusal
// frees the key, and the next attempt is judged anew. Another body or query is 409. So is a
// request while the first is being answered, with Retry-After; after a minute the first is
// taken for dead: if it took no effect the next begins anew, else it is 409 without
// Retry-After, as it is for an answer of more than 1 MiB. Answers are kept encrypted under
// keys derived from the Idempotency-Key and the API key. A tenant may use 100,000 keys and
// 256 MiB of answers in 24 hours, then a further key is 429. On a full disk no key is taken;
// an operation that Stops something is carried out without it, and all others are 503.
// Deliveries, which the gateway answers, operators, nodes and the sandbox's own routes have no
// part in this.
//
// What the rooms declare is also the OpenAPI document at /openapi.json, together with the
// routes that the gateway answers itself (edge.go), and at /openapi-3.0.json; /docs is a page that
// shows it. All are written once, in New, and are public.
//
// Control also relays the outbox to the log (Run), and is the source of rights
// and keys for the nodes: Source in this process, Nodes over HTTP. What rooms do by
// themselves is a Sweep, which looks again and again what is due, or a Worker, which does
// the jobs that changes have queued (store/jobs.go, which shows how to add one).
//
// huma keeps two settings per process, how errors are made and whether names are
// compared in exact case; New sets them, the same for every Control.
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/ingest"
	"muniment/control/node"
	"muniment/control/proof"
	"muniment/control/route"
	"muniment/control/sandbox"
	"muniment/control/store"
	"muniment/control/tenant"
)

// Room adds operations to the API.
type Room interface {
	Routes(route.API)
}

// Config of control. DB, Nodes, Tenants and Log are required.
type Config struct {
	DB    *store.DB
	Nodes *node.Room
	// Tenants makes tenants for the admin listener.
	Tenants *tenant.Room
	// Ingest holds rows for the nodes; nil leaves that out.
	Ingest *ingest.Room
	// Packs seals before a signing key is revoked; nil seals nothing.
	Packs *proof.Room
	// Sandbox lets operators rotate the secret of its cookies, and counts requests for what
	// it doesn't have; nil does without.
	Sandbox *sandbox.Room
	// Rooms are all rooms that the API has, Nodes and Tenants among them.
	Rooms []Room
	// Log is where Run relays the outbox to.
	Log store.Appender
	// Sweeps are what rooms look after, and Workers do their jobs, as long as Run runs.
	Sweeps  []Sweep
	Workers []Worker
	// AdminToken opens the admin handler; while it is empty nothing does.
	AdminToken string
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Logger; default slog.Default.
	Logger *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// Control is safe for concurrent use.
type Control struct {
	cfg   Config
	door  *door
	admin *door
	nodes *door
}

// New puts the rooms behind the door. It starts nothing.
func New(cfg Config) (*Control, error) {
	switch {
	case cfg.DB == nil:
		return nil, errors.New("cannot open control: DB is missing")
	case cfg.Nodes == nil:
		return nil, errors.New("cannot open control: Nodes is missing")
	case cfg.Tenants == nil:
		return nil, errors.New("cannot open control: Tenants is missing")
	case cfg.Log == nil:
		return nil, errors.New("cannot open control: Log is missing")
	}
	for _, s := range cfg.Sweeps {
		if s.Every <= 0 || s.Do == nil {
			return nil, fmt.Errorf("cannot open control: the sweep %q has no Every or no Do", s.Name)
		}
	}
	cfg.Workers = slices.Clone(cfg.Workers)
	for i := range cfg.Workers {
		if err := cfg.Workers[i].validate(); err != nil {
			return nil, fmt.Errorf("cannot open control: %w", err)
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	seconds, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("cannot open control: %w", err)
	}
	cfg.Sweeps = append(slices.Clone(cfg.Sweeps),
		Sweep{Name: "forget old idempotency keys", Every: time.Minute, Do: cfg.DB.ForgetKeys},
		Sweep{Name: "forget old failed jobs", Every: time.Hour, Do: cfg.DB.ForgetJobs},
	)
	speakOurErrors()
	c := &Control{
		cfg:   cfg,
		door:  newDoor(cfg, seconds, byKey(keys{cfg.DB}, cfg.Now)),
		admin: newDoor(cfg, seconds, byToken(cfg.AdminToken)),
		nodes: newDoor(cfg, seconds, byNode(cfg.Nodes)),
	}
	c.door.sandbox = cfg.Sandbox
	for _, room := range cfg.Rooms {
		room.Routes(c.door.api)
	}
	var docs docs
	docs.Routes(c.door.api)
	describeEdge(c.door.elsewhere)
	c.operatorRoutes(c.admin.api)
	c.nodeRoutes(c.nodes.api)
	for _, d := range []*door{c.door, c.admin, c.nodes} {
		if err := errors.Join(d.undeclared...); err != nil {
			return nil, fmt.Errorf("cannot open control: %w", err)
		}
	}
	if err := docs.write(c.door.api.OpenAPI()); err != nil {
		return nil, fmt.Errorf("cannot open control: %w", err)
	}
	return c, nil
}

// Handler serves every route of the rooms. It expects one trusted hop before it,
// the gateway, and authenticates for itself.
func (c *Control) Handler() http.Handler { return c.door }

// Admin serves /admin/…, for whoever holds the admin token, on a listener that is
// not public.
func (c *Control) Admin() http.Handler { return c.admin }

// Nodes serves /nodes/…, for gateways in processes of their own, on a listener that
// is not public: see gateway/api for what they say to each other.
func (c *Control) Nodes() http.Handler { return c.nodes }

// Run relays audit events to the log, keeps an eye on nodes and disk, and does the rooms'
// sweeps and jobs, until ctx is done; then it returns nil.
func (c *Control) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	parts := []func(context.Context) error{c.cfg.Nodes.Follow, c.relay, c.cfg.DB.Watch}
	for _, s := range c.cfg.Sweeps {
		parts = append(parts, func(ctx context.Context) error { return c.repeat(ctx, s) })
	}
	for _, w := range c.cfg.Workers {
		parts = append(parts, func(ctx context.Context) error { return c.work(ctx, w) })
	}
	ended := make(chan error)
	for _, part := range parts {
		go func() { ended <- part(ctx) }()
	}
	var errs []error
	for range parts {
		errs = append(errs, <-ended)
		stop() // none goes on without the others
	}
	return errors.Join(errs...)
}

func (c *Control) relay(ctx context.Context) error { return c.cfg.DB.Relay(ctx, c.cfg.Log) }
