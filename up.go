package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"muniment.example/control/plane"
	"muniment.example/control/reserve"
	"muniment.example/control/rollback"
	"muniment.example/control/sandbox"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/deploy/adminapi"
	"muniment.example/deploy/process"
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
)

type upCmd struct {
	process.Flags
	keysFlags

	Data   string        `default:"./muniment-data" help:"Data folder; created if it is missing." type:"path"`
	Listen string        `default:"127.0.0.1:8080" address:"" help:"Address of the API."`
	Admin  string        `default:"127.0.0.1:9090" address:"" help:"Address for operators: metrics, health, administration."`
	Bound  time.Duration `default:"30s" least:"1s" help:"How long the node signs without news of rights."`
	Keep   time.Duration `default:"168h" least:"25h" help:"How long the event log keeps what is loaded: answers to retries are rendered from it."`

	TLS      certs.ServerFlags `embed:"" prefix:"tls-" group:"TLS of the API:"`
	AdminTLS certs.ServerFlags `embed:"" prefix:"admin-tls-" group:"TLS of the address for operators:"`

	Plane plane.Flags `embed:""`

	TenantCap      int `least:"0" example:"256" help:"Most deliveries of one tenant in flight; more are answered 429; default: a quarter of what the node takes." placeholder:"N"`
	TrustedProxies int `least:"0" example:"1" help:"How many proxies of your own stand before this address, each adding to X-Forwarded-For: the sandbox limits callers by the address there. With 0 the header is ignored." placeholder:"N"`

	AcceptRollback bool `env:"-" help:"Go on although log, database or warehouse was restored from an older copy than the others."`
	PauseLoader    bool `hidden:"" help:"Load nothing into the warehouse; for measurements."`
}

// Validate refuses what would fail only once the service runs.
func (c *upCmd) Validate() error {
	return c.Plane.Validate()
}

// Run serves until it is signalled.
func (c *upCmd) Run() error { return c.Flags.Run(thisBuild(), "muniment", c.serve) }

// serve opens everything in the order in which it is needed.
func (c *upCmd) serve(p *process.Process) error {
	processors := gateway.DoubleProcs()
	if err := p.Claim(c.Data); err != nil {
		return err
	}
	// Both ports are taken before anything is opened: callers queue while a long log
	// is checked, instead of being refused.
	api, err := p.Listen("api", "--listen", c.Listen, c.TLS)
	if err != nil {
		return err
	}
	admin, err := p.Listen("admin", "--admin", c.Admin, c.AdminTLS)
	if err != nil {
		return err
	}
	p.Logger.Info("muniment is starting", "api", api.URL(), "admin", admin.URL(), "data", c.Data)
	operators := p.Operate(admin, "", func(context.Context) error { return errors.New("the data folder is being opened and checked") })

	engines, err := c.openEngines(p)
	if err != nil {
		return err
	}
	access := adminapi.Access{URL: admin.URL(), Token: rand.Text(), Certificate: c.AdminTLS.Cert}
	ctl, err := c.openControl(p, engines, api.URL(), access, processors)
	if err != nil {
		return err
	}
	node, err := c.openNode(p, ctl, engines, processors)
	if err != nil {
		return err
	}
	inside := process.NewInside()
	server, err := gateway.New(gateway.Config{
		Version: p.Build.Version, Rights: node.view, Issuer: node.issuer, DialControl: []func() (net.Conn, error){inside.Dial}, Hold: ctl.Hold, SandboxRows: ctl.SandboxRows, RenderError: sandbox.RenderError,
		TLS: api.TLS, MaxTenantInFlight: c.TenantCap, TrustedProxies: c.TrustedProxies, Processors: processors, Logger: p.Logger, Registerer: p.Registry, Tracer: p.Tracer,
	})
	if err != nil {
		return err
	}
	ctl.HeldNode().Use(node.issuer)
	operators.Set(gateway.Admin{
		Gatherer: p.Registry,
		LogLevel: p.LogLevel,
		Checks:   append(server.Checks(), gateway.Check{Name: "control", Ready: server.ControlReady}),
		Notes:    append([]gateway.Note{behind(engines.loader)}, ctl.Notes(engines.log, engines.warehouse)...),
		Tenants: map[string]gateway.TenantsPart{
			"limited": server.LimitedPart,
			"backlog": func(ctx context.Context) any { return []pipeline.PartitionBacklog{engines.loader.Backlog(ctx)} },
		},
		Token: access.Token,
		Mount: ctl.AtOperators(),
	}.Handler())
	unpublish, err := access.Publish(c.Data)
	if err != nil {
		return err
	}
	p.AtEnd(func() error {
		unpublish()
		return nil
	})

	// What runs behind the gateway ends after it: it needs all of them to drain.
	background := p.Parts()
	engines.run(background)
	node.run(background)
	ctl.Start(background)
	background.Run("the check of the log", func(ctx context.Context) error { return c.damaged(engines.log.Check(ctx)) })
	background.Run("the playground's streams", ctl.RunStreams)
	background.Run("control's server", func(ctx context.Context) error { return process.Serve(ctx, inside, ctl.Handler()) })
	background.Run("the wait until it is ready", func(ctx context.Context) error {
		err := process.NewAwaited(nil).Until(ctx, "the gateway", func() error { return cmp.Or(server.Ready(ctx), server.ControlReady(ctx)) })
		if err != nil {
			return nil // it ends first
		}
		p.Logger.Info("muniment is ready", "api", api.URL(), "next", c.next(ctx, ctl, api.URL()))
		return nil
	})
	p.Started()
	return server.Run(p.Ctx, func(context.Context) (net.Listener, error) { return api.Listener, nil })
}

