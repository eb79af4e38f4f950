package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/store"
	"muniment/gateway"
	"muniment/gateway/api"
	"muniment/gateway/identity"
	"muniment/gateway/snapshot"
)

// sandboxNode is the gateway of this process that issues the receipts of the sandbox's
// tenants, once it is there.
type sandboxNode struct {
	want, have     sync.Once
	wanted, opened chan struct{}
	gateway        *gateway.Gateway // once opened is closed
}

func newSandboxNode() *sandboxNode {
	return &sandboxNode{wanted: make(chan struct{}), opened: make(chan struct{})}
}

var errNoSandboxNode = api.Unavailable(api.NoSigningKey, "the sandbox's node has not started yet", time.Second)

// patience is how long a delivery waits for the node to start.
const patience = 5 * time.Second

// Deliver is gateway.Gateway.Deliver; a 503 *api.Error while there is no node that could.
func (s *sandboxNode) Deliver(ctx context.Context, tenantID, keyID string, body []byte) (status int, answer []byte, err error) {
	s.want.Do(func() { close(s.wanted) })
	select {
	case <-s.opened:
		return s.gateway.Deliver(ctx, tenantID, keyID, body)
	case <-time.After(patience):
		return 0, nil, errNoSandboxNode
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
}

// open has g deliver from now on.
func (s *sandboxNode) open(g *gateway.Gateway) {
	s.have.Do(func() {
		s.gateway = g
		close(s.opened)
	})
}

// sandboxConfig is what a control process runs its node for the sandbox with.
type sandboxConfig struct {
	Plane *plane
	Log   gateway.Log
	// Dir is the folder of the identities of such nodes, which control processes share.
	Dir        string
	Bound      time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// serve runs the node that issues the sandbox's receipts in a process of control,
// from the first delivery on until ctx is done. It is a node as a gateway is one, that
// listens nowhere: it joins by an invitation that control makes for it, has an id, an
// epoch, a lease and keys of its own, and asks control as every other node does. What it
// can't make durable in the log is refused: it has no spool.
func (s *sandboxNode) serve(ctx context.Context, cfg sandboxConfig) error {
	select {
	case <-s.wanted:
	case <-ctx.Done():
		return nil
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	door := newParts(ctx, fail)
	defer door.stop()
	inside := &insideListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	door.run("control's door for it", func(ctx context.Context) error { return serve(ctx, inside, cfg.Plane.Nodes()) })
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return inside.Dial() }}}
	defer client.CloseIdleConnections()

	node, err := cfg.join(ctx, client)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		cfg.Logger.Error("the sandbox has no node in this process until it starts again: its deliveries are refused", "err", err)
		<-ctx.Done()
		return nil
	}
	defer func() {
		if err := node.Close(); err != nil {
			cfg.Logger.Error("cannot close the identity of the sandbox's node", "err", err)
		}
	}()
	source, err := snapshot.NewRemote(insideURL, node.Credential(), client)
	if err != nil {
		return err
	}
	view, err := snapshot.New(snapshot.Config{
		Source: source, NodeID: node.ID(), Bound: cfg.Bound, Signer: node, Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	if err != nil {
		return err
	}
	defer view.Close()
	g, err := gateway.New(gateway.Config{
		NodeID: node.ID(), Epoch: node.Epoch(), Rights: view, Log: cfg.Log, SandboxSigner: node.Signer, IsSandbox: cfg.Plane.tenants.IsSandbox,
		Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	if err != nil {
		return err
	}
	beside := newParts(ctx, fail)
	defer beside.stop()
	beside.run("its view of rights", view.Run)
	beside.run("its identity", node.Run)
	waits := newAwaited(errors.New("it has no lease yet"))
	if err := waits.until(ctx, "a lease and a signing key", func() error { return errors.Join(view.Fresh(), node.Ready()) }); err != nil {
		return nil // ctx is done
	}
	cfg.Logger.Info("the sandbox has a node in this process", "nodeId", node.ID())
	s.open(g)
	return g.RunInside(ctx)
}

// insideURL is control, for who dials it inside the process.
const insideURL = "http://localhost"

// mostSlots bounds how many control processes that share a folder have a node each.
const mostSlots = 1000

// join opens the first identity of the folder that no other process has, and makes one
// where there is none: so their number is that of the processes that ran at a time. The
// volume has to know locks.
func (c *sandboxConfig) join(ctx context.Context, client *http.Client) (*identity.Node, error) {
	if err := store.MakeDir(c.Dir); err != nil {
		return nil, err
	}
	for slot := 1; slot <= mostSlots; slot++ {
		dir := filepath.Join(c.Dir, strconv.Itoa(slot))
		node, err := identity.Open(ctx, identity.Config{
			Dir: dir, Control: insideURL, Client: client, RotateEvery: 90 * 24 * time.Hour,
			Invite: func(ctx context.Context) (string, error) {
				v, err := c.Plane.nodes.InviteSandbox(ctx)
				return v.Token, err
			},
			Logger: c.Logger, Registerer: c.Registerer,
		})
		refused, ok := errors.AsType[*api.Refused](err)
		switch {
		case errors.Is(err, store.ErrInUse):
		case ok && refused.Status == http.StatusUnauthorized: // an operator has expelled it
			c.Logger.Warn("an identity of the sandbox's nodes is of no use any more, another takes its place", "dir", dir, "err", err)
		default:
			return node, err
		}
	}
	return nil, fmt.Errorf("none of the %d identities in %s can be used", mostSlots, c.Dir)
}
