// Command muniment is the evidence ledger for governed delivery: see README.md.
//
// This file holds flags, wiring and signals. What a command does lives in the
// room that it concerns.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"muniment/bench"
	"muniment/control"
	"muniment/control/meter"
	"muniment/control/node"
	"muniment/control/proof"
	"muniment/control/right"
	"muniment/control/store"
	"muniment/control/tenant"
	"muniment/gateway"
	"muniment/gateway/snapshot"
	"muniment/pipeline"
	"muniment/pipeline/segment"
	"muniment/pipeline/sqlite"
	"muniment/sealer"
)

// commands is the command line. Each flag is also an environment variable.
type commands struct {
	Up     upCmd `cmd:"" help:"Run everything in one process, on one data folder."`
	Tenant struct {
		running
		tenant.TenantCommands
	} `cmd:"" help:"Administer the tenants of a running server."`
	Key struct {
		running
		tenant.Commands
	} `cmd:"" help:"Administer the API keys of a running server."`
	SigningKey struct {
		running
		node.Commands
	} `cmd:"" help:"Administer the keys that a running server signs with."`
	SetAside struct {
		running
		proof.SetAsideCommands
	} `cmd:"" help:"See the records that hold sealing, as they can't be trusted, and release them."`
	Root    node.RootCommands `cmd:"" help:"Make a root key, and let it delegate; offline."`
	Backup  backupCmd         `cmd:"" help:"Copy a data folder as of one point in time, while it is served."`
	Restore restoreCmd        `cmd:"" help:"Make a data folder of a backup, once all of it is verified."`
	Verify  verifyCmd         `cmd:"" help:"Verify receipts, proof packs and chains of packs, offline."`
	Demo    demoCmd           `cmd:"" help:"Tell the whole story against a throw-away data folder."`
	Soak    soakCmd           `cmd:"" hidden:"" help:"Abuse a server and hold what good traffic feels against what it felt without."`
	Abuse   abuseCmd          `cmd:"" hidden:"" help:"Be one of the abusers."`
	Bench   benchCmd          `cmd:"" help:"Measure what a receipt costs, against servers that do less."`
	Bare    bareCmd           `cmd:"" hidden:"" help:"Be one of the servers that do less."`
}

func main() {
	var cli commands
	app := kong.Parse(&cli, kong.Name("muniment"), kong.DefaultEnvars("MUNIMENT"),
		kong.Description("The evidence ledger for governed delivery."), kong.BindTo(os.Stdout, (*io.Writer)(nil)))
	app.FatalIfErrorf(app.Run())
}

// interrupted is a context that ends with SIGINT or SIGTERM.
func interrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

type demoCmd struct {
	Deliveries int    `default:"20000" help:"Deliveries to post (at least 1000)."`
	Clients    int    `default:"64" help:"Concurrent clients."`
	Seed       uint64 `default:"1" help:"Seed of the traffic."`
	Keep       string `placeholder:"DIR" help:"Tell the story in this new folder and keep it."`
}

// Run tells the story in a folder that is removed afterwards.
func (c *demoCmd) Run() error {
	if c.Deliveries < 1000 || c.Clients < 1 {
		return errors.New("a demo takes at least 1000 deliveries and 1 client")
	}
	ctx, stop := interrupted()
	defer stop()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir := c.Keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "muniment-demo-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	} else if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stdout.Stat()
	if err != nil {
		return err
	}
	demo := bench.Demo{
		Exe: exe, Dir: dir, Out: os.Stdout, Live: info.Mode()&os.ModeCharDevice != 0,
		Deliveries: c.Deliveries, Clients: c.Clients, Seed: c.Seed,
	}
	return demo.Run(ctx)
}

type soakCmd struct{ bench.Soak }

// Run abuses a server that is this binary.
func (c *soakCmd) Run(out io.Writer) error {
	ctx, stop := interrupted()
	defer stop()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return c.Measure(ctx, exe, out)
}

type abuseCmd struct{}

// Run does what standard input says until that ends.
func (c *abuseCmd) Run(out io.Writer) error {
	ctx, stop := interrupted()
	defer stop()
	return bench.RunAbuse(ctx, os.Stdin, out)
}

type benchCmd struct{ bench.Command }

// Run measures with this binary.
func (c *benchCmd) Run(out io.Writer) error {
	ctx, stop := interrupted()
	defer stop()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return c.Measure(ctx, exe, out)
}

