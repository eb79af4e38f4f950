package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/node"
	"muniment/gateway/api"
	"muniment/gateway/identity"
	"muniment/gateway/issue"
	"muniment/gateway/snapshot"
)

// ownNode is a node of this process of control, while there is one: it issues the receipts
// that no gateway is asked for.
type ownNode struct {
	use    nodeUse
	want   sync.Once
	wanted chan struct{}

	mu     sync.Mutex
	issuer *issue.Issuer // nil while there is none
	over   func() bool   // it takes nothing more, and another is to come
	opened chan struct{} // closed while there is one
}

// nodeUse is what a node is for.
type nodeUse struct {
	name   string // in the log
	folder string // of its identities, in the data folder
	// sandbox says that it signs for the sandbox's tenants, and not for all others.
	sandbox bool
	// none is the answer while there is no such node.
	none *api.Error
	// invite lets it join.
	invite func(ctx context.Context, nodes *node.Room) (node.Invitation, error)
}

// metrics are where its own go: of two nodes in one process those of the sandbox's.
func (u nodeUse) metrics(of prometheus.Registerer) prometheus.Registerer {
	if u.sandbox {
		return of
	}
	return prometheus.NewRegistry()
}

func newOwnNode(use nodeUse) *ownNode {
	return &ownNode{use: use, wanted: make(chan struct{}), opened: make(chan struct{})}
}

// patience is how long a delivery waits for the node to start.
const patience = 5 * time.Second

// start has serve begin.
func (s *ownNode) start() { s.want.Do(func() { close(s.wanted) }) }

