// Package plane is the control plane of a process: control with every service that has operations, tables, jobs or
// periodic tasks, each opened with those that it builds on, and the nodes that issue receipts inside the process: the
// sandbox's, and the one that delivers held rows. The embedded service and each control process of a scaled one run
// the same plane; what differs is in Config.
//
// A new service of control is opened here, and listed in services.go with its sweeps, its jobs, and how it is
// restored from events.
package plane

import (
	"context"
	"crypto/x509"
	"log/slog"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control"
	"muniment.example/control/node"
	"muniment.example/control/objects"
	"muniment.example/control/operator"
	"muniment.example/control/proof"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/deploy/process"
	"muniment.example/gateway"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/localnode"
	"muniment.example/pipeline"
	"muniment.example/pipeline/drift"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
)

// Config configures the control plane.
type Config struct {
	DB  *store.DB
	Log pipeline.OrderedLog
	// Deliveries is Log for the nodes of this process.
	Deliveries issue.Log
	Warehouse  interface {
		pipeline.Warehouse
		pipeline.RuleCounter
		drift.Auditor
	}
	// Data is the folder of keys, and PacksDir the one of packs, unless Packs keeps them.
	Data, PacksDir string
	Packs          objects.Place
	// OwnKeys is signing.Config.OwnFolder.
	OwnKeys    bool
	LeaseBound time.Duration
	NodeCA     func() *x509.CertPool // nil: nodes join by invitations alone
	Token      string                // of operators
	// AdminTLS says that the operators' listener has TLS.
	AdminTLS bool
	Flags    Flags
	RowAge   time.Duration // how long ago the play of a row may be
	// Listening is the URL of this process's listener for the API: links begin with it unless Flags name another.
	Listening string
	LogKeep   time.Duration // as --keep has it; 0: Kafka's, 7 days
	// LogKept is how long a record stays in the log at most.
	LogKept func(context.Context) (time.Duration, error)
	// SealWorkers is proof.Config.Workers.
	SealWorkers func() int
	// Shared says that other processes may have the same database.
	Shared bool
	// Embedded says that this process has all nodes, and one of them answers the API.
	Embedded   bool
	Logger     *slog.Logger
	Registerer *prometheus.Registry
	Tracer     *trace.Tracer
}

// PacksFolder is where a data folder keeps proof packs.
const PacksFolder = "packs"

// Plane is control with all of its services, and with the nodes of this process.
type Plane struct {
	*control.Control
	services
	cfg Config

	checking atomic.Bool          // this process checks for drift
	drifts   *prometheus.Registry // the metrics of that check

	// The nodes of this process that issue receipts for control, and how they reach it.
	sandboxNode, heldNode *localnode.Node
	inside                *process.Inside
	client                *http.Client
}

// InsideURL is control for the nodes of this process.
const InsideURL = "http://localhost"

// Open opens the services, each with those that it builds on.
func Open(ctx context.Context, cfg Config) (_ *Plane, err error) {
	p := &Plane{cfg: cfg, inside: process.NewInside()}
	p.client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.inside.Dial() }}}
	p.sandboxNode = localnode.New(p.localNode(p.identities("the sandbox's node", "sandbox", func(ctx context.Context) (node.Invitation, error) {
		return p.nodes.InviteSandbox(ctx)
	}), true))
	p.heldNode = localnode.New(p.localNode(p.identities("the node that delivers held rows", "held", p.invite), false))
	for _, open := range []func(context.Context) error{p.openRights, p.openEvidence, p.openTenants, p.openSandbox, p.openAccess, p.openOperators, p.openConsole} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	check, queueCheck, err := driftCheck(cfg, p.packs, p.statements, p.drifts, &p.checking)
	if err != nil {
		return nil, err
	}
	p.Control, err = control.New(control.Config{
		DB: cfg.DB, Keys: p.keys, Nodes: p.nodes, Tenants: p.tenants, Ingest: p.ingest, Packs: p.packs, Sandbox: p.visitors, Access: p.access, Operators: p.operators, Console: p.console, Payees: p.payees, Requests: p.requests, DeliverSandbox: p.deliverSandboxed, SandboxRows: p.SandboxRows, Log: cfg.Log,
		Services: p.all(), Sweeps: append(p.sweeps(cfg.Warehouse), queueCheck), Workers: append(p.workers(), check),
		AdminToken: cfg.Token, Logger: cfg.Logger, Registerer: cfg.Registerer, Tracer: cfg.Tracer,
	})
	return p, err
}

