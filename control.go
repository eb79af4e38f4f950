package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"muniment/control/node"
	"muniment/control/proof"
	"muniment/control/sandbox"
	"muniment/control/store"
	"muniment/gateway"
	"muniment/gateway/api"
	"muniment/gateway/certs"
	"muniment/pipeline/clickhouse"
	"muniment/pipeline/kafka"
	"muniment/sealer/keyfile"
)

// controlCmd is one of any number of control processes on one database. They share
// the data folder too: one volume that all of them may write to.
type controlCmd struct {
	logFlags
	databaseFlags
	kafkaFlags
	clickhouseFlags

	Data   string        `default:"./muniment-data" help:"Folder of signing keys and proof packs, which all control processes share; made when it is missing." type:"path"`
	Listen string        `default:"127.0.0.1:8081" help:"Address that gateways forward API requests to."`
	Nodes  string        `default:"127.0.0.1:8082" help:"Address that gateways get rights and keys from."`
	Admin  string        `default:"127.0.0.1:9090" help:"Address for operators: metrics, health, administration."`
	Bound  time.Duration `default:"30s" help:"How long a node signs without news of rights: the same for all processes and nodes."`

	TLS      certs.ServerFlags `embed:"" prefix:"tls-" group:"TLS of the address for gateways' requests:"`
	NodesTLS certs.ServerFlags `embed:"" prefix:"nodes-tls-" group:"TLS of the address for rights and keys:"`
	AdminTLS certs.ServerFlags `embed:"" prefix:"admin-tls-" group:"TLS of the address for operators:"`

	Sandbox sandbox.Flags `embed:"" prefix:"sandbox-" group:"Sandbox:"`
	Seal    sealFlags     `embed:"" group:"Sealing:"`

	AcceptRollback bool `env:"-" help:"Go on although the database or the log was restored from an older copy than the other."`
}

