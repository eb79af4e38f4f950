package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muniment.example/control/sandbox"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/identity"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/snapshot"
	"muniment.example/pipeline"
	"muniment.example/pipeline/admission"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/keyfile"
)

type upCmd struct {
	serverFlags
	keysFlags

	Data   string        `default:"./muniment-data" help:"Data folder; created if it is missing." type:"path"`
	Listen string        `default:"127.0.0.1:8080" address:"" help:"Address of the API."`
	Admin  string        `default:"127.0.0.1:9090" address:"" help:"Address for operators: metrics, health, administration."`
	Bound  time.Duration `default:"30s" least:"1s" help:"How long the node signs without news of rights."`
	Keep   time.Duration `default:"168h" least:"25h" help:"How long the event log keeps what is loaded: answers to retries are rendered from it."`

	TLS      certs.ServerFlags `embed:"" prefix:"tls-" group:"TLS of the API:"`
	AdminTLS certs.ServerFlags `embed:"" prefix:"admin-tls-" group:"TLS of the address for operators:"`

	Sandbox sandbox.Flags `embed:"" prefix:"sandbox-" group:"Sandbox:"`
	Seal    sealFlags     `embed:"" group:"Sealing:"`
	Webhook webhookFlags  `embed:"" prefix:"webhook-" group:"Webhooks:"`
	Exports exportFlags   `embed:"" group:"Exports:"`
	Mail    mailFlags     `embed:"" prefix:"mail-" group:"Mail:"`
	Public  publicURLFlag `embed:""`

	TenantCap      int `least:"0" example:"256" help:"Most deliveries of one tenant in flight; more are answered 429; default: a quarter of what the node takes." placeholder:"N"`
	TrustedProxies int `least:"0" example:"1" help:"How many proxies of your own stand before this address, each adding to X-Forwarded-For: the sandbox limits callers by the address there. With 0 the header is ignored." placeholder:"N"`

	AcceptRollback bool `env:"-" help:"Go on although log, database or warehouse was restored from an older copy than the others."`
	PauseLoader    bool `hidden:"" help:"Load nothing into the warehouse; for measurements."`
}

// Validate refuses what would fail only once the service runs.
func (c *upCmd) Validate() error {
	return c.Mail.reachable(c.Public)
}

// Run serves until it is signalled.
func (c *upCmd) Run() error { return c.run("muniment", c.serve) }

// serve opens everything in the order in which it is needed.
func (c *upCmd) serve(p *process) error {
	processors := gateway.DoubleProcs()
	if err := p.claim(c.Data); err != nil {
		return err
	}
	// Both ports are taken before anything is opened: callers queue while a long log
	// is checked, instead of being refused.
	api, err := p.listen("api", "--listen", c.Listen, c.TLS)
	if err != nil {
		return err
	}
	admin, err := p.listen("admin", "--admin", c.Admin, c.AdminTLS)
	if err != nil {
		return err
	}
	p.logger.Info("muniment is starting", "api", api.url(), "admin", admin.url(), "data", c.Data)
	operators := p.operate(admin, "", func(context.Context) error { return errors.New("the data folder is being opened and checked") })

	engines, err := c.openEngines(p)
	if err != nil {
		return err
	}
	access := adminAccess{URL: admin.url(), Token: rand.Text(), Certificate: c.AdminTLS.Cert}
	ctl, err := c.openControl(p, engines, api.url(), access, processors)
	if err != nil {
		return err
	}
	node, err := c.openNode(p, ctl, engines, processors)
	if err != nil {
		return err
	}
	inside := newInsideListener()
	server, err := gateway.New(gateway.Config{
		Version: thisBuild().Version, Rights: node.view, Issuer: node.issuer, DialControl: []func() (net.Conn, error){inside.Dial}, Hold: ctl.ingest.Hold, SandboxRows: ctl.sandboxRows, RenderError: sandbox.RenderError,
		TLS: api.tls, MaxTenantInFlight: c.TenantCap, TrustedProxies: c.TrustedProxies, Processors: processors, Logger: p.logger, Registerer: p.registry, Tracer: p.tracer,
	})
	if err != nil {
		return err
	}
	ctl.heldNode.Use(node.issuer)
	operators.Set(gateway.Admin{
		Gatherer: p.registry,
		LogLevel: p.logLevel,
		Checks:   append(server.Checks(), gateway.Check{Name: "control", Ready: server.ControlReady}),
		Notes:    append([]gateway.Note{behind(engines.loader)}, ctl.notes(engines.log, engines.warehouse)...),
		Tenants: map[string]gateway.TenantsPart{
			"limited": server.LimitedPart,
			"backlog": func(ctx context.Context) any { return []pipeline.PartitionBacklog{engines.loader.Backlog(ctx)} },
		},
		Token: access.Token,
		Mount: ctl.atOperators(),
	}.Handler())
	if err := access.publish(p, c.Data); err != nil {
		return err
	}

	// What runs behind the gateway ends after it: it needs all of them to drain.
	background := p.parts()
	engines.run(background)
	node.run(background)
	ctl.run(background)
	background.run("the check of the log", func(ctx context.Context) error { return c.damaged(engines.log.Check(ctx)) })
	background.run("the playground's streams", ctl.watched.Run)
	background.run("control's server", func(ctx context.Context) error { return serve(ctx, inside, ctl.Handler()) })
	background.run("the wait until it is ready", func(ctx context.Context) error {
		err := newAwaited(nil).until(ctx, "the gateway", func() error { return cmp.Or(server.Ready(ctx), server.ControlReady(ctx)) })
		if err != nil {
			return nil // it ends first
		}
		p.logger.Info("muniment is ready", "api", api.url(), "next", c.next(ctx, ctl, api.url()))
		return nil
	})
	p.started = true
	return server.Run(p.ctx, func(context.Context) (net.Listener, error) { return api.Listener, nil })
}

