package localnode

import (
	"cmp"
	"context"
	"sync"
	"time"

	"muniment/gateway/api"
	"muniment/gateway/identity"
	"muniment/gateway/issue"
	"muniment/gateway/snapshot"
)

const (
	// minPause is between a node that has issued and its successor: nothing may make nodes as
	// fast as it can. A node that can't start is tried again after startTimeout, and then
	// after twice the pause before, at most maxPause.
	minPause, maxPause = time.Second, time.Minute
	// look is how often a node that starts checks whether it may issue.
	look = 5 * time.Millisecond
)

// Run runs the node from the first delivery on until ctx is done, and its successors. Those
// that could not start are logged, and tried again.
func (n *Node) Run(ctx context.Context) error {
	select {
	case <-n.wanted:
	case <-ctx.Done():
		return nil
	}
	var leaving sync.WaitGroup
	defer leaving.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for failing := time.Duration(0); ; {
		pause := minPause
		metrics := &registerer{Registerer: n.cfg.Registerer}
		id, err := n.cfg.Identities.Open(ctx, metrics)
		if err == nil {
			failing = 0
			if err = n.serve(ctx, id, metrics, &leaving); err != nil {
				return err
			}
		} else if ctx.Err() == nil {
			n.cfg.Logger.Error("a node of this process can't start: its deliveries are refused, and it is tried again", "node", n.cfg.Identities.Name, "err", err)
			failing = min(max(startTimeout, 2*failing), maxPause)
			pause = failing
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// serve has a node issue until ctx is done, or the node is expelled or asked to leave. If it
// was asked to leave, it goes on leaving after serve has returned.
func (n *Node) serve(ctx context.Context, id *identity.Node, metrics *registerer, leaving *sync.WaitGroup) (err error) {
	known, forget := context.WithCancel(ctx) // done when control does not know the node any more
	work, halt := context.WithCancel(context.WithoutCancel(ctx))
	var following sync.WaitGroup
	var view *snapshot.View
	closed := func() {
		forget()
		halt()
		following.Wait()
		if view != nil {
			view.Close()
		}
		if err := id.Close(); err != nil {
			n.cfg.Logger.Error("cannot close the identity of a node of this process", "node", n.cfg.Identities.Name, "err", err)
		}
	}
	defer func() {
		metrics.end()
		if err != nil || known.Err() != nil {
			closed()
			return
		}
		n.cfg.Logger.Warn("a node of this process was asked to leave, another takes its place", "node", n.cfg.Identities.Name, "nodeId", id.ID())
		leaving.Go(func() {
			<-known.Done()
			closed()
		})
	}()
	source := &watchedFeed{expelled: sync.OnceFunc(func() {
		n.cfg.Logger.Warn("a node of this process was expelled", "node", n.cfg.Identities.Name, "nodeId", id.ID())
		forget()
	})}
	if source.Remote, err = snapshot.NewRemote(n.cfg.Identities.Control, id.Credential(), n.cfg.Identities.Client); err != nil {
		return err
	}
	view, err = snapshot.New(snapshot.Config{Source: source, NodeID: id.ID(), Bound: n.cfg.Bound, Signer: id, Logger: n.cfg.Logger, Registerer: metrics})
	if err != nil {
		return err
	}
	following.Go(func() { _ = view.Run(work) }) // both end with work, and without an error
	following.Go(func() { _ = id.Run(work) })
	term, end := context.WithCancel(known)
	defer end()
	following.Go(func() {
		select {
		case <-id.Leaving():
			end()
		case <-work.Done():
		}
	})
	return n.issue(term, id, view, metrics, func() bool {
		select {
		case <-id.Leaving():
			return ctx.Err() == nil
		default:
			return ctx.Err() == nil && known.Err() != nil
		}
	})
}

// issue has a node issue receipts until term is done. over says so as well, and sooner, unless
// the process ends.
func (n *Node) issue(term context.Context, id *identity.Node, view *snapshot.View, metrics *registerer, over func() bool) error {
	cfg := issue.Config{NodeID: id.ID(), Epoch: id.Epoch(), Rights: view, Log: n.cfg.Log, Signer: id.Signer, MaxRowAge: n.cfg.RowAge, Logger: n.cfg.Logger, Registerer: metrics}
	if n.cfg.Sandbox {
		cfg.Signer, cfg.SandboxSigner = nil, id.Signer
	}
	issuer, err := issue.New(cfg)
	if err != nil {
		return err
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for cmp.Or(view.Fresh(), id.Ready()) != nil {
		select {
		case <-tick.C:
		case <-term.Done():
			return nil
		}
	}
	n.cfg.Logger.Info("this process has a node of its own", "node", n.cfg.Identities.Name, "nodeId", id.ID())
	n.open(issuer, over)
	context.AfterFunc(term, func() { n.shut(issuer) })
	return issuer.Run(term)
}

// watchedFeed is the feed of a node, and calls expelled when control knows the node no more.
type watchedFeed struct {
	*snapshot.Remote
	expelled func()
}

// Feed implements snapshot.Source.
func (w *watchedFeed) Feed(ctx context.Context, q api.FeedRequest) (api.Feed, error) {
	f, err := w.Remote.Feed(ctx, q)
	if expelled(err) {
		w.expelled()
	}
	return f, err
}