// Run serves until it is told to stop. It waits for a database and a log that are
// away, and does without the warehouse meanwhile: then what needs it is answered 503.
func (c *controlCmd) Run() (err error) {
	told, stop := interrupted()
	defer stop()
	ctx, fail := context.WithCancelCause(told) // also while it starts, which may take long
	defer fail(nil)
	logger := c.logger()
	started := false
	defer func() { err = stopped(told, ctx, logger, started, err) }()
	registry := newRegistry()
	if err := makeDataDir(c.Data); err != nil {
		return err
	}

	// Three doors, for three kinds of callers.
	operated, served := newParts(ctx, fail), newParts(ctx, fail)
	defer operated.stop()
	open := func(on *parts, name, flag, address string, flags certs.ServerFlags, first http.Handler) (*switchable, string, error) {
		cfg, err := certs.Server(certs.Options{Use: name, Logger: logger, Registerer: registry}, flags)
		if err != nil {
			return nil, "", err
		}
		ln, err := net.Listen("tcp", address)
		if err != nil {
			return nil, "", cannotListen(flag, err)
		}
		door := newSwitch(first)
		var answers http.Handler = door
		if on == operated {
			answers = gateway.LoopbackOnly(ln.Addr(), door)
		}
		on.run("the listener for "+name, func(ctx context.Context) error { return serve(ctx, secured(ln, cfg), answers) })
		return door, urlOf(ln.Addr(), cfg), nil
	}
	waits := newAwaited(errors.New("control is waiting for its engines"))
	starting := http.HandlerFunc(refuseAtStart)
	operators, adminURL, err := open(operated, "admin", "--admin", c.Admin, c.AdminTLS, gateway.Admin{Gatherer: registry, Checks: []gateway.Check{
		{Name: "start", Ready: waits.Ready},
	}}.Handler())
	if err != nil {
		return err
	}
	defer served.stop()
	callers, apiURL, err := open(served, "api", "--listen", c.Listen, c.TLS, starting)
	if err != nil {
		return err
	}
	nodes, nodesURL, err := open(served, "nodes", "--nodes", c.Nodes, c.NodesTLS, starting)
	if err != nil {
		return err
	}
	logger.Info("muniment control is starting", "api", apiURL, "admin", adminURL, "nodes", nodesURL, "data", c.Data)

	database, err := c.databaseFlags.config(logger, registry)
	if err != nil {
		return err
	}
	topic, err := c.kafkaFlags.config(logger, registry)
	if err != nil {
		return err
	}
	where, err := c.clickhouseFlags.config(logger, registry)
	if err != nil {
		return err
	}
	db, err := c.openDatabase(ctx, waits, database)
	if err != nil {
		return err
	}
	defer closing(&err, db)
	topic.OnFailure = fail
	eventLog, err := kafka.Open(topic)
	if err != nil {
		return err
	}
	defer closing(&err, eventLog)
	where.Away = true
	warehouse, err := clickhouse.Open(ctx, where)
	if err != nil {
		return err
	}
	defer closing(&err, warehouse)
	if err := c.reconcile(ctx, waits, logger, db, eventLog); err != nil {
		return err
	}

	access, err := sharedAccess(c.Data, adminAccess{URL: adminURL, Certificate: c.AdminTLS.Cert})
	if err != nil {
		return err
	}
	ctl, err := openPlane(ctx, planeConfig{
		DB: db, Log: eventLog, Warehouse: warehouse, Data: c.Data, Bound: c.Bound, Token: access.Token, Sandbox: c.Sandbox, Seal: c.Seal, Shared: true, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	background := newParts(ctx, fail)
	defer background.stop()
	background.run("the high-water mark", func(ctx context.Context) error { return db.Follow(ctx, eventLog) })
	background.run("the search for stops", db.SearchStops)
	background.run("the outbox relay", ctl.Run)
	background.run("the sandbox's node", func(ctx context.Context) error { return ctl.sandbox.serve(ctx, ctl) })
	background.run("the held rows' node", func(ctx context.Context) error { return ctl.held.serve(ctx, ctl) })
	defer served.stop() // before what it needs

	callers.Set(ctl.Handler())
	nodes.Set(ctl.Nodes())
	operators.Set(gateway.Admin{
		Gatherer: registry,
		Checks:   []gateway.Check{{Name: "database", Ready: db.Ready}},
		Notes:    append([]gateway.Note{noted("log", func(context.Context) error { return eventLog.Ready() }), noted("clickhouse", warehouse.Ready)}, ctl.notes(eventLog, warehouse)...),
		Token:    access.Token,
		Mount:    map[string]http.Handler{"/admin/": ctl.Admin()},
	}.Handler())

	started = true
	<-ctx.Done()
	if err := whyEnded(told, ctx); err != nil {
		return err
	}
	logger.Info("muniment control has stopped")
	return nil
}

// noted makes a note of a check that keeps no request away.
func noted(name string, ready func(context.Context) error) gateway.Note {
	return gateway.Note{Name: name, Tell: func(ctx context.Context) (string, error) { return "ready", ready(ctx) }}
}

// refuseAtStart answers while nothing can be asked yet.
func refuseAtStart(w http.ResponseWriter, r *http.Request) {
	e := api.Unavailable(api.ControlUnavailable, "control is starting", time.Second)
	if id := r.Header.Get(api.HeaderRequestID); api.Printable(id, api.MaxRequestID) { // as the gateway sends it
		e.RequestID = id
		w.Header().Set(api.HeaderRequestID, id)
	}
	text, _ := e.Body() // of texts alone
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", fmt.Sprint(e.RetryAfterSeconds()))
	w.WriteHeader(e.GetStatus())
	_, _ = w.Write(text)
}

func (c *controlCmd) openDatabase(ctx context.Context, waits *awaited, cfg store.Config) (db *store.DB, err error) {
	away := func(err error) bool { return api.From(err).Reason == api.DatabaseUnavailable }
	return db, waits.patiently(ctx, cfg.Logger, "database", away, func() error {
		db, err = store.Open(ctx, cfg)
		return err
	})
}

// reconcile holds the database against the log, once the log can be read.
func (c *controlCmd) reconcile(ctx context.Context, waits *awaited, logger *slog.Logger, db *store.DB, log *kafka.Log) error {
	if err := waits.patiently(ctx, logger, "log", func(error) bool { return true }, log.Ready); err != nil {
		return err
	}
	if err := c.sameTopic(ctx, db, log); err != nil {
		return err
	}
	err := db.Reconcile(ctx, store.History{Log: log, Keys: node.KeyIDs, Replays: replays(), Accept: c.AcceptRollback, Older: func(ctx context.Context, take func(event []byte) error) error {
		return proof.PackEvents(ctx, filepath.Join(c.Data, "packs"), take)
	}})
	if errors.Is(err, store.ErrOlder) {
		err = fmt.Errorf("%w\nRestore the newest copy of the database, or start once with --accept-rollback to go on with what is here", err)
	}
	return err
}

// sameTopic refuses a topic that was made anew, or restored, since the database saw it,
// unless that is accepted.
func (c *controlCmd) sameTopic(ctx context.Context, db *store.DB, log *kafka.Log) error {
	n, err := log.Partitions(ctx)
	for i := range n {
		mark, known, err := db.HighWater(ctx, int32(i))
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

// sharedAccess reads how operators speak to the processes of a data folder, or makes
// it: one token opens the admin listener of each of them. The address is that of the
// process that started last.
func sharedAccess(data string, own adminAccess) (access adminAccess, err error) {
	path := filepath.Join(data, adminFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		// Of several that start at once one makes it: a link, unlike a renaming, fails
		// where a file is.
		access.Token = rand.Text()
		fresh := path + "." + access.Token[:8]
		if text, err = json.Marshal(access); err == nil {
			err = keyfile.Write(fresh, text, 0o600)
		}
		if err == nil {
			defer os.Remove(fresh)
			if err = os.Link(fresh, path); errors.Is(err, fs.ErrExist) {
				text, err = os.ReadFile(path)
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &access)
	}
	if err == nil && access.Token == "" {
		err = errors.New("it holds no token: remove it")
	}
	access.URL, access.Certificate = own.URL, own.Certificate
	if err == nil {
		text, err = json.Marshal(access)
	}
	if err == nil {
		err = keyfile.Write(path, text, 0o600)
	}
	if err != nil {
		return access, fmt.Errorf("cannot share %s: %w", path, err)
	}
	return access, nil
}