type bareCmd struct{ bench.Bare }

// Run serves until it is told to stop.
func (c *bareCmd) Run() error {
	ctx, stop := interrupted()
	defer stop()
	return c.Serve(ctx)
}

type verifyCmd struct {
	Files []string `arg:"" name:"file" help:"Receipts, packs or chains of packs (oldest first)."`
	Root  string   `help:"The trust anchor: a root key (C2SP vkey), or a file that holds one." placeholder:"KEY"`
	Keys  string   `help:"A weaker anchor: a key directory that is believed as it is." placeholder:"FILE"`
	JSON  bool     `help:"Print one JSON object."`

	ExpectCheckpoint string `help:"A checkpoint that was kept elsewhere, or anything that holds one: the files must prove that its log has only grown since." placeholder:"FILE" type:"path"`
}

// Run never returns: the exit status is the verdict.
func (c *verifyCmd) Run() error {
	ctx, stop := interrupted()
	defer stop()
	os.Exit(sealer.VerifyFiles(ctx, sealer.Options{
		Files: c.Files, Root: c.Root, Keys: c.Keys, Expect: c.ExpectCheckpoint, JSON: c.JSON,
	}, os.Stdout))
	return nil
}

type backupCmd struct {
	Data        string `default:"./muniment-data" help:"Data folder, of a server that runs or not." type:"path"`
	To          string `required:"" help:"Folder to make, or file to make if it ends in .tar." placeholder:"DIR|FILE" type:"path"`
	WithoutKeys bool   `help:"Leave the private keys out." xor:"keys"`
	WithRoot    bool   `help:"Take keys/root.skey along: whoever has it can sign as this service, and it can't be revoked." xor:"keys"`
	JSON        bool   `help:"Print the manifest."`
}

// Run copies the folder; no server is asked.
func (c *backupCmd) Run() error {
	ctx, stop := interrupted()
	defer stop()
	made, err := store.Backup{
		Data: c.Data, To: c.To, WithoutKeys: c.WithoutKeys, WithRoot: c.WithRoot, Progress: os.Stderr,
		OpenLog: func(dir string) (store.LogCopier, error) { return segment.OpenReader(dir) },
	}.Run(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return json.NewEncoder(os.Stdout).Encode(made)
	}
	fmt.Printf("backed up to %s as of %s\n", c.To, made.TakenAt)
	return nil
}

type restoreCmd struct {
	From             string   `required:"" help:"The backup: a folder or a .tar." placeholder:"DIR|FILE" type:"path"`
	Data             string   `required:"" help:"Data folder to make." placeholder:"DIR" type:"path"`
	ExpectCheckpoint []string `help:"A proof pack or checkpoint that was kept elsewhere: refuse a backup that is older than it." placeholder:"FILE" type:"path"`
	JSON             bool     `help:"Print one JSON object."`
}

// Run makes the folder, or leaves nothing behind.
func (c *restoreCmd) Run() error {
	ctx, stop := interrupted()
	defer stop()
	made, err := store.Restore{
		From: c.From, Data: c.Data, Expect: c.ExpectCheckpoint, Progress: os.Stderr, Continue: continueLog, Replays: replays(),
	}.Run(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return json.NewEncoder(os.Stdout).Encode(made)
	}
	fmt.Printf("restored %s as of %s; start it with: muniment up --data %s\n", made.Data, made.TakenAt, made.Data)
	if !made.Keys {
		fmt.Printf("The backup holds no private keys: put them into %s first.\n", filepath.Join(made.Data, "keys"))
	}
	return nil
}

// continueLog opens the log of a restored folder for its next generation.
func continueLog(ctx context.Context, data string, end sealer.Position, generation uint32) (_ store.OpenLog, err error) {
	log, err := segment.Open(segment.Config{Dir: filepath.Join(data, "log"), Generation: generation})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, log.Close())
		}
	}()
	if _, found, err := log.Bounds(ctx, store.Partition); err != nil || found.Offset != end.Offset {
		return nil, errors.Join(fmt.Errorf("the log ends at offset %d, not at %s", found.Offset, end), err)
	}
	warehouse, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(data, "warehouse.db")})
	if err != nil {
		return nil, err
	}
	defer closing(&err, warehouse)
	next, loaded, err := warehouse.Resume(ctx, store.Partition)
	if err == nil && loaded && next.Compare(end) > 0 {
		err = fmt.Errorf("%w: loaded up to %s, the log ends at %s", pipeline.ErrLogBehind, next, end)
	}
	if err != nil {
		return nil, err
	}
	loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: log, Warehouse: warehouse})
	if err != nil {
		return nil, err
	}
	return log, loader.Check(ctx)
}

