package localnode

import (
	"cmp"
	"context"
	"sync"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/gateway/identity"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/snapshot"
)

const (
	// minPause is the pause between a node that has issued and its successor: it limits how fast
	// nodes are made if each ends at once. If a node can't start, the pause before the next attempt
	// is startTimeout, and doubles up to maxPause.
	minPause, maxPause = time.Second, time.Minute
	// checkEvery is how often a node that starts checks whether it may issue.
	checkEvery = 5 * time.Millisecond
)

// Run waits for the first delivery, and then runs the node and its successors until ctx is done.
// If a node can't start, Run logs that and retries.
func (n *Node) Run(ctx context.Context) error {
	select {
	case <-n.started:
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
			n.cfg.Logger.Error("this process's node can't start: its deliveries are refused, retrying", "node", n.cfg.Identities.Name, "err", err)
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

// serve makes a node issue until ctx is done, or control expels it or asks it to leave. A node that
// was asked to leave continues to follow the feed and retire its keys after serve has returned,
// as part of leaving.
func (n *Node) serve(ctx context.Context, id *identity.Node, metrics *registerer, leaving *sync.WaitGroup) (err error) {
	known, setUnknown := context.WithCancel(ctx) // done once control refuses the node's credential
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	var following sync.WaitGroup
	var view *snapshot.View
	closeNode := func() {
		setUnknown()
		stopWork()
		following.Wait()
		if view != nil {
			view.Close()
		}
		if err := id.Close(); err != nil {
			n.cfg.Logger.Error("cannot close the identity of this process's node", "node", n.cfg.Identities.Name, "err", err)
		}
	}
	defer func() {
		metrics.end()
		if err != nil || known.Err() != nil {
			closeNode()
			return
		}
		n.cfg.Logger.Warn("this process's node was asked to leave, another takes its place", "node", n.cfg.Identities.Name, "nodeId", id.ID())
		leaving.Go(func() {
			<-known.Done()
			closeNode()
		})
	}()
	source := &watchedFeed{expelled: sync.OnceFunc(func() {
		n.cfg.Logger.Warn("this process's node was expelled", "node", n.cfg.Identities.Name, "nodeId", id.ID())
		setUnknown()
	})}
	if source.Remote, err = snapshot.NewRemote([]string{n.cfg.Identities.Control}, id.Credential(), n.cfg.Identities.Client); err != nil {
		return err
	}
	view, err = snapshot.New(snapshot.Config{Source: source, NodeID: id.ID(), Epoch: id.Epoch(), LeaseBound: n.cfg.LeaseBound, Signer: id, Logger: n.cfg.Logger, Registerer: metrics})
	if err != nil {
		return err
	}
	following.Go(func() { _ = view.Run(work) }) // it fails only if the database went back, which ends this process
	following.Go(func() { _ = id.Run(work) })
	issuing, stopIssuing := context.WithCancel(known)
	defer stopIssuing()
	following.Go(func() {
		select {
		case <-id.Leaving():
			stopIssuing()
		case <-work.Done():
		}
	})
	return n.issue(issuing, id, view, metrics, func() bool {
		select {
		case <-id.Leaving():
			return ctx.Err() == nil
		default:
			return ctx.Err() == nil && known.Err() != nil
		}
	})
}

// issue makes a node issue receipts until ctx is done. replaced is as in open: it may return true
// before ctx is done, and never does while the process ends.
func (n *Node) issue(ctx context.Context, id *identity.Node, view *snapshot.View, metrics *registerer, replaced func() bool) error {
	cfg := issue.Config{NodeID: id.ID(), Epoch: id.Epoch(), Rights: view, Log: n.cfg.Log, Signer: id.Signer, MaxRowAge: n.cfg.RowAge, Logger: n.cfg.Logger, Registerer: metrics}
	if n.cfg.Sandbox {
		cfg.Signer, cfg.SandboxSigner = nil, id.Signer
	}
	issuer, err := issue.New(cfg)
	if err != nil {
		return err
	}
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for cmp.Or(view.Fresh(), id.Ready()) != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	n.cfg.Logger.Info("this process's node issues receipts", "node", n.cfg.Identities.Name, "nodeId", id.ID())
	n.open(issuer, replaced)
	context.AfterFunc(ctx, func() { n.close(issuer) })
	return issuer.Run(ctx)
}

// watchedFeed is the feed of a node. It calls expelled when control refuses the node's credential.
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