// localNode configures a node of this process. Of these the metrics of one are shown: of the
// node that answers the API if there is one, else of the sandbox's.
func (p *Plane) localNode(identities localnode.Identities, sandbox bool) localnode.Config {
	cfg := localnode.Config{
		Identities: identities, Sandbox: sandbox, LeaseBound: p.cfg.LeaseBound, RowAge: p.cfg.RowAge, Log: p.cfg.Deliveries, Logger: p.cfg.Logger, Registerer: prometheus.NewRegistry(),
	}
	if sandbox && !p.cfg.Embedded {
		cfg.Registerer = p.cfg.Registerer
	}
	return cfg
}

// identities are those of a node of this process, in a folder of the data folder.
func (p *Plane) identities(name, folder string, invite func(context.Context) (node.Invitation, error)) localnode.Identities {
	return localnode.Identities{
		Name: name, Dir: filepath.Join(p.cfg.Data, folder), Control: InsideURL, Client: p.client, Logger: p.cfg.Logger,
		Invite: func(ctx context.Context) (string, time.Time, error) {
			v, err := invite(ctx)
			return v.Token, v.ExpiresAt.Time, err
		},
	}
}

// invite lets a node of this process join that signs receipts.
func (p *Plane) invite(ctx context.Context) (node.Invitation, error) {
	return p.nodes.Invite(ctx, store.BySystem())
}

// OwnNode are the identities of the node by which this process answers the API.
func (p *Plane) OwnNode() localnode.Identities {
	return p.identities("the node of this process", "node", p.invite)
}

// Client reaches control at InsideURL, without a port.
func (p *Plane) Client() *http.Client { return p.client }

// HeldNode delivers held rows: it has to be run, or to be given the issuer of the process's own node.
func (p *Plane) HeldNode() *localnode.Node { return p.heldNode }

// Hold is gateway.Config.Hold.
func (p *Plane) Hold(ctx context.Context, q api.HoldRequest) ([]api.HeldResult, error) {
	return p.ingest.Hold(ctx, q)
}

// AnnounceErasures has the warehouse know what is erased. It is due before anything is loaded.
func (p *Plane) AnnounceErasures(ctx context.Context) error { return p.erased.Announce(ctx) }

// AnyTenant reports whether there is a tenant.
func (p *Plane) AnyTenant(ctx context.Context) (bool, error) { return p.tenants.Any(ctx) }

// RunStreams serves what the playground's pages follow, and ends with the listeners.
func (p *Plane) RunStreams(ctx context.Context) error { return p.watched.Run(ctx) }

// AtOperators are the handlers of the operators' listener.
func (p *Plane) AtOperators() map[string]http.Handler {
	h := p.Admin()
	return map[string]http.Handler{"/admin/": h, operator.Path: h, operator.Path + "/": h}
}

// ServeNodes lets the nodes of this process reach control.
func (p *Plane) ServeNodes(on *process.Parts) {
	on.Run("control's listener for nodes of this process", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, p.client.CloseIdleConnections)()
		return process.Serve(ctx, p.inside, p.Nodes())
	})
}

// Start starts control's background work, until the process ends.
func (p *Plane) Start(background *process.Parts) {
	background.Run("the outbox relay", p.Run)
	background.Run("the webhooks", p.hooks.Run)
	background.Run("the sandbox's node", p.sandboxNode.Run)
}

// KeptFor is how long a record may stay in a log that keeps its segments for so long: an hour
// is added for the pause between two checks, and for a process that restarts.
func KeptFor(keep time.Duration) time.Duration { return segment.Kept(keep) + time.Hour }

