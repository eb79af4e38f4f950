package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/sandbox"
	"muniment.example/deploy/process"
	"muniment.example/gateway"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/identity"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/snapshot"
	"muniment.example/pipeline/copies"
	"muniment.example/pipeline/kafka"
	"muniment.example/pipeline/segment"
)

// gatewayCmd is an edge node.
type gatewayCmd struct {
	process.Flags
	kafkaFlags
	profilingFlags
	keysFlags

	Data           string        `default:"./muniment-node" help:"The node's folder: its identity, its spool, its copies. It must survive the process: the records in its spool were acknowledged." type:"path"`
	Listen         string        `default:"127.0.0.1:8080" address:"" help:"Address of the API."`
	Admin          string        `default:"127.0.0.1:9090" address:"" help:"Address for operators: metrics, health."`
	Control        []string      `required:"" address:"host" example:"control.internal:8081" help:"Where control, or a balancer in front of several, takes the API's requests: all but deliveries. Of several the node goes on with the next if one does not answer." placeholder:"HOST:PORT"`
	Nodes          []string      `required:"" url:"https http" example:"https://control.internal:8082" help:"Where control, or such a balancer, listens for nodes; several likewise. Over http only on this machine." placeholder:"URL"`
	Invitation     string        `help:"Invitation with which the node joins, from muniment node invite. Not used once it has joined." placeholder:"TOKEN"`
	NodeCert       string        `needs:"cert=key" help:"Certificate chain (PEM) by which the node joins, in place of an invitation: of an authority in control's --node-ca, with the URI muniment://node/NAME. Not used once it has joined." placeholder:"FILE" type:"path"`
	NodeKey        string        `needs:"key=cert" help:"Key of that certificate (PEM)." placeholder:"FILE" type:"path"`
	Bound          time.Duration `default:"30s" least:"1s" help:"How long the node signs without news of rights."`
	AckTimeout     time.Duration `default:"2s" least:"0s" most:"2500ms" help:"How long a record waits for Kafka before it is written to the node's own disk instead."`
	SpoolBytes     int64         `default:"8589934592" least:"134217728" help:"Size of the spool, in bytes. When it is full, deliveries are refused."`
	CopyBytes      int64         `default:"4294967296" least:"134217728" help:"Size of the copies, in bytes, from which retries of the last day are answered."`
	TenantCap      int           `least:"0" example:"256" help:"Most deliveries of one tenant in flight; more are answered 429; default: a quarter of what the node takes." placeholder:"N"`
	TrustedProxies int           `least:"0" example:"1" help:"How many proxies of your own stand before this address, each adding to X-Forwarded-For: the sandbox limits callers by the address there. With 0 the header is ignored." placeholder:"N"`
	RotateEvery    time.Duration `default:"2160h" least:"0s" help:"Age at which the node rotates its signing key."`
	DrainDelay     time.Duration `least:"0s" example:"5s" help:"How long a stopping node still accepts connections, so that balancers can remove it."`

	TLS        certs.ServerFlags `embed:"" prefix:"tls-" group:"TLS of the API:"`
	AdminTLS   certs.ServerFlags `embed:"" prefix:"admin-tls-" group:"TLS of the address for operators:"`
	ControlTLS certs.ClientFlags `embed:"" prefix:"control-" group:"TLS with control, for the API's requests:"`
	NodesTLS   certs.ClientFlags `embed:"" prefix:"nodes-" group:"TLS with control, for rights and keys:"`
}

// Validate refuses what would fail only once the node runs.
func (c *gatewayCmd) Validate() error {
	switch {
	case c.NodeCert != "" && c.Invitation != "":
		return errors.New("--node-cert and --invitation exclude each other: a node joins by one of them")
	case c.NodeCert != "" && !c.nodesOverTLS():
		return errors.New("--nodes must begin with https:// for a node that joins by a certificate, for example --nodes https://control.internal:8082")
	case c.NodesTLS.On() && !c.nodesOverTLS():
		return errors.New("--nodes must begin with https:// where certificates are given for it, for example --nodes https://control.internal:8082")
	}
	if _, err := api.NewClient(c.Nodes, nil); err != nil {
		return fmt.Errorf("--nodes: %w, for example --nodes https://control.internal:8082", err)
	}
	if !c.ControlTLS.On() && slices.ContainsFunc(c.Control, func(address string) bool { return !onThisMachine(address) }) {
		return errors.New("--control is not on this machine, and callers' API keys must not go there in clear: give --control-tls, or --control-ca with a file, for example --control-ca ca.pem")
	}
	return valid(c.kafkaFlags)
}

