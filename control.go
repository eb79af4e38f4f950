package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"muniment.example/control/objects"
	"muniment.example/control/plane"
	"muniment.example/control/proof"
	"muniment.example/control/rollback"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/deploy/adminapi"
	"muniment.example/deploy/process"
	"muniment.example/gateway"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/kafka"
)

// controlCmd is one of any number of control processes on one database. They have one data
// folder too, a volume that all of them may write to; or, with packs in a bucket, the same keys.
type controlCmd struct {
	process.Flags
	databaseFlags
	kafkaFlags
	clickhouseFlags
	rowFlags

	Data   string        `default:"./muniment-data" help:"Folder of signing keys and proof packs, which all control processes share; created if it is missing. With --packs in a bucket each may have its own, with the same keys." type:"path"`
	Packs  string        `help:"Where proof packs are kept: a folder, or the URL of a bucket, as s3://NAME?region=REGION, which all control processes share; default: the folder packs of --data." placeholder:"PLACE"`
	Listen string        `default:"127.0.0.1:8081" address:"" help:"Address that gateways forward API requests to."`
	Nodes  string        `default:"127.0.0.1:8082" address:"" help:"Address that gateways get rights and keys from."`
	Admin  string        `default:"127.0.0.1:9090" address:"" help:"Address for operators: metrics, health, administration."`
	Bound  time.Duration `default:"30s" least:"1s" help:"How long a node signs without news of rights: the same for all processes and nodes."`
	NodeCA string        `help:"Let nodes join by client certificates of these authorities (PEM), which issue none for anything else. Read again when it changes." placeholder:"FILE" type:"path" file:"PEM"`

	TLS      certs.ServerFlags `embed:"" prefix:"tls-" group:"TLS of the address for gateways' requests:"`
	NodesTLS certs.ServerFlags `embed:"" prefix:"nodes-tls-" group:"TLS of the address for rights and keys:"`
	AdminTLS certs.ServerFlags `embed:"" prefix:"admin-tls-" group:"TLS of the address for operators:"`

	Plane plane.Flags `embed:""`

	AcceptRollback bool `env:"-" help:"Go on although the database or the log was restored from an older copy than the other; and, with --packs in a bucket, although no control process has a current key any more: it is replaced."`
}

// Validate refuses flags that need others.
func (c *controlCmd) Validate() error {
	if objects.IsBucket(c.Packs) && !objects.IsBucket(c.Plane.Exports.Bundles) {
		return errors.New("--packs is a bucket, so --bundles must be one, too, or a process would not find the bundles of another: for example --bundles 's3://NAME?region=REGION&prefix=bundles/'")
	}
	if err := objects.Check(c.Packs); err != nil {
		return fmt.Errorf("--packs: %w; it must be a folder or the URL of a bucket, for example 's3://muniment-packs?region=eu-central-1'", err)
	}
	return valid(c.Plane, c.databaseFlags, c.kafkaFlags, c.clickhouseFlags)
}

// Run serves until it is signalled. It waits until the database and the log can be reached.
// While the warehouse can't be, requests that need it are answered 503.
func (c *controlCmd) Run() error { return c.Flags.Run(thisBuild(), "muniment control", c.serve) }