// with has the node do something, once there is one; the error is a 503 if there is none. What
// a node that leaves has not begun is the next one's.
func (s *ownNode) with(ctx context.Context, do func(i *issue.Issuer) error) error {
	s.start()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		i, over, opened := s.current()
		if i != nil {
			err := do(i)
			if !notBegun(err) || !over() {
				return err
			}
			s.shut(i) // nobody has come to it yet
			continue
		}
		select {
		case <-opened:
		case <-late.C:
			return s.use.none
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notBegun says that a node came to nothing of a delivery, as it drains or has no key any
// more. Of one that the log did not acknowledge nobody knows: delivered again, it might be
// there twice.
func notBegun(err error) bool {
	refused, ok := errors.AsType[*api.Error](err)
	return ok && (refused.Reason == api.Draining || refused.Reason == api.NoSigningKey)
}

func (s *ownNode) current() (i *issue.Issuer, over func() bool, opened <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issuer, s.over, s.opened
}

// open has i issue from now on, in place of the one before, until over.
func (s *ownNode) open(i *issue.Issuer, over func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.issuer == nil {
		close(s.opened)
	}
	s.issuer, s.over = i, over
}

// never is over of a node that has no successor.
func never() bool { return false }

// shut has i issue no more; who comes waits for the next.
func (s *ownNode) shut(i *issue.Issuer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.issuer == i {
		s.issuer, s.over, s.opened = nil, nil, make(chan struct{})
	}
}

// serve runs the node in a process of control, from the first delivery on until ctx is
// done. It is a node as a gateway is one, without a gateway: it joins by an invitation
// that control makes for it, has an id, an epoch, a lease and keys of its own, and asks
// control as every other node does. What it can't make durable in the log is refused: it
// has no spool.
//
// When an operator expels it, it signs nothing from the moment on at which it is told,
// and another node takes its place, whether or not that expulsion comes to its end: what
// is put out are that node and its keys, not what it is for. Until control refuses it, be
// it after another start, it is there beside its successor, and says what control waits for.
// Who wants a process to sign nothing stops it.
func (s *ownNode) serve(ctx context.Context, p *plane) error {
	select {
	case <-s.wanted:
	case <-ctx.Done():
		return nil
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	door := newParts(ctx, fail)
	defer door.stop()
	inside := newInsideListener()
	door.run("control's door for it", func(ctx context.Context) error { return serve(ctx, inside, p.Nodes()) })
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return inside.Dial() }}}
	defer client.CloseIdleConnections()

	var leaving sync.WaitGroup
	defer func() {
		fail(nil)
		leaving.Wait()
	}()
	slots := &slots{plane: p, client: client, use: s.use}
	for failing := time.Duration(0); ; {
		pause := time.Second // nothing may make nodes as fast as it can
		metrics := &termRegisterer{Registerer: s.use.metrics(p.cfg.Registerer)}
		node, err := slots.join(ctx, metrics)
		if err == nil {
			failing = 0
			if err = s.run(ctx, fail, p, node, metrics, client, &leaving); err != nil {
				return err
			}
		} else if ctx.Err() == nil {
			p.cfg.Logger.Error("a node of this process can't start: its deliveries are refused, and it is tried again", "node", s.use.name, "err", err)
			failing = min(max(patience, 2*failing), time.Minute)
			pause = failing
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// run has a node deliver until ctx is done, or the node is expelled or asked to leave. One
// that was asked to leave goes on leaving when run returns.
func (s *ownNode) run(ctx context.Context, fail context.CancelCauseFunc, p *plane, node *identity.Node, metrics *termRegisterer, client *http.Client, leaving *sync.WaitGroup) (err error) {
	known, forget := context.WithCancel(ctx) // by control
	beside := newParts(ctx, fail)
	var view *snapshot.View
	closed := func() {
		forget()
		beside.stop()
		if view != nil {
			view.Close()
		}
		if err := node.Close(); err != nil {
			p.cfg.Logger.Error("cannot close the identity of a node of this process", "node", s.use.name, "err", err)
		}
	}
	defer func() {
		metrics.end()
		if err != nil || known.Err() != nil {
			closed()
			return
		}
		p.cfg.Logger.Warn("a node of this process was asked to leave, another takes its place", "node", s.use.name, "nodeId", node.ID())
		leaving.Go(func() {
			<-known.Done()
			closed()
		})
	}()
	source := &untilExpelled{expelled: sync.OnceFunc(func() {
		p.cfg.Logger.Warn("a node of this process was expelled", "node", s.use.name, "nodeId", node.ID())
		forget()
	})}
	if source.Remote, err = snapshot.NewRemote(insideURL, node.Credential(), client); err != nil {
		return err
	}
	view, err = snapshot.New(snapshot.Config{
		Source: source, NodeID: node.ID(), Bound: p.cfg.Bound, Signer: node, Logger: p.cfg.Logger, Registerer: metrics,
	})
	if err != nil {
		return err
	}
	beside.run("its view of rights", view.Run)
	beside.run("its identity", node.Run)
	term, end := context.WithCancel(known)
	defer end()
	beside.run("what ends it", func(ctx context.Context) error {
		select {
		case <-node.Leaving():
			end()
		case <-ctx.Done():
		}
		return nil
	})
	return s.issue(term, p, node, view, metrics, func() bool {
		select {
		case <-node.Leaving():
			return ctx.Err() == nil
		default:
			return ctx.Err() == nil && known.Err() != nil
		}
	})
}

// issue has a node issue receipts until term is over. over says so as well, and sooner, unless
// the process ends.
func (s *ownNode) issue(term context.Context, p *plane, node *identity.Node, view *snapshot.View, metrics *termRegisterer, over func() bool) error {
	cfg := issue.Config{NodeID: node.ID(), Epoch: node.Epoch(), Rights: view, Log: p.cfg.Log, Signer: node.Signer, Logger: p.cfg.Logger, Registerer: metrics}
	if s.use.sandbox {
		cfg.Signer, cfg.SandboxSigner = nil, node.Signer
	}
	issuer, err := issue.New(cfg)
	if err != nil {
		return err
	}
	waits := newAwaited(errors.New("it has no lease yet"))
	if err := waits.until(term, "a lease and a signing key", func() error { return errors.Join(view.Fresh(), node.Ready()) }); err != nil {
		return nil // term is over
	}
	p.cfg.Logger.Info("this process has a node of its own", "node", s.use.name, "nodeId", node.ID())
	s.open(issuer, over)
	context.AfterFunc(term, func() { s.shut(issuer) })
	return issuer.Run(term)
}

// untilExpelled is the feed of a node, and tells when control knows the node no more.
type untilExpelled struct {
	*snapshot.Remote
	expelled func()
}

// Feed implements snapshot.Source.
func (u *untilExpelled) Feed(ctx context.Context, q api.FeedRequest) (api.Feed, error) {
	f, err := u.Remote.Feed(ctx, q)
	if expelled(err) {
		u.expelled()
	}
	return f, err
}

// expelled says whether control refused a node's credential: an operator has expelled the
// node (403), or the database is of a time before it joined (401).
func expelled(err error) bool {
	refused, ok := errors.AsType[*api.Refused](err)
	return ok && (refused.Status == http.StatusForbidden || refused.Status == http.StatusUnauthorized)
}

// termRegisterer gives metrics back when a node's term ends, for those of the next.
type termRegisterer struct {
	prometheus.Registerer
	all   []prometheus.Collector
	ended bool
}

// Register implements prometheus.Registerer.
func (r *termRegisterer) Register(c prometheus.Collector) error {
	r.all = append(r.all, c)
	return r.Registerer.Register(c)
}

// MustRegister implements prometheus.Registerer.
func (r *termRegisterer) MustRegister(all ...prometheus.Collector) {
	r.all = append(r.all, all...)
	r.Registerer.MustRegister(all...)
}

// Unregister implements prometheus.Registerer. What is registered after the end by the
// same name is not this term's.
func (r *termRegisterer) Unregister(c prometheus.Collector) bool {
	return !r.ended && r.Registerer.Unregister(c)
}

func (r *termRegisterer) end() {
	for _, c := range r.all {
		r.Unregister(c)
	}
	r.ended = true
}
