package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"muniment/control/node"
	"muniment/control/sandbox"
	"muniment/control/store"
	"muniment/gateway"
	"muniment/gateway/certs"
	"muniment/gateway/issue"
	"muniment/gateway/snapshot"
	"muniment/pipeline"
	"muniment/pipeline/segment"
	"muniment/pipeline/sqlite"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

type upCmd struct {
	logFlags
	keysFlags

	Data   string        `default:"./muniment-data" help:"Data folder; made when it is missing." type:"path"`
	Listen string        `default:"127.0.0.1:8080" help:"Address of the API."`
	Admin  string        `default:"127.0.0.1:9090" help:"Address for operators: metrics, health, administration."`
	Bound  time.Duration `default:"30s" help:"How long the node signs without news of rights."`
	Keep   time.Duration `default:"168h" help:"How long the event log keeps what is loaded, at least 25h."`

	TLS      certs.ServerFlags `embed:"" prefix:"tls-" group:"TLS of the API:"`
	AdminTLS certs.ServerFlags `embed:"" prefix:"admin-tls-" group:"TLS of the address for operators:"`

	Sandbox sandbox.Flags `embed:"" prefix:"sandbox-" group:"Sandbox:"`
	Seal    sealFlags     `embed:"" group:"Sealing:"`

	TenantCap      int `help:"How many deliveries of one tenant are in hand at a time, more are answered 429; default: a quarter of what the node takes." placeholder:"N"`
	TrustedProxies int `help:"How many proxies of your own stand before this address, each adding to X-Forwarded-For: the sandbox limits callers by what they tell. Of 0 the header is ignored." placeholder:"N"`

	AcceptRollback bool `env:"-" help:"Go on although log, database or warehouse was restored from an older copy than the others."`
	PauseLoader    bool `hidden:"" help:"Load nothing into the warehouse; for measurements."`
}

// nodeID names the one node of an embedded service.
const nodeID = "nod_embedded"

// Validate refuses what would only fail once the service runs.
func (c *upCmd) Validate() error {
	if err := c.keysFlags.Validate(); err != nil {
		return err
	}
	if c.Keep < segment.LeastKeep {
		return fmt.Errorf("--keep must be at least %v: answers to retries are rendered from the log", segment.LeastKeep)
	}
	if c.TenantCap < 0 {
		return errors.New("--tenant-cap must not be negative")
	}
	return nil
}

