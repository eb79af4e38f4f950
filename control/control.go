// Package control is the control process: it serves the operations of all services.
//
// A service adds its operations to the API (Service, package route); control does not depend on
// what they do. It gives every request an id, authenticates the caller by the operation's Access,
// and reads the body strictly, as I-JSON (RFC 7493): no name twice, no invalid UTF-8 or U+0000, no
// trailing bytes, at most 32 levels deep, 1 MiB long, and 10,000 names and values. Every list and
// every text has a limit of its own in its schema. Unknown members are refused at every depth (names.go);
// a PUT or PATCH may have a record's read-only members, as they are stored. So are unknown parameters of
// a query, and cursors of other lists: each may be a misspelt filter. Nodes' unknown members are ignored,
// so that a fleet can be upgraded node by node. Names are case-sensitive, and the header Content-Type is
// ignored. All errors use the contract's envelope. An internal fault is logged, at most once a second for
// each operation, and its response has a fixed text; refusals are only counted. At debug level each
// request is logged.
//
// There are three handlers, each on a listener or a part of one: for keys and visitors, for
// operators, and for nodes. Control doesn't start with an operation whose access its handler can't
// check. Under the sandbox's paths, and those of control/access, all errors are in the sandbox's
// envelope, also for unknown paths.
//
// A tenant has a limit of requests in flight (limit.go), a lower one for operations that are Heavy.
//
// A POST under /v1 may have an Idempotency-Key (idempotency.go). For 24 hours the same request with
// the same key, by the same API key and to the same path, gets the bytes of the first response
// again, with the header "Idempotent-Replayed: true", and has no second effect, even after kill -9
// (store/idempotency.go). Only responses of 200 are kept; a refusal frees the key. Another body or
// query is 409. So is a request while the first is running, with Retry-After. After a minute the
// first is considered lost: if it had no effect the next one runs, otherwise it is 409 without
// Retry-After, as it is if the response was longer than 1 MiB. Responses are kept encrypted under
// keys derived from the Idempotency-Key and the API key (for pages of this process: the id of who acts). A tenant may use 100,000 keys and 256 MiB
// of responses in 24 hours; a further key is 429. On a full disk no key can be kept: an operation
// that Stops something runs without it, and all others are 503. This does not apply to deliveries,
// which the gateway serves, nor to operators, nodes and the sandbox's own routes.
//
// The operations that the services declare, and those that the gateway serves itself (document.go),
// are documented at /openapi.json, at /openapi-3.0.json, and as a page at /docs. All are public. The
// first request for one writes it.
//
// Control also relays the outbox to the log (Run), and is the source of rights and keys for the
// nodes: Source in this process, Nodes over HTTP. Background work of services is a Sweep, which
// runs periodically, or a Worker, which does the jobs that changes have queued (store/jobs.go).
//
// huma keeps two settings per process: how errors are made, and whether names are case-sensitive.
// New sets them, to the same values for every Control.
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

	"muniment.example/control/access"
	"muniment.example/control/challenge"
	"muniment.example/control/dispute"
	"muniment.example/control/dsar"
	"muniment.example/control/erasure"
	"muniment.example/control/ingest"
	"muniment.example/control/member"
	"muniment.example/control/node"
	"muniment.example/control/offer"
	"muniment.example/control/operator"
	"muniment.example/control/payable"
	"muniment.example/control/payeelink"
	"muniment.example/control/proof"
	"muniment.example/control/requests"
	"muniment.example/control/right"
	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/control/settle"
	"muniment.example/control/signing"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/control/webhook"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/trace"
)

// Service adds operations to the API.
type Service interface {
	Routes(route.API)
}

// Config of control. DB, Keys, Nodes, Tenants and Log are required.
type Config struct {
	DB    *store.DB
	Keys  *signing.Service
	Nodes *node.Service
	// Tenants creates tenants for the admin listener.
	Tenants *tenant.Service
	// Ingest holds rows for the nodes; nil leaves that operation out.
	Ingest *ingest.Service
	// Packs seals before a signing key is revoked; nil seals nothing.
	Packs *proof.Service
	// Sandbox lets operators rotate the secret of its cookies, and counts requests to unknown
	// paths; nil: there is no sandbox.
	Sandbox *sandbox.Service
	// Access lets operators decide on applications for keys of the sandbox; nil leaves that out.
	Access *access.Service
	// Operators is the operators' page; nil leaves it out.
	Operators *operator.Service
	// Console serves the tenants' pages, at /console; nil leaves them out.
	Console http.Handler
	// Payees serves the pages of payees' links, at /payee; nil leaves them out.
	Payees http.Handler
	// DeliverSandbox issues receipts for tenants of the sandbox; nil: their keys can't deliver.
	DeliverSandbox DeliverSandbox
	// SandboxRows issues rows of their batches for the nodes; nil leaves that operation out.
	SandboxRows func(ctx context.Context, req api.SandboxRows) ([]api.SandboxRow, error)
	// Requests counts refused requests and uses of keys; nil counts none.
	Requests *requests.Service
	// Services are all services of the API, Keys and Tenants among them.
	Services []Service
	// Log is the log to which Run relays the outbox.
	Log store.Appender
	// Sweeps and Workers are the background work of services, which Run runs.
	Sweeps  []Sweep
	Workers []Worker
	// AdminToken is the token of the admin handler; if it is empty all requests there are refused.
	AdminToken string
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Logger; default slog.Default.
	Logger *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
	// Tracer traces some requests; nil traces none.
	Tracer *trace.Tracer
}