func (c *controlCmd) serve(p *process.Process) error {
	if err := process.MakeDataDir(c.Data); err != nil {
		return err
	}
	nodeCA, err := certs.NewAuthorities(p.Certs("joining"), c.NodeCA, c.NodesTLS.ClientCA)
	if err != nil {
		return err
	}
	c.NodesTLS.HandlerCA = nodeCA

	// Three listeners, for three kinds of callers.
	admin, err := p.Listen("admin", "--admin", c.Admin, c.AdminTLS)
	if err != nil {
		return err
	}
	waits := process.NewAwaited(errors.New("control is waiting for its engines"))
	operators := p.Operate(admin, "", waits.Ready)
	api, err := p.Listen("api", "--listen", c.Listen, c.TLS)
	if err != nil {
		return err
	}
	nodes, err := p.Listen("nodes", "--nodes", c.Nodes, c.NodesTLS)
	if err != nil {
		return err
	}
	forAPI, forNodes := process.NewSwitch(new(refusesAtStart)), process.NewSwitch(new(refusesAtStart))
	served := p.Parts()
	served.Serve(api, forAPI)
	served.Serve(nodes, forNodes)
	p.Logger.Info("muniment control is starting", "api", api.URL(), "admin", admin.URL(), "nodes", nodes.URL(), "data", c.Data)

	access, err := adminapi.Share(c.Data, adminapi.Access{URL: admin.URL(), Certificate: c.AdminTLS.Cert})
	if err != nil {
		return err
	}
	packs, err := c.openPacks(p, waits)
	if err != nil {
		return err
	}
	db, log, warehouse, err := c.openEngines(p, waits)
	if err != nil {
		return err
	}
	search, err := c.reconcile(p.Ctx, waits, p.Logger, db, log, packs)
	if err != nil {
		return err
	}
	ctl, err := plane.Open(p.Ctx, plane.Config{
		DB: db, Log: log, Deliveries: log, Warehouse: warehouse, Data: c.Data, Packs: packs, PacksDir: c.packsDir(), OwnKeys: objects.IsBucket(c.Packs) && !c.AcceptRollback, LeaseBound: c.Bound, NodeCA: nodeCA.Source(), Token: access.Token, AdminTLS: admin.TLS != nil, Flags: c.Plane,
		Listening: api.URL(), RowAge: c.RowAge, Shared: true, LogKept: log.Kept, Logger: p.Logger, Registerer: p.Registry, Tracer: p.Tracer,
	})
	if err != nil {
		return err
	}
	ctl.ServeNodes(p.Parts())
	background := p.Parts()
	background.Run("the high-water mark", func(ctx context.Context) error { return rollback.Follow(ctx, db, log) })
	background.Run("the search for stops", search.Run)
	background.Run("the held rows' node", ctl.HeldNode().Run)
	ctl.Start(background)
	p.AtEnd(served.Stop) // before what it needs

	served.Run("the playground's streams", ctl.RunStreams)
	forAPI.Set(ctl.Handler())
	forNodes.Set(ctl.Nodes())
	operators.Set(gateway.Admin{
		Gatherer: p.Registry, LogLevel: p.LogLevel,
		Checks: []gateway.Check{{Name: "database", Ready: db.Ready}},
		Notes:  append([]gateway.Note{noted("log", func(context.Context) error { return log.Ready() }), noted("clickhouse", warehouse.Ready), noted("packs", packs.Ready)}, ctl.Notes(log, warehouse)...),
		Token:  access.Token,
		Mount:  ctl.AtOperators(),
	}.Handler())
	p.Wait()
	return nil
}

// packsDir is the folder of packs, or of what is at hand of those in a bucket.
func (c *controlCmd) packsDir() string {
	if c.Packs == "" || objects.IsBucket(c.Packs) {
		return filepath.Join(c.Data, plane.PacksFolder)
	}
	return c.Packs
}

// openPacks opens the place of packs. It waits for the bucket, if it is one.
func (c *controlCmd) openPacks(p *process.Process, waits *process.Awaited) (objects.Place, error) {
	packs, err := objects.Open(cmp.Or(c.Packs, c.packsDir()), proof.PackType)
	if err == nil {
		err = waits.Retry(p.Ctx, p.Logger, "bucket of packs", bucketAway, func() error { return packs.CheckCreate(p.Ctx) })
	}
	if err != nil {
		return nil, fmt.Errorf("--packs: %w", err)
	}
	return packs, nil
}

// bucketAway reports whether an error means that the bucket of packs does not answer.
func bucketAway(err error) bool { return api.From(err).Reason == api.EngineUnavailable }