// adminFile is what a running server leaves in its data folder, mode 0600, so
// that administrative commands find it and may speak to it.
const adminFile = "admin.json"

type adminAccess struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// running says which server an administrative command speaks to.
type running struct {
	Data  string `default:"./muniment-data" help:"Data folder of the running server, which holds its admin token." type:"path"`
	Admin string `help:"Address of its admin listener; default: what the data folder says." placeholder:"ADDR"`
}

// Do calls the server's admin listener.
func (c *running) Do(method, path string, in, out any) error {
	ctx, stop := interrupted()
	defer stop()
	var access adminAccess
	text, err := os.ReadFile(filepath.Join(c.Data, adminFile))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no server runs on %s (start one with: muniment up --data %s)", c.Data, c.Data)
	}
	if err == nil {
		err = json.Unmarshal(text, &access)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", adminFile, err)
	}
	if c.Admin != "" {
		access.URL = "http://" + c.Admin
	}
	client := bench.Client{API: access.URL, Key: access.Token}
	return client.Do(ctx, method, path, in, out)
}

// AfterApply hands the server to the commands of the rooms.
func (c *running) AfterApply(k *kong.Context) error {
	k.BindTo(c, (*node.Server)(nil))
	return nil
}

type upCmd struct {
	Data     string        `default:"./muniment-data" help:"Data folder; made when it is missing." type:"path"`
	Listen   string        `default:"127.0.0.1:8080" help:"Address of the API."`
	Admin    string        `default:"127.0.0.1:9090" help:"Address for operators: metrics, health, administration."`
	Bound    time.Duration `default:"30s" help:"How long the node signs without news of rights."`
	Log      string        `default:"text" enum:"text,json" help:"Form of the log: ${enum}."`
	LogLevel slog.Level    `default:"info" help:"Least level that is logged: debug, info, warn or error."`
	Keep     time.Duration `default:"168h" help:"How long the event log keeps what is loaded, at least 25h."`

	TenantCap int `help:"How many deliveries of one tenant are in hand at a time, more are answered 429; default: a quarter of what the node takes." placeholder:"N"`

	AcceptRollback bool `help:"Go on although log, database or warehouse was restored from an older copy than the others."`
	PauseLoader    bool `hidden:"" help:"Load nothing into the warehouse; for measurements."`
}

// nodeID names the one node of an embedded service.
const nodeID = "nod_embedded"