// Run serves until it is told to stop. Everything is opened in the order in which
// it is needed, and closed in the reverse one.
func (c *upCmd) Run() (err error) {
	told, stop := interrupted()
	defer stop()
	ctx, fail := context.WithCancelCause(told) // also while it starts, which may take long
	defer fail(nil)
	processors := gateway.DoubleProcs()
	logger := c.logger()
	started := false
	defer func() { err = stopped(told, ctx, logger, started, err) }()
	registry := newRegistry()

	if err := makeDataDir(c.Data); err != nil {
		return err
	}
	claim, err := keyfile.Claim(c.Data)
	if err != nil {
		return err
	}
	defer closing(&err, claim)
	apiTLS, err := certs.Server(certs.Options{Use: "api", Logger: logger, Registerer: registry}, c.TLS)
	if err != nil {
		return err
	}
	adminTLS, err := certs.Server(certs.Options{Use: "admin", Logger: logger, Registerer: registry}, c.AdminTLS)
	if err != nil {
		return err
	}
	// Both ports are taken before anything is opened: callers queue while a long log
	// is checked, instead of being refused.
	listener, err := gateway.Listen(ctx, c.Listen)
	if err != nil {
		return cannotListen("--listen", err)
	}
	defer listener.Close()
	adminListener, err := net.Listen("tcp", c.Admin)
	if err != nil {
		return cannotListen("--admin", err)
	}
	defer adminListener.Close()
	adminURL := urlOf(adminListener.Addr(), adminTLS)
	apiURL := urlOf(listener.Addr(), apiTLS)
	logger.Info("muniment is starting", "api", apiURL, "admin", adminURL, "data", c.Data)

	// Operators are answered from the first moment on: whoever watches /livez must not
	// kill a process for checking a long log.
	operators := newSwitch(gateway.Admin{Gatherer: registry, Checks: []gateway.Check{
		{Name: "start", Ready: func(context.Context) error { return errors.New("the data folder is being opened and checked") }},
	}}.Handler())
	operated := newParts(ctx, fail)
	defer operated.stop()
	operated.run("the admin listener", func(ctx context.Context) error {
		return serve(ctx, secured(adminListener, adminTLS), gateway.LoopbackOnly(adminListener.Addr(), operators))
	})

	db, err := store.Open(ctx, store.Config{Path: filepath.Join(c.Data, "control.db"), Reserve: store.Reserve, Logger: logger, Registerer: registry})
	if err != nil {
		return err
	}
	defer closing(&err, db)
	warehouse, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(c.Data, "warehouse.db"), Logger: logger})
	if err != nil {
		return err
	}
	defer closing(&err, warehouse)
	eventLog, err := c.openLog(ctx, db, warehouse, segment.Config{
		Dir: filepath.Join(c.Data, "log"), Indexed: true, Log: logger, Registerer: registry, OnFailure: fail,
	})
	if err != nil {
		return err
	}
	defer closing(&err, eventLog)
	loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: eventLog, Warehouse: reservedSink{warehouse, db}, Logger: logger, Registerer: registry})
	if err != nil {
		return err
	}
	if err := loader.Check(ctx); err != nil {
		return fmt.Errorf("the warehouse does not fit the log: %w", err)
	}
	retention := segment.Retention{Log: eventLog, Keep: c.Keep, Logger: logger, Loaded: func(ctx context.Context) (sealer.Position, bool, error) {
		return warehouse.Resume(ctx, segment.Partition)
	}}

	admitted, err := newAdmission(registry, func(ctx context.Context) (loaded, end int64, ok bool) {
		next, ok := loader.Loaded()
		_, last, err := eventLog.Bounds(ctx, segment.Partition)
		return next.Offset, last.Offset, ok && err == nil
	})
	if err != nil {
		return err
	}
	token := rand.Text()
	ctl, err := openPlane(ctx, planeConfig{
		DB: db, Log: eventLog, Warehouse: warehouse, Data: c.Data, Bound: c.Bound, Token: token, Sandbox: c.Sandbox, Seal: c.Seal, LogKeep: c.Keep, Logger: logger, Registerer: registry,
		SealWorkers: func() int { return sealWorkers(processors, admitted.quiet()) },
	})
	if err != nil {
		return err
	}

	epoch, err := ctl.nodes.Enrol(ctx, nodeID)
	if err != nil {
		return err
	}
	signer, err := ctl.nodes.ReceiptSigner(nodeID, sealer.PurposeReceipt)
	if err != nil {
		return err
	}
	sandboxSigner, err := ctl.nodes.ReceiptSigner(nodeID, sealer.PurposeSandbox)
	if err != nil {
		return err
	}
	view, err := snapshot.New(snapshot.Config{Source: ctl.Source(), NodeID: nodeID, Bound: c.Bound, Logger: logger, Registerer: registry})
	if err != nil {
		return err
	}
	issuer, err := issue.New(issue.Config{
		NodeID: nodeID, Epoch: epoch, Rights: view, Log: reservedLog{eventLog, db}, Signer: signer, SandboxSigner: sandboxSigner,
		Admit: admitted.Admit, IdempotencyEntries: c.IdempotencyEntries, MaxRowAge: c.RowAge,
		BatchSigners: max(1, processors/2), BatchBytes: segment.DefaultPendingBytes / 2, CheckpointDir: filepath.Join(c.Data, checkpointFolder), Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	inside := newInsideListener()
	edge, err := gateway.New(gateway.Config{
		Version: thisBuild().Version, Rights: view, Issuer: issuer, DialControl: inside.Dial, Hold: ctl.ingest.Hold, Spell: sandbox.Spell,
		TLS: apiTLS, MaxTenantInFlight: c.TenantCap, TrustedProxies: c.TrustedProxies, Processors: processors, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	ctl.openFor(issuer)
	operators.Set(gateway.Admin{
		Gatherer: registry,
		Checks: []gateway.Check{
			{Name: "gateway", Ready: func(context.Context) error { return edge.Ready() }},
			{Name: "log", Ready: func(context.Context) error { return eventLog.Err() }},
			{Name: "control", Ready: edge.ControlReady},
		},
		Notes: append([]gateway.Note{behind(loader)}, ctl.notes(eventLog, warehouse)...),
		Token: token,
		Mount: map[string]http.Handler{"/admin/": ctl.Admin()},
	}.Handler())

	access, err := json.Marshal(adminAccess{URL: adminURL, Token: token, Certificate: c.AdminTLS.Cert})
	if err != nil {
		return err
	}
	if err := keyfile.Write(filepath.Join(c.Data, adminFile), access, 0o600); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(c.Data, adminFile))

	// What runs behind the gateway ends after it: it needs all of them to drain.
	background := newParts(ctx, fail)
	defer background.stop()
	if c.PauseLoader {
		loader.Pause()
		logger.Warn("the loader is paused: nothing gets into the warehouse")
	}
	background.run("the loader", loader.Run)
	background.run("the admission of deliveries", admitted.Run)
	background.run("the view of rights", view.Run)
	background.run("the issuer", issuer.Run)
	background.run("the high-water mark", func(ctx context.Context) error { return db.Follow(ctx, eventLog) })
	background.run("the search for stops", db.SearchStops)
	background.run("the log's retention", retention.Run)
	background.run("the check of the log", func(ctx context.Context) error { return c.damaged(eventLog.Check(ctx)) })
	background.run("the outbox relay", ctl.Run)
	background.run("control's server", func(ctx context.Context) error { return serve(ctx, inside, ctl.Handler()) })

	background.run("the wait until it is ready", func(ctx context.Context) error {
		err := newAwaited(nil).until(ctx, "the gateway", func() error { return errors.Join(edge.Ready(), edge.ControlReady(ctx)) })
		if err != nil {
			return nil // it ends first
		}
		logger.Info("muniment is ready", "api", apiURL, "next", c.next(ctx, ctl, apiURL))
		return nil
	})

	started = true
	if err := edge.Run(ctx, func(context.Context) (net.Listener, error) { return listener, nil }); err != nil {
		return err
	}
	if err := whyEnded(told, ctx); err != nil {
		return err
	}
	logger.Info("muniment has stopped")
	return nil
}

// next is what to do with a service that is ready: with one that has no tenant yet, make
// one.
func (c *upCmd) next(ctx context.Context, ctl *plane, apiURL string) string {
	if any, err := ctl.tenants.Any(ctx); err == nil && !any {
		return fmt.Sprintf("muniment tenant create --org org_example --data %s", c.Data)
	}
	return "open " + apiURL + "/docs"
}

// openLog opens the event log and holds database and warehouse against it: each of
// them remembers how long it once was.
func (c *upCmd) openLog(ctx context.Context, db *store.DB, warehouse *sqlite.Warehouse, cfg segment.Config) (log *segment.Log, err error) {
	history := store.History{Loaded: warehouse, Keys: node.KeyIDs, Replays: replays(), Older: packedAndLoaded(c.Data, warehouse), Accept: c.AcceptRollback}
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

// damaged adds what to do to an error of a log that is damaged.
func (c *upCmd) damaged(err error) error {
	if !errors.Is(err, pipeline.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w\nPut the named file of %s back from a copy, or restore a backup into another folder: "+
		"muniment restore --from BACKUP --data DIR", err, filepath.Join(c.Data, "log"))
}
