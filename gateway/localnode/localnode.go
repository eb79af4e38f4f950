// Package localnode is a node inside a control process. It issues the receipts that clients do not
// request from a gateway: those of the sandbox's tenants, and those of held rows.
//
// It is a node like any other, but without an HTTP server. It joins by an invitation, has its own
// id, epoch, lease and keys, and follows control's feed. It has no spool: if the log does not
// acknowledge a delivery, the delivery is refused.
//
// The node starts with the first delivery. A delivery waits for it at most startTimeout, and is
// then refused with a 503.
//
// When an operator expels the node, it signs nothing once it has learned of that, and another node
// takes its place, even if the expulsion does not complete: an expulsion removes a node and its
// keys, not its task. Until control refuses it, even after a restart, the old node runs beside its
// successor to report to control what the expulsion waits for. To stop a process from signing,
// stop the process.
package localnode

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
)

// startTimeout is how long a delivery waits for the node to start.
const startTimeout = 5 * time.Second

// Config of a Node. All fields but Sandbox and RowAge are required.
type Config struct {
	// Identities holds the identities from which the node takes one.
	Identities Identities
	// Sandbox is true if the node signs only for the sandbox's tenants, false if it signs only for
	// other tenants.
	Sandbox bool
	// LeaseBound and RowAge are snapshot.Config.LeaseBound and issue.Config.MaxRowAge.
	LeaseBound, RowAge time.Duration
	Log                issue.Log
	Logger             *slog.Logger
	// Registerer takes the metrics of the node while it issues.
	Registerer prometheus.Registerer
}

// Node issues receipts while it has an issuer. Safe for concurrent use.
type Node struct {
	cfg       Config
	startOnce sync.Once
	started   chan struct{} // closed by the first delivery

	mu       sync.Mutex
	issuer   *issue.Issuer // nil while there is none
	replaced func() bool   // whether a successor takes the deliveries that the issuer refuses
	opened   chan struct{} // closed while there is an issuer
}

// New makes a node that issues nothing before Run or Use is called.
func New(cfg Config) *Node {
	return &Node{cfg: cfg, started: make(chan struct{}), opened: make(chan struct{})}
}

// Use makes the node issue through a gateway's issuer. Do not call Run as well.
func (n *Node) Use(i *issue.Issuer) { n.open(i, func() bool { return false }) }

// Issue issues a receipt for a delivery that is rendered now, and returns the answer to it, as
// issue.Issuer.Issue does.
func (n *Node) Issue(ctx context.Context, by issue.Caller, d issue.Delivery) (answer []byte, replayed bool, err error) {
	err = n.with(ctx, func(i *issue.Issuer) (err error) {
		d.Rendered = time.Now()
		answer, replayed, err = i.Issue(i.Deadline(d.Rendered), nil, by, &d)
		return err
	})
	return answer, replayed, err
}

// IssueRows is issue.Issuer.IssueRows.
func (n *Node) IssueRows(ctx context.Context, by issue.Caller, batch *issue.Batch) (results []issue.RowResult, err error) {
	err = n.with(ctx, func(i *issue.Issuer) (err error) {
		results, err = i.IssueRows(ctx, by, batch)
		return err
	})
	return results, err
}

// with waits for an issuer, and calls do with it. If there is none within startTimeout, the error
// is a 503. If the issuer's node is leaving and has refused without writing anything, with calls
// do again with the successor's issuer.
func (n *Node) with(ctx context.Context, do func(i *issue.Issuer) error) error {
	n.startOnce.Do(func() { close(n.started) })
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	for {
		i, replaced, opened := n.current()
		if i != nil {
			err := do(i)
			if !notBegun(err) || !replaced() {
				return err
			}
			n.close(i)
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

// notBegun reports whether the node has refused a delivery before writing anything, because it
// drains or has no key. After any other error the delivery may be in the log: issuing it again
// could write it twice.
func notBegun(err error) bool {
	refused, ok := errors.AsType[*api.Error](err)
	return ok && (refused.Reason == api.Draining || refused.Reason == api.NoSigningKey)
}

func (n *Node) current() (i *issue.Issuer, replaced func() bool, opened <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.issuer, n.replaced, n.opened
}

// open makes i the issuer. Once replaced returns true, deliveries that i refuses wait for the
// next issuer.
func (n *Node) open(i *issue.Issuer, replaced func() bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.issuer == nil {
		close(n.opened)
	}
	n.issuer, n.replaced = i, replaced
}

// close removes i if it is the issuer; deliveries then wait for the next one.
func (n *Node) close(i *issue.Issuer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.issuer == i {
		n.issuer, n.replaced, n.opened = nil, nil, make(chan struct{})
	}
}