// Validate refuses what would only fail once the service runs.
func (c *upCmd) Validate() error {
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
	ctx, stop := interrupted()
	defer stop()
	// A blocked fdatasync holds a P until the runtime takes it back: with one P a
	// core the gateway would stand still meanwhile.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * runtime.NumCPU())
	}
	logger := c.logger()
	started := false
	defer func() {
		if err != nil && ctx.Err() != nil && (!started || errors.Is(err, context.Canceled)) {
			logger.Info("muniment was stopped while it started", "err", err)
			err = nil
		}
	}()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	if err := store.MakeDir(c.Data); err != nil {
		return err
	}
	claim, err := store.Claim(c.Data)
	if err != nil {
		return err
	}
	defer closing(&err, claim)
	// Both ports are taken before anything is opened: callers queue while a long log
	// is checked, instead of being refused.
	listener, err := gateway.Listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	adminListener, err := net.Listen("tcp", c.Admin)
	if err != nil {
		return err
	}
	defer adminListener.Close()
	logger.Info("muniment is starting", "api", "http://"+listener.Addr().String(),
		"admin", "http://"+adminListener.Addr().String(), "data", c.Data)

	// Operators are answered from the first moment on: whoever watches /livez must not
	// kill a process for checking a long log.
	failed := make(chan error, 8)
	operators := newSwitch(gateway.Admin{Gatherer: registry, Checks: []gateway.Check{
		{Name: "start", Ready: func(context.Context) error { return errors.New("the data folder is being opened and checked") }},
	}}.Handler())
	administered, stopAdmin := context.WithCancel(context.WithoutCancel(ctx))
	var operated sync.WaitGroup
	operated.Go(func() {
		if err := serve(administered, adminListener, operators); err != nil {
			failed <- fmt.Errorf("the admin listener stopped: %w", err)
		}
	})
	defer operated.Wait()
	defer stopAdmin()

	db, err := store.Open(ctx, store.Config{Path: filepath.Join(c.Data, "control.db"), Logger: logger, Registerer: registry})
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
		Dir: filepath.Join(c.Data, "log"), Log: logger, Registerer: registry, OnFailure: func(err error) { failed <- err },
	})
	if err != nil {
		return err
	}
	defer closing(&err, eventLog)
	loader, err := pipeline.NewLoader(pipeline.LoaderConfig{Log: eventLog, Warehouse: warehouse, Logger: logger, Registerer: registry})
	if err != nil {
		return err
	}
	if err := loader.Check(ctx); err != nil {
		return fmt.Errorf("the warehouse does not fit the log: %w", err)
	}
	retention := segment.Retention{Log: eventLog, Keep: c.Keep, Logger: logger, Loaded: func(ctx context.Context) (sealer.Position, bool, error) {
		return warehouse.Resume(ctx, store.Partition)
	}}

	nodes, err := node.New(ctx, node.Config{DB: db, Dir: filepath.Join(c.Data, "keys"), Bound: c.Bound, Logger: logger, Registerer: registry})
	if err != nil {
		return err
	}
	rights, err := right.New(right.Config{DB: db, Nodes: nodes})
	if err != nil {
		return err
	}
	packs, err := proof.New(proof.Config{
		DB: db, Warehouse: warehouse, Log: eventLog, Keys: nodes, Dir: filepath.Join(c.Data, "packs"), Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	metering, err := meter.New(meter.Config{Warehouse: warehouse, Log: eventLog})
	if err != nil {
		return err
	}
	tenants, err := tenant.New(tenant.Config{DB: db, Nodes: nodes, Counters: tenant.Counters{
		Bases: rights.CountBases, Rights: rights.CountRights, ProofPacks: packs.CountPacks, Events: warehouse.CountEvents,
	}})
	if err != nil {
		return err
	}
	token := rand.Text()
	ctl, err := control.New(control.Config{
		DB: db, Nodes: nodes, Tenants: tenants, Packs: packs, Log: eventLog,
		Rooms: []control.Room{nodes, tenants, rights, packs, metering}, AdminToken: token, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}

	epoch, err := nodes.Enrol(ctx, nodeID)
	if err != nil {
		return err
	}
	signer, err := nodes.ReceiptSigner(nodeID)
	if err != nil {
		return err
	}
	view, err := snapshot.New(snapshot.Config{Source: ctl.Source(), NodeID: nodeID, Bound: c.Bound, Logger: logger, Registerer: registry})
	if err != nil {
		return err
	}
	inside := &insideListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	edge, err := gateway.New(gateway.Config{
		NodeID: nodeID, Epoch: epoch, Rights: view, Log: eventLog, Signer: signer, DialControl: inside.Dial,
		MaxTenantInFlight: c.TenantCap, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	operators.Set(gateway.Admin{
		Gatherer: registry,
		Checks: []gateway.Check{
			{Name: "gateway", Ready: func(context.Context) error { return edge.Ready() }},
			{Name: "log", Ready: func(context.Context) error { return eventLog.Err() }},
			{Name: "control", Ready: edge.ControlReady},
		},
		Notes: backstage(loader, warehouse, packs, nodes),
		Mount: map[string]http.Handler{"/admin/": ctl.Admin()},
	}.Handler())

	access, err := json.Marshal(adminAccess{URL: "http://" + adminListener.Addr().String(), Token: token})
	if err != nil {
		return err
	}
	if err := store.WriteFile(filepath.Join(c.Data, adminFile), access, 0o600); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(c.Data, adminFile))

	// What runs behind the gateway ends after it: it needs all of them to drain.
	background, halt := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	defer parts.Wait()
	defer halt()
	run := func(name string, work func(context.Context) error) {
		parts.Go(func() {
			if err := work(background); err != nil && background.Err() == nil {
				failed <- fmt.Errorf("%s stopped: %w", name, err)
			}
		})
	}
	if c.PauseLoader {
		loader.Pause()
		logger.Warn("the loader is paused: nothing gets into the warehouse")
	}
	run("the loader", loader.Run)
	run("the view of rights", view.Run)
	run("the high-water mark", func(ctx context.Context) error { return db.Follow(ctx, eventLog) })
	run("the log's retention", retention.Run)
	run("the outbox relay", ctl.Run)
	run("control's server", func(ctx context.Context) error { return serve(ctx, inside, ctl.Handler()) })

	serving, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		select {
		case err := <-failed:
			fail(err)
		case <-serving.Done():
		}
	}()
	started = true
	if err := edge.Run(serving, listener); err != nil {
		return err
	}
	if cause := context.Cause(serving); ctx.Err() == nil && cause != nil {
		return cause
	}
	logger.Info("muniment has stopped")
	return nil
}

// backstage tells operators how far the warehouse is, what holds sealing, and for how
// long the root has delegated: each may be amiss while deliveries go on.
func backstage(loader *pipeline.Loader, warehouse pipeline.Sink, packs *proof.Room, nodes *node.Room) []gateway.Note {
	return []gateway.Note{
		{Name: "loader", Tell: func(ctx context.Context) (string, error) {
			lag, err := loader.Lag(ctx)
			return fmt.Sprintf("%d records behind the log", lag), err
		}},
		{Name: "warehouse", Tell: func(ctx context.Context) (string, error) {
			next, loaded, err := warehouse.Resume(ctx, store.Partition)
			if !loaded {
				return "holds nothing yet", err
			}
			return "loaded up to " + next.String(), err
		}},
		{Name: "sealing", Tell: packs.Holds},
		{Name: "delegation", Tell: nodes.Delegated},
	}
}

// openLog opens the event log and holds database and warehouse against it: each of
// them remembers how long it once was.
func (c *upCmd) openLog(ctx context.Context, db *store.DB, warehouse pipeline.Sink, cfg segment.Config) (log *segment.Log, err error) {
	history := store.History{Replays: replays(), Accept: c.AcceptRollback}
	mark, known, err := db.HighWater(ctx)
	if err != nil {
		return nil, err
	}
	if known {
		cfg.AtLeast = &mark
	}
	if loaded, ok, err := warehouse.Resume(ctx, store.Partition); err != nil {
		return nil, err
	} else if ok {
		history.Loaded = &loaded
		if !known || loaded.Compare(mark) > 0 {
			cfg.AtLeast = &loaded
		}
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
	if errors.Is(err, pipeline.ErrDamaged) {
		err = fmt.Errorf("%w\nPut the named file of %s back from a copy, or restore a backup into another folder: "+
			"muniment restore --from BACKUP --data DIR", err, cfg.Dir)
	}
	return nil, err
}

// replays are the rooms that tell an older database what was stopped meanwhile.
func replays() []store.Replay { return []store.Replay{right.Replay, tenant.Replay, node.Replay} }

// switchable is a handler that can be replaced while it serves.
type switchable struct{ current atomic.Pointer[http.Handler] }

func newSwitch(h http.Handler) *switchable {
	s := new(switchable)
	s.Set(h)
	return s
}

// Set makes h answer from the next request on.
func (s *switchable) Set(h http.Handler) { s.current.Store(&h) }

func (s *switchable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.current.Load()).ServeHTTP(w, r)
}

// serve answers on a listener until ctx ends, and then finishes what has begun.
func serve(ctx context.Context, ln net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		drained <- server.Shutdown(limit)
	})
	defer stop()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}

// insideListener leads the gateway to control without a port that others could
// reach. Its connections are socket pairs: they buffer, and know deadlines, which
// net/http and fasthttp both rely on.
type insideListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Dial connects to whoever accepts.
func (l *insideListener) Dial() (net.Conn, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "inside")
		ends[i], err = net.FileConn(f) // a copy of f
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	select {
	case l.conns <- ends[0]:
		return ends[1], nil
	case <-l.closed:
		return nil, errors.Join(net.ErrClosed, ends[0].Close(), ends[1].Close())
	}
}

// Accept returns the other end of the next Dial.
func (l *insideListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Dial and Accept fail.
func (l *insideListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is of no use to anyone.
func (l *insideListener) Addr() net.Addr { return &net.UnixAddr{Name: "inside", Net: "unix"} }

// closing closes c and keeps its error if there is none yet.
func closing(err *error, c io.Closer) {
	if closeErr := c.Close(); *err == nil {
		*err = closeErr
	}
}

// logger writes to standard error; its first line names the addresses.
func (c *upCmd) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.Log == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}