// embedded are the engines of a service in one process.
type embedded struct {
	db        *store.DB
	warehouse *sqlite.Warehouse
	log       *segment.Log
	search    *rollback.Search
	loader    *pipeline.Loader
	retention segment.Retention
	admitted  *admission.Admission
	traces    *pipeline.Traceparents // nil: nothing is traced
}

// openEngines opens them, and checks that they fit each other.
func (c *upCmd) openEngines(p *process.Process) (e embedded, err error) {
	if e.db, err = store.Open(p.Ctx, store.Config{Path: filepath.Join(c.Data, "control.db"), Reserve: reserve.Bytes, Logger: p.Logger, Registerer: p.Registry, OnFailure: p.Fail}); err != nil {
		return e, err
	}
	p.AtEnd(e.db.Close)
	if e.warehouse, err = sqlite.Open(p.Ctx, sqlite.Config{Path: filepath.Join(c.Data, "warehouse.db"), Logger: p.Logger}); err != nil {
		return e, err
	}
	p.AtEnd(e.warehouse.Close)
	e.log, e.search, err = c.openLog(p.Ctx, e.db, e.warehouse, segment.Config{
		Dir: filepath.Join(c.Data, "log"), Indexed: true, Log: p.Logger, Registerer: p.Registry, OnFailure: p.Fail,
	})
	if err != nil {
		return e, err
	}
	p.AtEnd(e.log.Close)
	if p.Tracer != nil {
		e.traces = pipeline.NewTraceparents()
	}
	e.loader, err = pipeline.NewLoader(pipeline.LoaderConfig{
		Log: e.log, Warehouse: reservedSink{e.warehouse, e.db}, Tracer: p.Tracer, Traceparents: e.traces, Logger: p.Logger, Registerer: p.Registry,
	})
	if err != nil {
		return e, err
	}
	if err := e.loader.Check(p.Ctx); err != nil {
		return e, fmt.Errorf("the warehouse does not fit the log: %w", err)
	}
	if c.PauseLoader {
		e.loader.Pause()
		p.Logger.Warn("the loader is paused: nothing gets into the warehouse")
	}
	e.retention = segment.Retention{Log: e.log, Keep: c.Keep, Logger: p.Logger, Loaded: func(ctx context.Context) (sealer.Position, bool, error) {
		return e.warehouse.Resume(ctx, segment.Partition)
	}}
	e.admitted, err = admission.New(p.Registry, func(ctx context.Context) (loaded, end int64, ok bool) {
		next, ok := e.loader.Loaded()
		_, last, err := e.log.Bounds(ctx, segment.Partition)
		return next.Offset, last.Offset, ok && err == nil
	})
	return e, err
}

