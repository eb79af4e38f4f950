package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/sandbox"
	"muniment/gateway"
	"muniment/gateway/api"
	"muniment/gateway/certs"
	"muniment/gateway/identity"
	"muniment/gateway/issue"
	"muniment/gateway/snapshot"
	"muniment/pipeline/edge"
	"muniment/pipeline/kafka"
	"muniment/pipeline/segment"
	"muniment/sealer/keyfile"
)

// gatewayCmd is an edge node.
type gatewayCmd struct {
	logFlags
	kafkaFlags
	profilingFlags
	keysFlags

	Data           string        `default:"./muniment-node" help:"The node's folder: its identity, its spool, its copies. It must survive the process: what is in the spool was promised." type:"path"`
	Listen         string        `default:"127.0.0.1:8080" help:"Address of the API."`
	Admin          string        `default:"127.0.0.1:9090" help:"Address for operators: metrics, health."`
	Control        string        `required:"" help:"Where control, or a balancer in front of several, takes the API's requests: all but deliveries." placeholder:"HOST:PORT"`
	Nodes          string        `required:"" help:"Where control, or such a balancer, listens for nodes. Over http only on this machine." placeholder:"URL"`
	Invitation     string        `help:"What lets the node join: muniment node invite. Of no use once it has." placeholder:"TOKEN"`
	Bound          time.Duration `default:"30s" help:"How long the node signs without news of rights."`
	Patience       time.Duration `default:"2s" help:"How long a record waits for Kafka before the node's own disk makes the promise."`
	SpoolBytes     int64         `default:"8589934592" help:"Size of the spool, in bytes. When it is full, deliveries are refused."`
	CopyBytes      int64         `default:"4294967296" help:"Size of the copies, in bytes, from which retries of the last day are answered."`
	TenantCap      int           `help:"How many deliveries of one tenant are in hand at a time, more are answered 429; default: a quarter of what the node takes." placeholder:"N"`
	TrustedProxies int           `help:"How many proxies of your own stand before this address, each adding to X-Forwarded-For: the sandbox limits callers by what they tell. Of 0 the header is ignored." placeholder:"N"`
	RotateEvery    time.Duration `default:"2160h" help:"Age at which the node rotates its signing key."`
	DrainDelay     time.Duration `help:"How long a stopping node goes on accepting connections, for balancers to take notice."`

	TLS        certs.ServerFlags `embed:"" prefix:"tls-" group:"TLS of the API:"`
	AdminTLS   certs.ServerFlags `embed:"" prefix:"admin-tls-" group:"TLS of the address for operators:"`
	ControlTLS certs.ClientFlags `embed:"" prefix:"control-" group:"TLS with control, for the API's requests:"`
	NodesTLS   certs.ClientFlags `embed:"" prefix:"nodes-" group:"TLS with control, for rights and keys:"`
}

// Validate is called by the command line.
func (c *gatewayCmd) Validate() error {
	if err := c.keysFlags.Validate(); err != nil {
		return err
	}
	if most := issue.DefaultTimeout / 2; c.Patience < 0 || c.Patience > most {
		return fmt.Errorf("--patience %v is not from 0 to %v, half of what a delivery may take", c.Patience, most)
	}
	return nil
}