// nodesOverTLS says whether control's listeners for nodes speak TLS, all of them.
func (c *gatewayCmd) nodesOverTLS() bool {
	return !slices.ContainsFunc(c.Nodes, func(url string) bool { return !strings.HasPrefix(url, "https://") })
}

// Run serves until it is signalled.
func (c *gatewayCmd) Run() error { return c.Flags.Run(thisBuild(), "muniment gateway", c.serve) }

// serve opens everything in the order in which it is needed.
func (c *gatewayCmd) serve(p *process.Process) error {
	processors := gateway.DoubleProcs()
	token, err := c.token()
	if err != nil {
		return err
	}
	if err := p.Claim(c.Data); err != nil {
		return err
	}
	hops, err := c.openHops(p)
	if err != nil {
		return err
	}
	address, err := freeAddress(c.Listen)
	if err != nil {
		return process.CannotListen("--listen", err)
	}
	admin, err := p.Listen("admin", "--admin", c.Admin, c.AdminTLS)
	if err != nil {
		return err
	}
	p.Logger.Info("muniment gateway is starting", "api", process.URL(address, hops.api), "admin", admin.URL(), "data", c.Data)
	waits := process.NewAwaited(errors.New("the node has not begun its service with control yet"))
	operators := p.Operate(admin, token, waits.Ready)

	log, err := c.openLog(p)
	if err != nil {
		return err
	}
	node, err := c.openNode(p, hops, log, waits, processors)
	if err != nil {
		return err
	}
	server, err := gateway.New(gateway.Config{
		Version: p.Build.Version, Rights: node.view, Issuer: node.issuer, DialControl: hops.dialControl, Hold: node.source.Hold, SandboxRows: node.source.SandboxRows, RenderError: sandbox.RenderError, TLS: hops.api,
		MaxTenantInFlight: c.TenantCap, TrustedProxies: c.TrustedProxies, Processors: processors, DrainDelay: c.DrainDelay, Logger: p.Logger, Registerer: p.Registry, Tracer: p.Tracer,
	})
	if err != nil {
		return err
	}
	// What runs behind the gateway ends after it: it needs all of them to drain.
	background := p.Parts()
	node.run(background)
	background.Run("the copies' retention", log.copies.Run)
	serving := gateway.Admin{
		Gatherer: p.Registry,
		LogLevel: p.LogLevel,
		Token:    token,
		Checks:   server.Checks(),
		Tenants:  map[string]gateway.TenantsPart{"limited": server.LimitedPart},
		Notes: []gateway.Note{
			// Without control deliveries go on until the lease ends, and then the gateway is
			// not ready: a balancer that drops all nodes sooner would be the outage.
			noted("control", server.ControlReady),
			noted("kafka", func(context.Context) error { return log.topic.Ready() }),
			{Name: "spooled", Status: func(context.Context) (string, error) {
				return fmt.Sprintf("%d records that Kafka does not have yet", log.promise.Pending()), nil
			}},
		},
	}.Handler()
	waits.Note("the idempotency index", errors.New("it is being rebuilt from the copies"))
	return server.Run(p.Ctx, func(ctx context.Context) (net.Listener, error) {
		if err := waits.Until(ctx, "a lease and a signing key", func() error { return cmp.Or(node.view.Fresh(), node.identity.Ready()) }); err != nil {
			return nil, err
		}
		listener, err := listenAt(address)
		if err == nil {
			operators.Set(serving)
			p.Started()
		}
		return listener, err
	})
}

// nodeLog is the log of a node: acknowledged records are in Kafka or in the spool, and the node
// has copies of its own records.
type nodeLog struct {
	topic   *kafka.Log
	spool   *segment.Log
	promise *kafka.Spooled
	copies  *copies.Log
}

func (c *gatewayCmd) openLog(p *process.Process) (l nodeLog, err error) {
	reach, err := c.kafkaFlags.config(p.Logger, p.Registry)
	if err != nil {
		return l, err
	}
	reach.OnFailure = p.Fail
	if l.topic, err = kafka.Open(reach); err != nil {
		return l, err
	}
	l.spool, err = segment.Open(segment.Config{
		Dir: filepath.Join(c.Data, "spool"), MaxBytes: c.SpoolBytes, Log: p.Logger,
		Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"log": "spool"}, p.Registry),
		OnFailure:  p.Fail,
	})
	if err != nil {
		return l, errors.Join(err, l.topic.Close())
	}
	p.AtEnd(l.spool.Close)
	l.promise, err = kafka.OpenSpooled(kafka.SpoolConfig{
		Log: l.topic, Spool: l.spool, Mark: filepath.Join(c.Data, "spool.mark"), AckTimeout: c.AckTimeout, Logger: p.Logger, Registerer: p.Registry,
	})
	if err != nil {
		return l, errors.Join(err, l.topic.Close())
	}
	p.AtEnd(l.promise.Close) // and the topic
	l.copies, err = copies.Open(copies.Config{
		Promise: l.promise, Dir: filepath.Join(c.Data, "copies"), MaxBytes: c.CopyBytes, Logger: p.Logger, Registerer: p.Registry,
	})
	if err == nil {
		p.AtEnd(l.copies.Close)
	}
	return l, err
}