// Notes show operators how far the warehouse is, what holds sealing, and for how long the root
// has delegated. None of these makes control unready.
func (p *Plane) Notes(log pipeline.Reader, warehouse pipeline.Sink) []gateway.Note {
	return []gateway.Note{
		{Name: "warehouse", Status: func(ctx context.Context) (string, error) { return loadedUpTo(ctx, log, warehouse) }},
		{Name: "sealing", Status: p.packs.Holds},
		{Name: "delegation", Status: p.keys.DelegationStatus},
	}
}

// loadedUpTo names the position after the last loaded record of each partition.
func loadedUpTo(ctx context.Context, log pipeline.Reader, warehouse pipeline.Sink) (string, error) {
	n, err := log.Partitions(ctx)
	var ends []string
	for partition := range int32(n) {
		next, loaded, away := warehouse.Resume(ctx, partition)
		if err = away; err != nil {
			break
		}
		if loaded {
			ends = append(ends, next.String())
		}
	}
	if err != nil || len(ends) == 0 {
		return "holds nothing yet", err
	}
	return "loaded up to " + strings.Join(ends, ", "), nil
}

// driftJob is the kind of a job that never ends: the process that has its lease checks for
// drift.
const driftJob = "drift.check"

// driftCheck returns the worker of the job, and the sweep that queues it. checking is true while this
// process has the job. metrics takes the metrics of the check, which are the process's, too.
func driftCheck(cfg Config, packs *proof.Service, statements *statement.Service, metrics *prometheus.Registry, checking *atomic.Bool) (control.Worker, control.Sweep, error) {
	checker, err := drift.New(drift.Config{
		Log: cfg.Log, Loaded: cfg.Warehouse.Resume, Auditor: cfg.Warehouse,
		NextPack: func(ctx context.Context, after string) (*drift.Pack, error) {
			p, found, err := packs.PackAfter(ctx, after)
			if err != nil || !found {
				return nil, err
			}
			audited, err := auditedPack(p)
			if err == nil {
				var of proof.Stored
				of, err = packs.Sums.Stored(ctx, p)
				audited.Hours, audited.Days = of.Hours, of.Days
				audited.RenderedByHour = drift.Rendered{First: of.FirstByHour, Last: of.LastByHour}
				audited.RenderedByDay = drift.Rendered{First: of.FirstByDay, Last: of.LastByDay}
			}
			return audited, err
		},
		Metering: cfg.Warehouse.Metering, MeterTotals: cfg.Warehouse.MeterTotals, Recount: packs.RecountSums,
		NextStatement: func(ctx context.Context, after string) (*drift.Statement, error) {
			s, err := statements.IssuedAfter(ctx, after)
			if err != nil || s == nil {
				return nil, err
			}
			at, _ := sealer.ParsePosition(s.AsOf) // Restate checks it
			return &drift.Statement{ID: s.ID, TenantID: s.TenantID, Currency: s.Currency, AsOf: at}, nil
		},
		Restate: func(ctx context.Context, s *drift.Statement) (*drift.Difference, error) {
			apart, err := statements.Restate(ctx, s.TenantID, s.ID)
			return (*drift.Difference)(apart), err
		},
		Logger: cfg.Logger, Registerer: metrics,
	})
	if err == nil {
		err = cfg.Registerer.Register(metrics)
	}
	work := control.Worker{Kind: driftJob, AtOnce: 1, Attempts: math.MaxInt, Do: func(ctx context.Context, _ *store.Job) error {
		checking.Store(true)
		defer checking.Store(false)
		checker.Run(ctx)
		return ctx.Err() // not done: the next process goes on
	}}
	queue := control.Sweep{Name: "queue the check for drift", Every: 10 * time.Minute, Do: func(ctx context.Context) error {
		_, err := cfg.DB.Jobs.Enqueue(ctx, store.NewJob{Kind: driftJob, TenantID: api.SystemTenant, Key: driftJob})
		return err
	}}
	return work, queue, err
}

// auditedPack is a pack as the check compares it.
func auditedPack(p proof.Pack) (*drift.Pack, error) {
	h, err := pack.ParseHeader(p.Header)
	if err != nil {
		return nil, err
	}
	return &drift.Pack{ID: p.ID, TenantID: p.TenantID, First: p.First, Last: p.Last, Count: int64(p.Count), Metering: h.Metering}, nil
}
