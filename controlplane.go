package main

import (
	"context"
	"crypto/x509"
	"fmt"
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
	"muniment.example/control/sandbox"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/gateway"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/localnode"
	"muniment.example/pipeline"
	"muniment.example/pipeline/drift"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
)

// planeConfig configures the control plane.
type planeConfig struct {
	DB  *store.DB
	Log pipeline.Log
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
	Sandbox  sandbox.Flags
	Webhook  webhookFlags
	Seal     sealFlags
	RowAge   time.Duration // how long ago the play of a row may be
	Exports  exportFlags
	Mail     mailFlags
	// PublicURL is where callers reach the API, for links.
	PublicURL string
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

// packsFolder is where a data folder keeps proof packs.
const packsFolder = "packs"

// plane is control with all of its services, and with the nodes of this process.
type plane struct {
	*control.Control
	services
	cfg planeConfig

	checking atomic.Bool          // this process checks for drift
	drifts   *prometheus.Registry // the metrics of that check

	// The nodes of this process that issue receipts for control, and how they reach it.
	sandboxNode, heldNode *localnode.Node
	inside                *insideListener
	client                *http.Client
}

// insideURL is control for the nodes of this process.
const insideURL = "http://localhost"

// openPlane opens the services, each with those that it builds on.
func openPlane(ctx context.Context, cfg planeConfig) (_ *plane, err error) {
	p := &plane{cfg: cfg, inside: newInsideListener()}
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
		DB: cfg.DB, Keys: p.keys, Nodes: p.nodes, Tenants: p.tenants, Ingest: p.ingest, Packs: p.packs, Sandbox: p.visitors, Access: p.access, Operators: p.operators, Console: p.console, DeliverSandbox: p.deliverSandboxed, SandboxRows: p.sandboxRows, Log: cfg.Log,
		Services: p.all(), Sweeps: append(p.sweeps(), queueCheck), Workers: append(p.workers(), check),
		AdminToken: cfg.Token, Logger: cfg.Logger, Registerer: cfg.Registerer, Tracer: cfg.Tracer,
	})
	return p, err
}

// localNode configures a node of this process. Of these the metrics of one are shown: of the
// node that answers the API if there is one, else of the sandbox's.
func (p *plane) localNode(identities localnode.Identities, sandbox bool) localnode.Config {
	cfg := localnode.Config{
		Identities: identities, Sandbox: sandbox, LeaseBound: p.cfg.LeaseBound, RowAge: p.cfg.RowAge, Log: p.cfg.Deliveries, Logger: p.cfg.Logger, Registerer: prometheus.NewRegistry(),
	}
	if sandbox && !p.cfg.Embedded {
		cfg.Registerer = p.cfg.Registerer
	}
	return cfg
}

// identities are those of a node of this process, in a folder of the data folder.
func (p *plane) identities(name, folder string, invite func(context.Context) (node.Invitation, error)) localnode.Identities {
	return localnode.Identities{
		Name: name, Dir: filepath.Join(p.cfg.Data, folder), Control: insideURL, Client: p.client, Logger: p.cfg.Logger,
		Invite: func(ctx context.Context) (string, time.Time, error) {
			v, err := invite(ctx)
			return v.Token, v.ExpiresAt.Time, err
		},
	}
}

// invite lets a node of this process join that signs receipts.
func (p *plane) invite(ctx context.Context) (node.Invitation, error) {
	return p.nodes.Invite(ctx, store.BySystem())
}

// atOperators are the handlers of the operators' listener.
func (p *plane) atOperators() map[string]http.Handler {
	h := p.Admin()
	return map[string]http.Handler{"/admin/": h, operator.Path: h, operator.Path + "/": h}
}

// serveNodes lets the nodes of this process reach control.
func (p *plane) serveNodes(on *parts) {
	on.run("control's listener for nodes of this process", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, p.client.CloseIdleConnections)()
		return serve(ctx, p.inside, p.Nodes())
	})
}

// run starts control's background work, until the process ends.
func (p *plane) run(background *parts) {
	background.run("the outbox relay", p.Run)
	background.run("the webhooks", p.hooks.Run)
	background.run("the sandbox's node", p.sandboxNode.Run)
}

// keptFor is how long a record may stay in a log that keeps its segments for so long: an hour
// is added for the pause between two checks, and for a process that restarts.
func keptFor(keep time.Duration) time.Duration { return segment.Kept(keep) + time.Hour }

// notes show operators how far the warehouse is, what holds sealing, and for how long the root
// has delegated. None of these makes control unready.
func (p *plane) notes(log pipeline.Reader, warehouse pipeline.Sink) []gateway.Note {
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

// behind notes how far the loader of this process is behind the log.
func behind(loader *pipeline.Loader) gateway.Note {
	return gateway.Note{Name: "loader", Status: func(ctx context.Context) (string, error) {
		lag, err := loader.Lag(ctx)
		return fmt.Sprintf("%d records behind the log", lag), err
	}}
}

// driftJob is the kind of a job that never ends: the process that has its lease checks for
// drift.
const driftJob = "drift.check"

// driftCheck returns the worker of the job, and the sweep that queues it. checking is true while this
// process has the job. metrics takes the metrics of the check, which are the process's, too.
func driftCheck(cfg planeConfig, packs *proof.Service, statements *statement.Service, metrics *prometheus.Registry, checking *atomic.Bool) (control.Worker, control.Sweep, error) {
	checker, err := drift.New(drift.Config{
		Log: cfg.Log, Loaded: cfg.Warehouse.Resume, Auditor: cfg.Warehouse,
		NextPack: func(ctx context.Context, after string) (*drift.Pack, error) {
			p, found, err := packs.PackAfter(ctx, after)
			if err != nil || !found {
				return nil, err
			}
			return auditedPack(p)
		},
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
		_, err := cfg.DB.Enqueue(ctx, store.NewJob{Kind: driftJob, TenantID: api.SystemTenant, Key: driftJob})
		return err
	}}
	return work, queue, err
}

// auditedPack is a pack as the check compares it.
func auditedPack(p proof.Pack) (*drift.Pack, error) {
	h, err := sealer.ParsePackHeader(p.Header)
	if err != nil {
		return nil, err
	}
	return &drift.Pack{ID: p.ID, TenantID: p.TenantID, First: p.First, Last: p.Last, Count: int64(p.Count), Metering: h.Metering}, nil
}
