package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// poll is the newest poll of a node.
type poll struct {
	at      time.Duration // by Config.Clock
	epoch   uint64        // the process's start
	applied int64
	spooled int64 // records in its spool
	beat    int64 // of its row, if several processes share the database

	expelled bool // records that it still moves into the log can't be proven
	gone     bool // it is expelled and holds no lease, even if this process saw its row change recently
}

// leases track how far each node has followed the feed, and which nodes may hold a lease.
type leases struct {
	cfg *Config
	db  *store.DB

	mu    sync.Mutex
	seen  map[string]poll   // by node id
	older map[string]uint64 // by node id, the start that was last refused, for the log
	moved chan struct{}     // closed by the next poll that reports another revision

	writer *pollWriter // nil if no other process uses the database

	supersededPolls prometheus.Counter
}

func newLeases(ctx context.Context, cfg *Config) (*leases, error) {
	l := &leases{cfg: cfg, db: cfg.DB, seen: map[string]poll{}, older: map[string]uint64{}, moved: make(chan struct{})}
	l.supersededPolls = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "muniment_node_superseded_polls_total",
		Help: "Polls of the feed that were refused because a process that started later runs as the same node. More than a few: a node's folder was copied.",
	})
	if cfg.DB.Shared() {
		l.writer = newPollWriter(cfg)
		_, err := l.readPolls(ctx, l.db.Vital())
		return l, err
	}
	if cfg.OwnNodes {
		return l, nil
	}
	known, err := nodeIDs(ctx, l.db.Vital())
	if err != nil {
		return nil, err
	}
	for _, id := range known {
		l.seen[id] = poll{at: cfg.Clock()}
	}
	return l, nil
}

// forgetAfter is for how many lease bounds a silent node is still listed. A node with records in
// its spool is always listed.
const forgetAfter = 100

// SchemaName is the name in the OpenAPI document, where names have no package.
func (State) SchemaName() string { return "NodeState" }

// Propagation is how far the nodes have followed the feed to a revision.
type Propagation struct {
	Revision int64 `json:"revision" doc:"The revision to be applied."`
	// Applied is true when no node can sign by an older state.
	Applied bool    `json:"applied" doc:"Every live node has applied it."`
	Nodes   []State `json:"nodes"`
}

// State of one node, from its newest poll.
type State struct {
	NodeID          string `json:"nodeId"`
	AppliedRevision int64  `json:"appliedRevision"`
	Live            bool   `json:"live" doc:"It may hold a lease: it polled within the bound."`
}

// Polled records a node's poll of the feed: the revision that it has applied, and the number of
// records in its spool. The caller must not answer the poll before Polled has returned nil: only
// then does every control process that waits for live nodes wait for this one as well. The error is
// one of api.IsSuperseded if a later start of the node has polled. Control processes that share a
// database learn that from each other within followEvery.
func (l *leases) Polled(ctx context.Context, q api.FeedRequest) error {
	p := poll{epoch: q.Epoch, applied: q.After, spooled: q.Spooled}
	if err := l.CheckEpoch(q.NodeID, q.Epoch); err != nil {
		l.supersededPolls.Inc()
		return err
	}
	if l.writer == nil {
		l.keep(q.NodeID, p)
		return nil
	}
	if err := l.writer.record(ctx, q.NodeID, p); err != nil {
		return fmt.Errorf("cannot record the poll of the node %s: %w", q.NodeID, err)
	}
	return nil
}

// CheckEpoch returns an error of api.IsSuperseded if a start of the node that is later than epoch has
// polled.
func (l *leases) CheckEpoch(nodeID string, epoch uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := l.newestLocked(nodeID)
	if epoch >= newest {
		return nil
	}
	if l.older[nodeID] != epoch {
		l.older[nodeID] = epoch
		l.cfg.Logger.Warn("two processes run as one node: the one that started earlier gets no more news of rights", "nodeId", nodeID, "epoch", epoch, "newest", newest)
	}
	return &api.Error{Code: api.StateConflict, Field: api.FieldEpoch, Message: fmt.Sprintf(
		"another process runs as this node, %s, and started later: it is start %d of the node, this process is start %d. A node's folder must not be copied: stop one of the two", nodeID, newest, epoch)}
}

// newestLocked returns the newest start of the node of which this process knows that it has polled. The
// caller holds l.mu.
func (l *leases) newestLocked(nodeID string) uint64 {
	newest := l.seen[nodeID].epoch
	if l.writer != nil {
		newest = max(newest, l.writer.newest(nodeID))
	}
	return newest
}