// openNode joins control, or begins the next epoch of the node that has joined.
func (c *gatewayCmd) openNode(p *process.Process, hops hops, log nodeLog, waits *process.Awaited, processors int) (n edgeNode, err error) {
	n.identity, err = identity.Open(p.Ctx, identity.Config{
		Dir: filepath.Join(c.Data, "identity"), Control: c.Nodes, Client: hops.nodes, Invitation: c.Invitation, Certificate: c.certificate(p.Logger), RotateEvery: c.RotateEvery,
		Drained: func() bool { return log.promise.Pending() == 0 }, Waiting: func(err error) { waits.Note("control", err) }, Logger: p.Logger, Registerer: p.Registry,
	})
	if err != nil {
		return n, err
	}
	p.AtEnd(n.identity.Close)
	if n.source, err = snapshot.NewRemote(c.Nodes, n.identity.Credential(), hops.nodes); err != nil {
		return n, err
	}
	n.view, err = snapshot.New(snapshot.Config{
		Source: n.source, NodeID: n.identity.ID(), Epoch: n.identity.Epoch(), LeaseBound: c.Bound, Signer: n.identity, Spooled: log.promise.Pending, Logger: p.Logger, Registerer: p.Registry,
	})
	if err != nil {
		return n, err
	}
	n.issuer, err = issue.New(issue.Config{
		NodeID: n.identity.ID(), Epoch: n.identity.Epoch(), Rights: n.view, Log: log.copies, Signer: n.identity.Signer,
		IdempotencyEntries: c.IdempotencyEntries, MaxRowAge: c.RowAge,
		BatchSigners: max(1, processors/2), BatchBytes: segment.DefaultPendingBytes / 2, CheckpointDir: filepath.Join(c.Data, checkpointFolder), Logger: p.Logger, Registerer: p.Registry,
	})
	return n, err
}

// freeAddress fails if the address can't be listened on, and replaces port 0 by a free port.
func freeAddress(address string) (net.Addr, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return ln.Addr(), ln.Close()
}

// listenAt listens on the gateway's address.
//
// A gateway listens once it may decide deliveries and sign for them. While control is away it
// does not, and neither does a node that has to leave, which empties its spool and retires its
// keys. Until then its port refuses connections, so that any balancer goes to the next node: a
// connection that is accepted, and answered 503 or not at all, would be a request that has
// failed, though another node could have answered it. /readyz at the address for operators
// shows what the gateway is waiting for.
func listenAt(address net.Addr) (net.Listener, error) {
	ln, err := net.Listen("tcp", address.String())
	if err != nil {
		return nil, process.CannotListen("--listen", err)
	}
	return ln, nil
}

// hops are the TLS of the API, and how a gateway reaches control.
type hops struct {
	api         *tls.Config
	nodes       *http.Client
	dialControl []func() (net.Conn, error) // by address
}

func (c *gatewayCmd) openHops(p *process.Process) (h hops, err error) {
	if h.api, err = certs.Server(p.Certs("api"), c.TLS); err != nil {
		return h, err
	}
	nodes, err := certs.NewClient(p.Certs("nodes"), c.NodesTLS)
	if err != nil {
		return h, err
	}
	h.nodes = nodes.HTTP()
	control, err := certs.NewClient(p.Certs("control"), c.ControlTLS)
	for _, address := range c.Control {
		h.dialControl = append(h.dialControl, func() (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), controlDialTimeout)
			defer cancel()
			return control.Dial(ctx, "tcp", address)
		})
	}
	return h, err
}

// certificate is identity.Config's. The files are read when the node joins, and needed only then.
func (c *gatewayCmd) certificate(logger *slog.Logger) func() (*http.Client, string, error) {
	if c.NodeCert == "" {
		return nil
	}
	return func() (*http.Client, string, error) {
		flags := c.NodesTLS
		flags.Cert, flags.Key = c.NodeCert, c.NodeKey
		client, leaf, err := certs.NewFixed(certs.Options{Use: "joining", Logger: logger}, flags)
		if err != nil {
			return nil, "", err
		}
		hash := sha256.Sum256(leaf.Raw)
		return client.HTTP(), hex.EncodeToString(hash[:]), nil
	}
}

func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && api.Loopback(host)
}

// controlDialTimeout bounds one attempt to reach control.
const controlDialTimeout = 5 * time.Second