// Run serves until it is told to stop. Everything is opened in the order in which
// it is needed, and closed in the reverse one.
func (c *gatewayCmd) Run() (err error) {
	told, stop := interrupted()
	defer stop()
	ctx, fail := context.WithCancelCause(told) // also while it starts, which may take long
	defer fail(nil)
	processors := gateway.DoubleProcs()
	logger := c.logger()
	started := false
	defer func() { err = stopped(told, ctx, logger, started, err) }()
	registry := newRegistry()

	token, err := c.token()
	if err != nil {
		return err
	}
	if err := makeDataDir(c.Data); err != nil {
		return err
	}
	claim, err := keyfile.Claim(c.Data)
	if err != nil {
		return err
	}
	defer closing(&err, claim)
	hops, err := c.openHops(logger, registry)
	if err != nil {
		return err
	}
	address, held, err := gateway.Hold(ctx, c.Listen)
	if err != nil {
		return cannotListen("--listen", err)
	}
	defer held.Close()
	adminListener, err := net.Listen("tcp", c.Admin)
	if err != nil {
		return cannotListen("--admin", err)
	}
	defer adminListener.Close()
	logger.Info("muniment gateway is starting", "api", urlOf(address, hops.api),
		"admin", urlOf(adminListener.Addr(), hops.admin), "data", c.Data)

	waits := newAwaited(errors.New("the node has not begun its service with control yet"))
	operators := newSwitch(gateway.Admin{Gatherer: registry, Token: token, Checks: []gateway.Check{
		{Name: "start", Ready: waits.Ready},
	}}.Handler())
	operated := newParts(ctx, fail)
	defer operated.stop()
	operated.run("the admin listener", func(ctx context.Context) error {
		return serve(ctx, secured(adminListener, hops.admin), gateway.LoopbackOnly(adminListener.Addr(), operators))
	})

	reach, err := c.kafkaFlags.config(logger, registry)
	if err != nil {
		return err
	}
	reach.OnFailure = fail
	topic, err := kafka.Open(reach)
	if err != nil {
		return err
	}
	spool, err := segment.Open(segment.Config{
		Dir: filepath.Join(c.Data, "spool"), MaxBytes: c.SpoolBytes, Log: logger,
		Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"log": "spool"}, registry),
		OnFailure:  fail,
	})
	if err != nil {
		return errors.Join(err, topic.Close())
	}
	defer closing(&err, spool)
	promise, err := kafka.OpenSpooled(kafka.SpoolConfig{
		Log: topic, Spool: spool, Mark: filepath.Join(c.Data, "spool.mark"), Patience: c.Patience, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return errors.Join(err, topic.Close())
	}
	defer closing(&err, promise)
	eventLog, err := edge.Open(edge.Config{
		Promise: promise, Dir: filepath.Join(c.Data, "copies"), MaxBytes: c.CopyBytes, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	defer closing(&err, eventLog)

	node, err := identity.Open(ctx, identity.Config{
		Dir: filepath.Join(c.Data, "identity"), Control: c.Nodes, Client: hops.nodes, Invitation: c.Invitation, RotateEvery: c.RotateEvery,
		Drained: func() bool { return promise.Pending() == 0 }, Waiting: func(err error) { waits.note("control", err) }, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	defer closing(&err, node)
	source, err := snapshot.NewRemote(c.Nodes, node.Credential(), hops.nodes)
	if err != nil {
		return err
	}
	view, err := snapshot.New(snapshot.Config{
		Source: source, NodeID: node.ID(), Bound: c.Bound, Signer: node, Spooled: promise.Pending, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	issuer, err := issue.New(issue.Config{
		NodeID: node.ID(), Epoch: node.Epoch(), Rights: view, Log: eventLog, Signer: node.Signer,
		IdempotencyEntries: c.IdempotencyEntries, MaxRowAge: c.RowAge,
		BatchSigners: max(1, processors/2), BatchBytes: segment.DefaultPendingBytes / 2, CheckpointDir: filepath.Join(c.Data, checkpointFolder), Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	server, err := gateway.New(gateway.Config{
		Version: thisBuild().Version, Rights: view, Issuer: issuer, DialControl: hops.dialControl, Hold: source.Hold, Spell: sandbox.Spell, TLS: hops.api,
		MaxTenantInFlight: c.TenantCap, TrustedProxies: c.TrustedProxies, Processors: processors, DrainDelay: c.DrainDelay, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return err
	}
	// What runs behind the gateway ends after it: it needs all of them to drain.
	background := newParts(ctx, fail)
	defer background.stop()
	background.run("the view of rights", view.Run)
	background.run("the issuer", issuer.Run)
	background.run("the node's identity", node.Run)
	background.run("the copies' retention", eventLog.Run)
	serving := gateway.Admin{
		Gatherer: registry,
		Token:    token,
		Checks: []gateway.Check{
			{Name: "gateway", Ready: func(context.Context) error { return server.Ready() }},
			{Name: "signing key", Ready: func(context.Context) error { return node.Ready() }},
			{Name: "spool", Ready: func(context.Context) error { return spool.Err() }},
		},
		Notes: []gateway.Note{
			// Without control deliveries go on until the lease ends, and then the gateway is
			// not ready: a balancer that drops all nodes sooner would be the outage.
			noted("control", server.ControlReady),
			noted("kafka", func(context.Context) error { return topic.Ready() }),
			{Name: "spooled", Tell: func(context.Context) (string, error) {
				return fmt.Sprintf("%d records that Kafka does not have yet", promise.Pending()), nil
			}},
		},
	}.Handler()
	ready := func() error { return cmp.Or(view.Fresh(), node.Ready()) }
	listen := func(ctx context.Context) (net.Listener, error) {
		if err := waits.until(ctx, "a lease and a signing key", ready); err != nil {
			return nil, err
		}
		listener, err := listenAt(ctx, address, held)
		if err == nil {
			operators.Set(serving)
			started = true
		}
		return listener, err
	}
	waits.note("the idempotency index", errors.New("it is being rebuilt from the copies"))
	if err := server.Run(ctx, listen); err != nil {
		return err
	}
	if err := whyEnded(told, ctx); err != nil {
		return err
	}
	logger.Info("muniment gateway has stopped", "nodeId", node.ID())
	return nil
}

// listenAt listens on an address that was held, and closes held.
//
// A gateway listens once it may decide deliveries and sign for them, which takes as long
// as control is away, and is never for a node that has to leave: that sees its spool and
// its keys off. Until then the port refuses: a balancer goes to the next node then, also
// one that knows nothing but connections. Accepted and answered 503, or not at all, each
// would be a request that has failed, though another node could have answered it. What
// it waits for is told at the address for operators, /readyz.
func listenAt(ctx context.Context, address net.Addr, held io.Closer) (net.Listener, error) {
	listener, err := gateway.Listen(ctx, address.String())
	_ = held.Close()
	if errors.Is(err, syscall.EADDRINUSE) { // a kernel that takes it for taken
		return gateway.Listen(ctx, address.String())
	}
	return listener, err
}

// hops are the TLS of a gateway's listeners, and how it reaches control; but Kafka's.
type hops struct {
	api, admin  *tls.Config
	nodes       *http.Client
	dialControl func() (net.Conn, error)
}

func (c *gatewayCmd) openHops(logger *slog.Logger, registry prometheus.Registerer) (h hops, err error) {
	use := func(name string) certs.Options {
		return certs.Options{Use: name, Logger: logger, Registerer: registry}
	}
	if h.api, err = certs.Server(use("api"), c.TLS); err != nil {
		return h, err
	}
	if h.admin, err = certs.Server(use("admin"), c.AdminTLS); err != nil {
		return h, err
	}
	if c.NodesTLS.On() && !strings.HasPrefix(c.Nodes, "https://") {
		return h, errors.New("--nodes must begin with https:// where certificates are given for it")
	}
	if !c.ControlTLS.On() && !onThisMachine(c.Control) {
		return h, errors.New("--control is not on this machine, and callers' API keys must not go there in clear: give --control-ca or --control-tls")
	}
	nodes, err := certs.NewClient(use("nodes"), c.NodesTLS)
	if err != nil {
		return h, err
	}
	h.nodes = nodes.HTTP()
	control, err := certs.NewClient(use("control"), c.ControlTLS)
	h.dialControl = func() (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), controlDialTimeout)
		defer cancel()
		return control.Dial(ctx, "tcp", c.Control)
	}
	return h, err
}

func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && api.Loopback(host)
}

// controlDialTimeout bounds one attempt to reach control.
const controlDialTimeout = 5 * time.Second
