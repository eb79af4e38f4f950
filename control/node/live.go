package node

import (
	"context"
	"maps"
	"slices"
	"time"
)

// poll is the newest word of a node.
type poll struct {
	at      time.Duration // by Config.Clock
	applied int64
}

// forget is how many bounds a silent node is still listed for.
const forget = 100

// Propagation says how far the nodes have followed the feed to a revision.
type Propagation struct {
	Revision int64 `json:"revision" doc:"The revision to be applied."`
	// Applied is true when no node can sign by an older state any more.
	Applied bool    `json:"applied" doc:"Every live node has applied it."`
	Nodes   []State `json:"nodes"`
}

// State of one node, from its newest poll.
type State struct {
	NodeID          string `json:"nodeId"`
	AppliedRevision int64  `json:"appliedRevision"`
	Live            bool   `json:"live" doc:"It may hold a lease: it polled within the bound."`
}

// Polled records that a node has asked for what came after the revision applied.
func (r *Room) Polled(nodeID string, applied int64) {
	now := r.cfg.Clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.seen[nodeID]
	r.seen[nodeID] = poll{at: now, applied: applied}
	if old.applied == applied {
		return
	}
	for id, p := range r.seen {
		if now-p.at > forget*r.cfg.Bound {
			delete(r.seen, id)
		}
	}
	close(r.moved)
	r.moved = make(chan struct{})
}

// Propagation answers how far the nodes are now.
func (r *Room) Propagation(revision int64) Propagation {
	p, _ := r.propagation(revision)
	return p
}

// Await waits until every live node has applied the revision, at most for
// Config.WaitFor or until ctx is done, and answers how far they are then.
func (r *Room) Await(ctx context.Context, revision int64) Propagation {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.WaitFor)
	defer cancel()
	for {
		p, moved := r.propagation(revision)
		if p.Applied {
			return p
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return r.Propagation(revision)
		}
	}
}

// propagation also returns the channel that the next poll with news closes.
func (r *Room) propagation(revision int64) (Propagation, <-chan struct{}) {
	now := r.cfg.Clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Propagation{Revision: revision, Applied: true, Nodes: []State{}}
	for _, id := range slices.Sorted(maps.Keys(r.seen)) {
		seen := r.seen[id]
		s := State{NodeID: id, AppliedRevision: seen.applied, Live: now-seen.at <= r.cfg.Bound}
		if s.Live && s.AppliedRevision < revision {
			p.Applied = false
		}
		p.Nodes = append(p.Nodes, s)
	}
	return p, r.moved
}
