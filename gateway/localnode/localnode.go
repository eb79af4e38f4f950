// Package localnode is a node inside a control process. It issues the receipts that no gateway
// is asked for: those of the sandbox's tenants, and those of held rows.
//
// It is a node as a gateway is one, without an HTTP server. It joins by an invitation, has an
// id, an epoch, a lease and keys of its own, and follows control's feed like every other node.
// It has no spool: what the log does not acknowledge is refused.
//
// It starts with the first delivery. Deliveries wait for it a few seconds, then they get a 503.
//
// When an operator expels the node, it signs nothing from the moment on at which it learns of
// that, and another node takes its place, whether or not the expulsion comes to its end: the
// operator removes that node and its keys, not what it is for. Until control refuses it, also
// after another start, the expelled node runs beside its successor, to report to control what
// the expulsion waits for. To have a process sign nothing, stop it.
package localnode

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/gateway/api"
	"muniment/gateway/issue"
)

// startTimeout is how long a delivery waits for the node to start.
const startTimeout = 5 * time.Second

// Config of a Node. All but Sandbox and RowAge is required.
type Config struct {
	// Identities are those that the node may have.
	Identities Identities
	// Sandbox says that the node signs for the sandbox's tenants, and not for all others.
	Sandbox bool
	// Bound and RowAge are snapshot.Config.Bound and issue.Config.MaxRowAge.
	Bound, RowAge time.Duration
	Log           issue.Log
	Logger        *slog.Logger
	// Registerer takes the metrics of the node, as long as it issues.
	Registerer prometheus.Registerer
}

// Node issues receipts while it has an issuer. Safe for concurrent use.
type Node struct {
	cfg    Config
	want   sync.Once
	wanted chan struct{} // closed by the first delivery

	mu     sync.Mutex
	issuer *issue.Issuer // nil while there is none
	over   func() bool   // the issuer takes nothing more, and another is to come
	opened chan struct{} // closed while there is an issuer
}

// New makes a node that issues nothing before Run, or Use, is called.
func New(cfg Config) *Node {
	return &Node{cfg: cfg, wanted: make(chan struct{}), opened: make(chan struct{})}
}

// Use has a gateway's issuer issue for good, in place of a node of its own: Run is not called.
func (n *Node) Use(i *issue.Issuer) { n.open(i, func() bool { return false }) }

// Issue issues a receipt for the body of a delivery, and returns the answer to it.
func (n *Node) Issue(ctx context.Context, by issue.Caller, body []byte) (answer []byte, err error) {
	err = n.with(ctx, func(i *issue.Issuer) (err error) {
		began := time.Now()
		answer, _, err = i.Issue(i.Deadline(began), nil, by, &issue.Delivery{Body: body, Rendered: began})
		return err
	})
	return answer, err
}

// IssueRows is issue.Issuer.IssueRows.
func (n *Node) IssueRows(ctx context.Context, by issue.Caller, batch *issue.Batch) (results []issue.RowResult, err error) {
	err = n.with(ctx, func(i *issue.Issuer) (err error) {
		results, err = i.IssueRows(ctx, by, batch)
		return err
	})
	return results, err
}

// with calls do with the issuer, once there is one; the error is a 503 if there is none. What
// a leaving node has not begun is done with its successor.
func (n *Node) with(ctx context.Context, do func(i *issue.Issuer) error) error {
	n.want.Do(func() { close(n.wanted) })
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	for {
		i, over, opened := n.current()
		if i != nil {
			err := do(i)
			if !notBegun(err) || !over() {
				return err
			}
			n.shut(i)
			continue
		}
		select {
		case <-opened:
		case <-timeout.C:
			return api.Unavailable(api.NoSigningKey, n.cfg.Identities.Name+" has not started yet", time.Second)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notBegun says that the node refused a delivery before it wrote anything: it drains, or has
// no key any more. A delivery that the log did not acknowledge may be in the log nevertheless:
// delivered again, it might be there twice.
func notBegun(err error) bool {
	refused, ok := errors.AsType[*api.Error](err)
	return ok && (refused.Reason == api.Draining || refused.Reason == api.NoSigningKey)
}

func (n *Node) current() (i *issue.Issuer, over func() bool, opened <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.issuer, n.over, n.opened
}

// open has i issue from now on, in place of the one before, until over.
func (n *Node) open(i *issue.Issuer, over func() bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.issuer == nil {
		close(n.opened)
	}
	n.issuer, n.over = i, over
}

// shut has i issue no more; deliveries wait for the next issuer.
func (n *Node) shut(i *issue.Issuer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.issuer == i {
		n.issuer, n.over, n.opened = nil, nil, make(chan struct{})
	}
}
