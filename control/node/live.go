package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// poll is the newest word of a node.
type poll struct {
	at      time.Duration // by Config.Clock
	applied int64
	spooled int64 // records in its spool
	beat    int64 // of its row, where several processes share the database

	expelled bool // it can bring nothing more that is proven
	gone     bool // it is expelled, and holds no lease whatever this process has seen
}

// forget is how many bounds a silent node is still listed for, unless records are in
// its spool.
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

// Polled records that a node has asked for what came after the revision applied, and
// how many records are in its spool. Only once it has returned nil may the node be
// answered: then whoever waits for the live nodes knows of this one, in every process of
// control.
func (r *Room) Polled(ctx context.Context, nodeID string, applied, spooled int64) error {
	if r.shared != nil {
		if err := r.shared.tell(ctx, nodeID, poll{applied: applied, spooled: spooled}); err != nil {
			return fmt.Errorf("cannot take note of the node %s: %w", nodeID, err)
		}
		return nil
	}
	now := r.cfg.Clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.seen[nodeID]
	r.seen[nodeID] = poll{at: now, applied: applied, spooled: spooled, expelled: old.expelled}
	if old.applied == applied {
		return nil
	}
	for id, p := range r.seen {
		if r.forgotten(now, p) {
			delete(r.seen, id)
		}
	}
	close(r.moved)
	r.moved = make(chan struct{})
	return nil
}

func (r *Room) forgotten(now time.Duration, p poll) bool {
	return p.spooled == 0 && (now-p.at > forget*r.cfg.Bound || p.expelled && !r.mayHold(now, p))
}

// mayHold says whether a node may hold a lease.
func (r *Room) mayHold(now time.Duration, p poll) bool {
	return !p.gone && now-p.at <= r.lease()
}

// Spooled counts the records that nodes have promised and that were in their spools
// alone, by the newest word of each node that has any. A live one is expected to bring
// them into the log, of the others nobody knows; one that was expelled is none of the live.
func (r *Room) Spooled(ctx context.Context) (live, silent map[string]int64, err error) {
	polls, err := r.polls(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot tell what is in the spools of nodes: %w", err)
	}
	live, silent = map[string]int64{}, map[string]int64{}
	now := r.cfg.Clock()
	for id, p := range polls {
		switch {
		case p.spooled == 0:
		case !p.expelled && r.mayHold(now, p):
			live[id] = p.spooled
		default:
			silent[id] = p.spooled
		}
	}
	return live, silent, nil
}

// Propagation answers how far the nodes are now.
func (r *Room) Propagation(ctx context.Context, revision int64) (Propagation, error) {
	polls, err := r.polls(ctx)
	if err != nil {
		return Propagation{}, fmt.Errorf("cannot tell how far the nodes are: %w", err)
	}
	return r.propagation(revision, polls), nil
}

// Await waits until every live node has applied the revision, at most for
// Config.WaitFor or until ctx is done, and answers how far they are then. As long as
// the database does not tell, it says that they have not.
func (r *Room) Await(ctx context.Context, revision int64) (p Propagation) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.WaitFor)
	defer cancel()
	for {
		moved := r.news()
		polls, err := r.polls(ctx)
		if err == nil {
			p = r.propagation(revision, polls)
		}
		if err == nil && p.Applied {
			return p
		}
		select {
		case <-moved:
		case <-ctx.Done():
			if err != nil && p.Nodes == nil {
				r.cfg.Logger.Warn("cannot tell how far the nodes are", "err", err)
				p = Propagation{Revision: revision, Nodes: []State{}}
			}
			return p
		}
	}
}

// news returns a channel that is closed by the next poll that reports another
// revision, or sooner.
func (r *Room) news() <-chan struct{} {
	if r.shared != nil {
		return r.db.Noted()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moved
}

// polls are the newest words of the nodes that are not forgotten.
func (r *Room) polls(ctx context.Context) (map[string]poll, error) {
	if r.shared != nil {
		return r.look(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seen), nil
}

func (r *Room) propagation(revision int64, polls map[string]poll) Propagation {
	now := r.cfg.Clock()
	p := Propagation{Revision: revision, Applied: true, Nodes: []State{}}
	for _, id := range slices.Sorted(maps.Keys(polls)) {
		seen := polls[id]
		s := State{NodeID: id, AppliedRevision: seen.applied, Live: r.mayHold(now, seen)}
		if s.Live && s.AppliedRevision < revision {
			p.Applied = false
		}
		p.Nodes = append(p.Nodes, s)
	}
	return p
}

// lease is for how long after the newest word that is known of it a node may sign.
func (r *Room) lease() time.Duration {
	if r.shared != nil {
		return r.cfg.Bound + r.shared.renew
	}
	return r.cfg.Bound
}