func (e *embedded) run(background *process.Parts) {
	background.Run("the loader", e.loader.Run)
	background.Run("the admission of deliveries", e.admitted.Run)
	background.Run("the log's retention", e.retention.Run)
	background.Run("the high-water mark", func(ctx context.Context) error { return rollback.Follow(ctx, e.db, e.log) })
	background.Run("the search for stops", e.search.Run)
}

// openControl opens control on the engines.
func (c *upCmd) openControl(p *process.Process, e embedded, apiURL string, access adminapi.Access, processors int) (*plane.Plane, error) {
	ctl, err := plane.Open(p.Ctx, plane.Config{
		DB: e.db, Log: e.log, Deliveries: reservedLog{e.log, e.db, nil}, Warehouse: e.warehouse, Data: c.Data, PacksDir: filepath.Join(c.Data, plane.PacksFolder), Embedded: true, LeaseBound: c.Bound, Token: access.Token, AdminTLS: strings.HasPrefix(access.URL, "https://"),
		Flags: c.Plane, Listening: apiURL, RowAge: c.RowAge, LogKeep: c.Keep, Logger: p.Logger, Registerer: p.Registry,
		LogKept:     func(context.Context) (time.Duration, error) { return plane.KeptFor(c.Keep), nil },
		Tracer:      p.Tracer,
		SealWorkers: func() int { return sealWorkers(processors, e.admitted.Quiet()) },
	})
	if err != nil {
		return nil, err
	}
	return ctl, ctl.AnnounceErasures(p.Ctx) // before anything is loaded
}

// edgeNode is a node that answers deliveries.
type edgeNode struct {
	identity *identity.Node
	source   *snapshot.Remote
	view     *snapshot.View
	issuer   *issue.Issuer
}

func (n *edgeNode) run(background *process.Parts) {
	background.Run("the view of rights", n.view.Run)
	background.Run("the issuer", n.issuer.Run)
	background.Run("the node's identity", n.identity.Run)
}

// openNode joins control as the node of this process.
func (c *upCmd) openNode(p *process.Process, ctl *plane.Plane, e embedded, processors int) (n edgeNode, err error) {
	ctl.ServeNodes(p.Parts())
	identities := ctl.OwnNode()
	if n.identity, err = identities.Open(p.Ctx, p.Registry); err != nil {
		return n, err
	}
	p.AtEnd(n.identity.Close)
	if n.source, err = snapshot.NewRemote([]string{plane.InsideURL}, n.identity.Credential(), ctl.Client()); err != nil {
		return n, err
	}
	n.view, err = snapshot.New(snapshot.Config{Source: n.source, NodeID: n.identity.ID(), Epoch: n.identity.Epoch(), LeaseBound: c.Bound, Signer: n.identity, Logger: p.Logger, Registerer: p.Registry})
	if err != nil {
		return n, err
	}
	n.issuer, err = issue.New(issue.Config{
		NodeID: n.identity.ID(), Epoch: n.identity.Epoch(), Rights: n.view, Log: reservedLog{e.log, e.db, e.traces}, Signer: n.identity.Signer,
		Admit: e.admitted.Admit, IdempotencyEntries: c.IdempotencyEntries, MaxRowAge: c.RowAge,
		BatchSigners: max(1, processors/2), BatchBytes: segment.DefaultPendingBytes / 2, CheckpointDir: filepath.Join(c.Data, checkpointFolder), Logger: p.Logger, Registerer: p.Registry,
	})
	return n, err
}