// openEngines opens the engines of control. It waits for the database and the log.
func (c *controlCmd) openEngines(p *process.Process, waits *process.Awaited) (db *store.DB, log *kafka.Log, warehouse *clickhouse.Warehouse, err error) {
	database, err := c.databaseFlags.config(p.Logger, p.Registry)
	if err != nil {
		return nil, nil, nil, err
	}
	topic, err := c.kafkaFlags.config(p.Logger, p.Registry)
	if err != nil {
		return nil, nil, nil, err
	}
	where, err := c.clickhouseFlags.config(p.Logger, p.Registry)
	if err != nil {
		return nil, nil, nil, err
	}
	ready, release, err := store.ReadyGauge(database)
	if err != nil {
		return nil, nil, nil, err
	}
	p.AtEnd(release)
	database.OnFailure = p.Fail
	if err := p.Registry.Register(ready); err != nil {
		return nil, nil, nil, err
	}
	if db, err = c.openDatabase(p.Ctx, waits, database); err != nil {
		return nil, nil, nil, err
	}
	p.AtEnd(db.Close)
	topic.OnFailure = p.Fail
	if log, err = kafka.Open(topic); err != nil {
		return nil, nil, nil, err
	}
	p.AtEnd(log.Close)
	where.Away = true
	if warehouse, err = clickhouse.Open(p.Ctx, where); err != nil {
		return nil, nil, nil, err
	}
	p.AtEnd(warehouse.Close)
	return db, log, warehouse, nil
}

// noted shows a check in /readyz without making the process unready.
func noted(name string, ready func(context.Context) error) gateway.Note {
	return gateway.Note{Name: name, Status: func(ctx context.Context) (string, error) { return "ready", ready(ctx) }}
}

// refusesAtStart answers 503 while control starts.
type refusesAtStart struct{ backoff api.Backoff }

func (s *refusesAtStart) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := api.Unavailable(api.ControlUnavailable, "control is starting", time.Second)
	if id := r.Header.Get(api.HeaderRequestID); api.Printable(id, api.MaxRequestID) { // as the gateway sends it
		e.RequestID = id
		w.Header().Set(api.HeaderRequestID, id)
	}
	text, _ := e.Body() // of texts alone
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(api.HeaderNotBegun, "1")
	w.Header().Set("Retry-After", strconv.Itoa(s.backoff.Seconds(e.RetryAfterSeconds(), e.Reason, time.Now())))
	w.WriteHeader(e.GetStatus())
	_, _ = w.Write(text)
}

func (c *controlCmd) openDatabase(ctx context.Context, waits *process.Awaited, cfg store.Config) (db *store.DB, err error) {
	away := func(err error) bool { return api.From(err).Reason == api.DatabaseUnavailable }
	return db, waits.Retry(ctx, cfg.Logger, "database", away, func() error {
		db, err = store.Open(ctx, cfg)
		return err
	})
}

// reconcile compares the database with the log, once the log can be read.
func (c *controlCmd) reconcile(ctx context.Context, waits *process.Awaited, logger *slog.Logger, db *store.DB, log *kafka.Log, packs objects.Place) (search *rollback.Search, err error) {
	if err := waits.Retry(ctx, logger, "log", func(error) bool { return true }, log.Ready); err != nil {
		return nil, err
	}
	if err := c.sameTopic(ctx, db, log); err != nil {
		return nil, err
	}
	waits.Note("database", errors.New("it is being compared with the log"))
	history := rollback.History{Log: log, Keys: signing.KeyIDs, Replays: plane.Replays(), Accept: c.AcceptRollback, Append: log, Older: func(ctx context.Context, take func(event []byte) error) error {
		known, err := proof.Files(ctx, db.Read())
		if err != nil {
			return err
		}
		return proof.PackEvents(ctx, packs, known, take)
	}}
	err = waits.Retry(ctx, logger, "bucket of packs", bucketAway, func() error {
		search, err = history.Reconcile(ctx, db)
		return err
	})
	if errors.Is(err, rollback.ErrOlder) {
		err = fmt.Errorf("%w\nRestore the newest copy of the database, or start once with --accept-rollback to go on with what is here", err)
	}
	return search, err
}

// sameTopic refuses a topic that was recreated, or restored, since the database saw it,
// unless that is accepted.
func (c *controlCmd) sameTopic(ctx context.Context, db *store.DB, log *kafka.Log) error {
	n, err := log.Partitions(ctx)
	for i := range n {
		mark, known, err := rollback.HighWater(ctx, db, int32(i))
		if err != nil {
			return err
		}
		_, end, err := log.Bounds(ctx, int32(i))
		if err != nil {
			return err
		}
		if known && end.Generation > mark.Generation && !c.AcceptRollback {
			return fmt.Errorf("the topic %s is not the one that the database knows: partition %d ends at %s, and had reached %s\n"+
				"Name the right topic, or start once with --accept-rollback to go on with this one", c.Topic, i, end, mark)
		}
	}
	return err
}