// newestPolled returns the newest start of the node that has polled any process.
func (l *leases) newestPolled(ctx context.Context, q store.Querier, nodeID string) (uint64, error) {
	if l.writer != nil {
		if _, err := l.readPolls(ctx, q); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newestLocked(nodeID), nil
}

// keep records a poll in memory.
func (l *leases) keep(nodeID string, p poll) {
	now := l.cfg.Clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.seen[nodeID]
	p.at, p.expelled = now, old.expelled
	p.epoch = max(p.epoch, old.epoch) // a later start may have polled since CheckEpoch
	l.seen[nodeID] = p
	if old.applied == p.applied {
		return
	}
	for id, p := range l.seen {
		if l.forgotten(now, p) {
			delete(l.seen, id)
		}
	}
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *leases) forgotten(now time.Duration, p poll) bool {
	return p.spooled == 0 && (now-p.at > forgetAfter*l.cfg.LeaseBound || p.expelled && !l.mayHoldLease(now, p))
}

// mayHoldLease reports whether a node may hold a lease, by its newest poll.
func (l *leases) mayHoldLease(now time.Duration, p poll) bool {
	return !p.gone && now-p.at <= l.lease()
}

// Spooled counts, by node id, the promised records that were only in the node's spool at its
// newest poll. A live node is expected to move them into the log; whether a silent one will is
// unknown. An expelled node counts as silent.
func (l *leases) Spooled(ctx context.Context) (live, silent map[string]int64, err error) {
	polls, err := l.polls(ctx, l.db.Vital())
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the polls of nodes: %w", err)
	}
	live, silent = map[string]int64{}, map[string]int64{}
	now := l.cfg.Clock()
	for id, p := range polls {
		switch {
		case p.spooled == 0:
		case !p.expelled && l.mayHoldLease(now, p):
			live[id] = p.spooled
		default:
			silent[id] = p.spooled
		}
	}
	return live, silent, nil
}

// Propagation returns how far the nodes have followed the feed now.
func (l *leases) Propagation(ctx context.Context, revision int64) (Propagation, error) {
	polls, err := l.polls(ctx, l.db.Vital())
	if err != nil {
		return Propagation{}, fmt.Errorf("cannot read how far the nodes have followed the feed: %w", err)
	}
	return l.propagation(revision, polls), nil
}

// Await waits until every live node has applied the revision, at most for Config.WaitFor or
// until ctx is done, and returns how far they are then. If it can't read the polls, it logs that
// and returns that the revision is not applied.
func (l *leases) Await(ctx context.Context, revision int64) (p Propagation) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.WaitFor)
	defer cancel()
	for {
		moved := l.advanced()
		polls, err := l.polls(ctx, l.db.Vital())
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
				l.cfg.Logger.Warn("cannot read how far the nodes have followed the feed", "err", err)
				p = Propagation{Revision: revision, Nodes: []State{}}
			}
			return p
		}
	}
}

// advanced returns a channel that is closed at the latest by the next poll that reports another
// revision.
func (l *leases) advanced() <-chan struct{} {
	if l.writer != nil {
		return l.db.Notes.Written()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// polls returns the newest poll of each node that is listed.
func (l *leases) polls(ctx context.Context, q store.Querier) (map[string]poll, error) {
	if l.writer != nil {
		return l.readPolls(ctx, q)
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
		s := State{NodeID: id, AppliedRevision: seen.applied, Live: l.mayHoldLease(now, seen)}
		if s.Live && s.AppliedRevision < revision {
			p.Applied = false
		}
		p.Nodes = append(p.Nodes, s)
	}
	return p
}

// lease is how long after its newest recorded poll a node may sign.
func (l *leases) lease() time.Duration {
	if l.writer != nil {
		return l.cfg.LeaseBound + l.writer.renew
	}
	return l.cfg.LeaseBound
}

// spooledOf returns the number of records in a node's spool at its newest poll.
func (l *leases) spooledOf(ctx context.Context, q store.Querier, nodeID string) (int64, error) {
	if l.writer == nil {
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

// clearSpooled sets a node's count of spooled records to 0 in memory, after abandon.
func (l *leases) clearSpooled(nodeID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, known := l.seen[nodeID]; known {
		p.spooled = 0
		l.seen[nodeID] = p
	}
}

// isLive reports whether the node may hold a lease.
func (l *leases) isLive(ctx context.Context, q store.Querier, nodeID string) (bool, error) {
	polls, err := l.polls(ctx, q)
	if err != nil {
		return false, fmt.Errorf("cannot determine whether the node is live: %w", err)
	}
	p, known := polls[nodeID]
	return known && l.mayHoldLease(l.cfg.Clock(), p), nil
}

// markExpelled records in memory that a node was expelled. stopped is as in writeExpulsion.
func (l *leases) markExpelled(nodeID string, stopped bool) {
	if l.writer != nil {
		return // readPolls reads it from the database
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, known := l.seen[nodeID]; stopped || !known {
		delete(l.seen, nodeID)
	} else {
		p.expelled = true
		l.seen[nodeID] = p
	}
}