// publish writes to the data folder how to reach this process, and removes that when it ends.
func (a adminAccess) publish(p *process, data string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	file := filepath.Join(data, adminFile)
	if err := keyfile.Write(file, text, 0o600); err != nil {
		return err
	}
	p.atEnd(func() error {
		_ = os.Remove(file) // the next process writes another
		return nil
	})
	return nil
}

// embedded are the engines of a service in one process.
type embedded struct {
	db        *store.DB
	warehouse *sqlite.Warehouse
	log       *segment.Log
	loader    *pipeline.Loader
	retention segment.Retention
	admitted  *admission.Admission
	traces    *pipeline.Traceparents // nil: nothing is traced
}

// openEngines opens them, and checks that they fit each other.
func (c *upCmd) openEngines(p *process) (e embedded, err error) {
	if e.db, err = store.Open(p.ctx, store.Config{Path: filepath.Join(c.Data, "control.db"), Reserve: store.Reserve, Logger: p.logger, Registerer: p.registry, OnFailure: p.fail}); err != nil {
		return e, err
	}
	p.atEnd(e.db.Close)
	if e.warehouse, err = sqlite.Open(p.ctx, sqlite.Config{Path: filepath.Join(c.Data, "warehouse.db"), Logger: p.logger}); err != nil {
		return e, err
	}
	p.atEnd(e.warehouse.Close)
	e.log, err = c.openLog(p.ctx, e.db, e.warehouse, segment.Config{
		Dir: filepath.Join(c.Data, "log"), Indexed: true, Log: p.logger, Registerer: p.registry, OnFailure: p.fail,
	})
	if err != nil {
		return e, err
	}
	p.atEnd(e.log.Close)
	if p.tracer != nil {
		e.traces = pipeline.NewTraceparents()
	}
	e.loader, err = pipeline.NewLoader(pipeline.LoaderConfig{
		Log: e.log, Warehouse: reservedSink{e.warehouse, e.db}, Tracer: p.tracer, Traceparents: e.traces, Logger: p.logger, Registerer: p.registry,
	})
	if err != nil {
		return e, err
	}
	if err := e.loader.Check(p.ctx); err != nil {
		return e, fmt.Errorf("the warehouse does not fit the log: %w", err)
	}
	if c.PauseLoader {
		e.loader.Pause()
		p.logger.Warn("the loader is paused: nothing gets into the warehouse")
	}
	e.retention = segment.Retention{Log: e.log, Keep: c.Keep, Logger: p.logger, Loaded: func(ctx context.Context) (sealer.Position, bool, error) {
		return e.warehouse.Resume(ctx, segment.Partition)
	}}
	e.admitted, err = admission.New(p.registry, func(ctx context.Context) (loaded, end int64, ok bool) {
		next, ok := e.loader.Loaded()
		_, last, err := e.log.Bounds(ctx, segment.Partition)
		return next.Offset, last.Offset, ok && err == nil
	})
	return e, err
}

func (e *embedded) run(background *parts) {
	background.run("the loader", e.loader.Run)
	background.run("the admission of deliveries", e.admitted.Run)
	background.run("the log's retention", e.retention.Run)
	background.run("the high-water mark", func(ctx context.Context) error { return e.db.Follow(ctx, e.log) })
	background.run("the search for stops", e.db.SearchStops)
}

// openControl opens control on the engines.
func (c *upCmd) openControl(p *process, e embedded, apiURL string, access adminAccess, processors int) (*plane, error) {
	ctl, err := openPlane(p.ctx, planeConfig{
		DB: e.db, Log: e.log, Deliveries: reservedLog{e.log, e.db, nil}, Warehouse: e.warehouse, Data: c.Data, PacksDir: filepath.Join(c.Data, packsFolder), Embedded: true, LeaseBound: c.Bound, Token: access.Token, AdminTLS: strings.HasPrefix(access.URL, "https://"),
		Sandbox: c.Sandbox, Webhook: c.Webhook, Seal: c.Seal, Exports: c.Exports, Mail: c.Mail, PublicURL: c.Public.publicURL(apiURL), RowAge: c.RowAge, LogKeep: c.Keep, Logger: p.logger, Registerer: p.registry,
		LogKept:     func(context.Context) (time.Duration, error) { return keptFor(c.Keep), nil },
		Tracer:      p.tracer,
		SealWorkers: func() int { return sealWorkers(processors, e.admitted.Quiet()) },
	})
	if err != nil {
		return nil, err
	}
	return ctl, ctl.erased.Announce(p.ctx) // before anything is loaded
}