// next is the command to run once the service is ready: create a tenant, if there is none.
func (c *upCmd) next(ctx context.Context, ctl *plane.Plane, apiURL string) string {
	if any, err := ctl.AnyTenant(ctx); err == nil && !any {
		return fmt.Sprintf("muniment tenant create --org org_example --data %s", c.Data)
	}
	return "open " + apiURL + "/docs"
}

// openLog opens the event log, and compares it with database and warehouse, which both record
// the length that it had.
func (c *upCmd) openLog(ctx context.Context, db *store.DB, warehouse *sqlite.Warehouse, cfg segment.Config) (log *segment.Log, search *rollback.Search, err error) {
	history := rollback.History{Loaded: warehouse, Keys: signing.KeyIDs, Replays: plane.Replays(), Older: packedAndLoaded(c.Data, warehouse), Accept: c.AcceptRollback}
	mark, known, err := rollback.HighWater(ctx, db, segment.Partition)
	if err != nil {
		return nil, nil, err
	}
	if known {
		cfg.AtLeast = &mark
	}
	if loaded, ok, err := warehouse.Resume(ctx, segment.Partition); err != nil {
		return nil, nil, err
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
		if search, err = history.Reconcile(ctx, db); err == nil {
			return log, search, nil
		}
		err = errors.Join(err, log.Close())
	}
	if errors.Is(err, segment.ErrRollback) || errors.Is(err, rollback.ErrOlder) {
		err = fmt.Errorf("%w\nPut the newest copies of control.db, warehouse.db and log back together, "+
			"or start once with --accept-rollback to go on with what is here", err)
	}
	return nil, nil, c.damaged(err)
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

// behind notes how far the loader of this process is behind the log.
func behind(loader *pipeline.Loader) gateway.Note {
	return gateway.Note{Name: "loader", Status: func(ctx context.Context) (string, error) {
		lag, err := loader.Lag(ctx)
		return fmt.Sprintf("%d records behind the log", lag), err
	}}
}

// reservedLog is the log of an embedded service for deliveries: it refuses records while only
// the space that is reserved for stops is free. A delivery may need no more space in the log,
// whose segments are allocated ahead, but it will in the warehouse.
type reservedLog struct {
	*segment.Log
	db     *store.DB
	traces *pipeline.Traceparents // of records that are traced, which the log does not keep
}

// Append is segment.Log's.
func (l reservedLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if err := l.db.Reserved(); err != nil {
		return sealer.Position{}, fmt.Errorf("%w: %w", pipeline.ErrFull, err)
	}
	l.traces.Keep(r)
	return l.Log.Append(ctx, r)
}

// AppendAll is segment.Log's.
func (l reservedLog) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	if err := l.db.Reserved(); err != nil {
		return pipeline.RefuseAll(rs, fmt.Errorf("%w: %w", pipeline.ErrFull, err))
	}
	for _, r := range rs {
		l.traces.Keep(r)
	}
	return l.Log.AppendAll(ctx, rs)
}

// Writable is segment.Log's.
func (l reservedLog) Writable(ctx context.Context) error {
	if err := l.db.Reserved(); err != nil {
		return fmt.Errorf("%w: %w", pipeline.ErrFull, err)
	}
	return l.Log.Writable(ctx)
}

// reservedSink is the warehouse for the loader of an embedded service: loading pauses while
// only the reserved space is free.
type reservedSink struct {
	*sqlite.Warehouse
	db *store.DB
}

// Load is pipeline.Sink's.
func (s reservedSink) Load(ctx context.Context, b pipeline.Batch) error {
	if err := s.db.Reserved(); err != nil {
		return err
	}
	return s.Warehouse.Load(ctx, b)
}