// Control is safe for concurrent use.
type Control struct {
	cfg     Config
	callers *handler
	admin   *handler
	nodes   *handler
}

// New returns the control process of the services. It starts nothing.
func New(cfg Config) (*Control, error) {
	switch {
	case cfg.DB == nil:
		return nil, errors.New("cannot open control: DB is missing")
	case cfg.Keys == nil:
		return nil, errors.New("cannot open control: Keys is missing")
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
		Sweep{Name: "forget old idempotency keys", Every: time.Minute, Do: cfg.DB.Attempts.Forget},
		Sweep{Name: "forget old failed jobs", Every: time.Hour, Do: cfg.DB.Jobs.Forget},
	)
	useContractErrors()
	c := &Control{
		cfg: cfg,
		callers: newHandler(cfg, seconds, byKey(keys{cfg.DB}, func(ctx context.Context, id string) (api.Scopes, error) {
			return member.ScopesInForce(ctx, cfg.DB.Read(), id, cfg.Now())
		}, cfg.Now)),
		admin: newHandler(cfg, seconds, byToken(cfg.AdminToken)),
		nodes: newHandler(cfg, seconds, byNode(cfg.Nodes)),
	}
	c.callers.sandbox, c.callers.requests, c.callers.keys = cfg.Sandbox, cfg.Requests, keys{cfg.DB}
	c.nodes.ofNodes = true
	c.admin.origins = http.NewCrossOriginProtection()
	for _, service := range cfg.Services {
		service.Routes(c.callers.api)
	}
	if cfg.Console != nil {
		c.callers.mount("console", "/console", cfg.Console)
	}
	if cfg.Payees != nil {
		c.callers.mount("payee-page", payeelink.Path, cfg.Payees)
	}
	if cfg.DeliverSandbox != nil {
		deliveries{cfg.DeliverSandbox}.Routes(c.callers.api)
	}
	newDocs(c.callers.api.OpenAPI()).Routes(c.callers.api)
	describeEdge(c.callers.elsewhere)
	c.operatorRoutes(c.admin.api)
	c.nodeRoutes(c.nodes.api)
	for _, d := range []*handler{c.callers, c.admin, c.nodes} {
		if err := errors.Join(d.undeclared...); err != nil {
			return nil, fmt.Errorf("cannot open control: %w", err)
		}
	}
	declareCommon(c.callers.api.OpenAPI())
	return c, nil
}

// Handler serves every route of the services. It expects one trusted hop before it, the gateway,
// but authenticates requests itself.
func (c *Control) Handler() http.Handler { return c.callers }

// Admin serves /admin/…, for holders of the admin token, and the operators' page, on a listener that
// is not public. It refuses what a page of another origin sends that could change something.
func (c *Control) Admin() http.Handler { return c.admin }

// Nodes serves /nodes/…, for gateways in processes of their own, on a listener that is not public:
// see gateway/api for the protocol.
func (c *Control) Nodes() http.Handler { return c.nodes }

// Run relays audit events to the log, watches nodes and disk, and runs the services' sweeps and
// jobs, until ctx is done; then it returns nil.
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
		stop() // if one stops, all stop
	}
	return errors.Join(errs...)
}

func (c *Control) relay(ctx context.Context) error { return c.cfg.DB.Outbox.Relay(ctx, c.cfg.Log) }

// Tables are the tables of all services; a table that refers to another comes before it.
var Tables = slices.Concat(
	access.Tables, member.Tables, webhook.Tables, payeelink.Tables, payable.Tables, statement.Tables, sandbox.Tables, erasure.Tables, dsar.Tables, proof.Tables, ingest.Tables, challenge.Tables, dispute.Tables, offer.Tables, settle.Tables, right.Tables, requests.Tables, tenant.Tables, node.Tables, signing.Tables, store.OwnTables,
)
