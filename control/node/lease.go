package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"muniment/control/store"
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

// leases know how far each node has followed the feed, and which of them may hold a lease.
type leases struct {
	cfg *Config
	db  *store.DB

	mu    sync.Mutex
	seen  map[string]poll // by node id
	moved chan struct{}   // closed by the next poll that reports another revision

	shared *shared // nil: no other process has the database
}

func newLeases(ctx context.Context, cfg *Config) (*leases, error) {
	l := &leases{cfg: cfg, db: cfg.DB, seen: map[string]poll{}, moved: make(chan struct{})}
	if cfg.DB.Shared() {
		l.shared = newShared(cfg)
		_, err := l.look(ctx)
		return l, err
	}
	if cfg.OwnNodes {
		return l, nil
	}
	known, err := nodeIDs(ctx, l.db.Read())
	if err != nil {
		return nil, err
	}
	for _, id := range known {
		l.seen[id] = poll{at: cfg.Clock()}
	}
	return l, nil
}

// forget is how many bounds a silent node is still listed for, unless records are in
// its spool.
const forget = 100

// SchemaName is for the document, where names have no package before them.
func (State) SchemaName() string { return "NodeState" }

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
func (l *leases) Polled(ctx context.Context, nodeID string, applied, spooled int64) error {
	if l.shared != nil {
		if err := l.shared.tell(ctx, nodeID, poll{applied: applied, spooled: spooled}); err != nil {
			return fmt.Errorf("cannot take note of the node %s: %w", nodeID, err)
		}
		return nil
	}
	now := l.cfg.Clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.seen[nodeID]
	l.seen[nodeID] = poll{at: now, applied: applied, spooled: spooled, expelled: old.expelled}
	if old.applied == applied {
		return nil
	}
	for id, p := range l.seen {
		if l.forgotten(now, p) {
			delete(l.seen, id)
		}
	}
	close(l.moved)
	l.moved = make(chan struct{})
	return nil
}

func (l *leases) forgotten(now time.Duration, p poll) bool {
	return p.spooled == 0 && (now-p.at > forget*l.cfg.Bound || p.expelled && !l.mayHold(now, p))
}

// mayHold says whether a node may hold a lease.
func (l *leases) mayHold(now time.Duration, p poll) bool {
	return !p.gone && now-p.at <= l.lease()
}

// Spooled counts the records that nodes have promised and that were in their spools
// alone, by the newest word of each node that has any. A live one is expected to bring
// them into the log, of the others nobody knows; one that was expelled is none of the live.
func (l *leases) Spooled(ctx context.Context) (live, silent map[string]int64, err error) {
	polls, err := l.polls(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot tell what is in the spools of nodes: %w", err)
	}
	live, silent = map[string]int64{}, map[string]int64{}
	now := l.cfg.Clock()
	for id, p := range polls {
		switch {
		case p.spooled == 0:
		case !p.expelled && l.mayHold(now, p):
			live[id] = p.spooled
		default:
			silent[id] = p.spooled
		}
	}
	return live, silent, nil
}

// Propagation answers how far the nodes are now.
func (l *leases) Propagation(ctx context.Context, revision int64) (Propagation, error) {
	polls, err := l.polls(ctx)
	if err != nil {
		return Propagation{}, fmt.Errorf("cannot tell how far the nodes are: %w", err)
	}
	return l.propagation(revision, polls), nil
}

// Await waits until every live node has applied the revision, at most for
// Config.WaitFor or until ctx is done, and answers how far they are then. As long as
// the database does not tell, it says that they have not.
func (l *leases) Await(ctx context.Context, revision int64) (p Propagation) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.WaitFor)
	defer cancel()
	for {
		moved := l.news()
		polls, err := l.polls(ctx)
		if err == nil {
			p = l.propagation(revision, polls)
		}
		if err == nil && p.Applied {
			return p
		}
		select {
		case <-moved:
		case <-ctx.Done():
			if err != nil && p.Nodes == nil {
				l.cfg.Logger.Warn("cannot tell how far the nodes are", "err", err)
				p = Propagation{Revision: revision, Nodes: []State{}}
			}
			return p
		}
	}
}

// news returns a channel that is closed by the next poll that reports another
// revision, or sooner.
func (l *leases) news() <-chan struct{} {
	if l.shared != nil {
		return l.db.Noted()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// polls are the newest words of the nodes that are not forgotten.
func (l *leases) polls(ctx context.Context) (map[string]poll, error) {
	if l.shared != nil {
		return l.look(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.seen), nil
}

func (l *leases) propagation(revision int64, polls map[string]poll) Propagation {
	now := l.cfg.Clock()
	p := Propagation{Revision: revision, Applied: true, Nodes: []State{}}
	for _, id := range slices.Sorted(maps.Keys(polls)) {
		seen := polls[id]
		s := State{NodeID: id, AppliedRevision: seen.applied, Live: l.mayHold(now, seen)}
		if s.Live && s.AppliedRevision < revision {
			p.Applied = false
		}
		p.Nodes = append(p.Nodes, s)
	}
	return p
}

// lease is for how long after the newest word that is known of it a node may sign.
func (l *leases) lease() time.Duration {
	if l.shared != nil {
		return l.cfg.Bound + l.shared.renew
	}
	return l.cfg.Bound
}

// spooledOf is what was in a node's spool by its last word.
func (l *leases) spooledOf(ctx context.Context, q store.Querier, nodeID string) (int64, error) {
	if l.shared == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.seen[nodeID].spooled, nil
	}
	n, err := store.One(ctx, q, "the poll of the node "+nodeID, func(row store.Row) (n int64, err error) {
		return n, row.Scan(&n)
	}, `SELECT spooled FROM node_polls WHERE node_id = $1`, nodeID)
	if n == nil {
		return 0, err
	}
	return *n, nil
}

// forgetSpool is abandon for what is in memory.
func (l *leases) forgetSpool(nodeID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, known := l.seen[nodeID]; known {
		p.spooled = 0
		l.seen[nodeID] = p
	}
}

// isLive says whether the node may hold a lease.
func (l *leases) isLive(ctx context.Context, nodeID string) (bool, error) {
	polls, err := l.polls(ctx)
	if err != nil {
		return false, fmt.Errorf("cannot tell whether the node is live: %w", err)
	}
	p, known := polls[nodeID]
	return known && l.mayHold(l.cfg.Clock(), p), nil
}

// expelled takes note that a node was expelled. left says that it holds no lease that it
// would still sign by.
func (l *leases) expelled(nodeID string, left bool) {
	if l.shared != nil {
		return // the database says so
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, known := l.seen[nodeID]; left || !known {
		delete(l.seen, nodeID)
	} else {
		p.expelled = true
		l.seen[nodeID] = p
	}
}