// edgeNode is a node that answers deliveries.
type edgeNode struct {
	identity *identity.Node
	source   *snapshot.Remote
	view     *snapshot.View
	issuer   *issue.Issuer
}

func (n *edgeNode) run(background *parts) {
	background.run("the view of rights", n.view.Run)
	background.run("the issuer", n.issuer.Run)
	background.run("the node's identity", n.identity.Run)
}

// openNode joins control as the node of this process.
func (c *upCmd) openNode(p *process, ctl *plane, e embedded, processors int) (n edgeNode, err error) {
	ctl.serveNodes(p.parts())
	identities := ctl.identities("the node of this process", "node", ctl.invite)
	if n.identity, err = identities.Open(p.ctx, p.registry); err != nil {
		return n, err
	}
	p.atEnd(n.identity.Close)
	if n.source, err = snapshot.NewRemote(insideURL, n.identity.Credential(), ctl.client); err != nil {
		return n, err
	}
	n.view, err = snapshot.New(snapshot.Config{Source: n.source, NodeID: n.identity.ID(), Epoch: n.identity.Epoch(), LeaseBound: c.Bound, Signer: n.identity, Logger: p.logger, Registerer: p.registry})
	if err != nil {
		return n, err
	}
	n.issuer, err = issue.New(issue.Config{
		NodeID: n.identity.ID(), Epoch: n.identity.Epoch(), Rights: n.view, Log: reservedLog{e.log, e.db, e.traces}, Signer: n.identity.Signer,
		Admit: e.admitted.Admit, IdempotencyEntries: c.IdempotencyEntries, MaxRowAge: c.RowAge,
		BatchSigners: max(1, processors/2), BatchBytes: segment.DefaultPendingBytes / 2, CheckpointDir: filepath.Join(c.Data, checkpointFolder), Logger: p.logger, Registerer: p.registry,
	})
	return n, err
}

// next is the command to run once the service is ready: create a tenant, if there is none.
func (c *upCmd) next(ctx context.Context, ctl *plane, apiURL string) string {
	if any, err := ctl.tenants.Any(ctx); err == nil && !any {
		return fmt.Sprintf("muniment tenant create --org org_example --data %s", c.Data)
	}
	return "open " + apiURL + "/docs"
}

// openLog opens the event log, and compares it with database and warehouse, which both record
// the length that it had.
func (c *upCmd) openLog(ctx context.Context, db *store.DB, warehouse *sqlite.Warehouse, cfg segment.Config) (log *segment.Log, err error) {
	history := store.History{Loaded: warehouse, Keys: signing.KeyIDs, Replays: replays(), Older: packedAndLoaded(c.Data, warehouse), Accept: c.AcceptRollback}
	mark, known, err := db.HighWater(ctx, segment.Partition)
	if err != nil {
		return nil, err
	}
	if known {
		cfg.AtLeast = &mark
	}
	if loaded, ok, err := warehouse.Resume(ctx, segment.Partition); err != nil {
		return nil, err
	} else if ok && (!known || loaded.Compare(mark) > 0) {
		cfg.AtLeast = &loaded
	}
	log, err = segment.Open(cfg)
	if c.AcceptRollback && errors.Is(err, segment.ErrRollback) {
		cfg.Generation = cfg.AtLeast.Generation + 1
		log, err = segment.Open(cfg)
	}
	if err == nil {
		history.Log = log
		if err = db.Reconcile(ctx, history); err == nil {
			return log, nil
		}
		err = errors.Join(err, log.Close())
	}
	if errors.Is(err, segment.ErrRollback) || errors.Is(err, store.ErrOlder) {
		err = fmt.Errorf("%w\nPut the newest copies of control.db, warehouse.db and log back together, "+
			"or start once with --accept-rollback to go on with what is here", err)
	}
	return nil, c.damaged(err)
}

// damaged adds to the error of a damaged log what to do.
func (c *upCmd) damaged(err error) error {
	if !errors.Is(err, pipeline.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w\nPut the named file of %s back from a copy, or restore a backup into another folder: "+
		"muniment restore --from BACKUP --data DIR --tombstones FILE", err, filepath.Join(c.Data, "log"))
}

// sealWorkers is how many goroutines verify the receipts of a pack in a process that
// delivers: while it does, they leave it half of the processors.
func sealWorkers(processors int, quiet bool) int {
	if quiet {
		return processors
	}
	return max(1, processors/2)
}
