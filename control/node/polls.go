package node

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"muniment.example/control/store"
)

// # Several control processes
//
// A node may poll one process while another one revokes. So processes that share a database
// write each poll to it before they answer the poll. A node gets a lease only from an answer,
// so a process that reads the rows after a revocation was committed finds each node that may
// hold an older lease.
//
// A poll is written if the node has applied something new, if there are records in its spool, if
// another process has written a different poll of it, and otherwise every tenth of the lease
// bound: if a row does not change for longer, its node has not polled. Rows have no time, because
// the clocks of machines step and differ. Instead, each process records by its own clock, which
// never steps, when it first saw the row's beat. That is after the poll, so a node may count as
// live for too long, but never for too short. Polls that arrive while a statement runs share the
// next one. A row never goes back to an earlier start of its node.

// renewals is how often within the lease bound the row of an unchanged node is written.
const renewals = 10

// followEvery is how often Follow reads the rows.
const followEvery = 500 * time.Millisecond

// pollWriter writes polls to the database. Safe for concurrent use.
type pollWriter struct {
	db      *store.DB
	clock   func() time.Duration
	renew   time.Duration
	writing chan struct{} // semaphore: one batch is written at a time

	mu      sync.Mutex
	written map[string]poll // the last written by this process; at is from before the write
	next    *batch          // polls that wait for the running statement; nil if there are none
}

// batch is the polls of one statement.
type batch struct {
	polls map[string]poll
	done  chan struct{} // closed once err is set
	err   error
}

func newPollWriter(cfg *Config) *pollWriter {
	return &pollWriter{db: cfg.DB, clock: cfg.Clock, renew: cfg.LeaseBound / renewals, writing: make(chan struct{}, 1), written: map[string]poll{}}
}

// writeTimeout bounds a statement, because the contexts of the callers that wait for it may not.
const writeTimeout = 5 * time.Second

// record returns nil once the node's poll is committed, or need not be written.
func (w *pollWriter) record(ctx context.Context, nodeID string, p poll) error {
	w.mu.Lock()
	// The number of spooled records goes up and down, so another process may have written a different
	// one since: always write it.
	if t, known := w.written[nodeID]; known && t.epoch == p.epoch && t.applied == p.applied && t.spooled == 0 && p.spooled == 0 && w.clock()-t.at < w.renew {
		w.mu.Unlock()
		return nil
	}
	b, first := w.next, w.next == nil
	if first {
		b = &batch{polls: map[string]poll{}, done: make(chan struct{})}
		w.next = b
	}
	if p.epoch >= b.polls[nodeID].epoch {
		b.polls[nodeID] = p
	}
	w.mu.Unlock()
	if first {
		go w.write(context.WithoutCancel(ctx), b) // other callers wait for the batch even if this one is cancelled
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write waits for the running statement, while polls are still added to the batch, and writes the
// batch.
func (w *pollWriter) write(ctx context.Context, b *batch) {
	w.writing <- struct{}{}
	defer func() { <-w.writing }()
	defer close(b.done)
	w.mu.Lock()
	w.next = nil
	at := w.clock()
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	// All processes write in the same order, so that they don't deadlock.
	var values []string
	var args []any
	for _, id := range slices.Sorted(maps.Keys(b.polls)) {
		n := len(args)
		values = append(values, fmt.Sprintf("($%d, $%d, $%d, $%d, $%d)", n+1, n+2, n+3, n+4, n+5))
		args = append(args, id, b.polls[id].epoch, b.polls[id].applied, b.polls[id].spooled, rand.Int64N(1<<62)) // the first beat must differ from that of a removed row
	}
	if b.err = w.db.Notes.Write(ctx, `INSERT INTO node_polls (node_id, epoch, applied, spooled, beat) VALUES `+strings.Join(values, ", ")+`
		ON CONFLICT (node_id) DO UPDATE SET epoch = excluded.epoch, applied = excluded.applied, spooled = excluded.spooled, beat = node_polls.beat + 1, gone = 0
		WHERE excluded.epoch >= node_polls.epoch`, args...); b.err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, p := range b.polls {
		p.at = at
		w.written[id] = p
	}
}

// newest returns the start of the node's last poll that this process wrote.
func (w *pollWriter) newest(nodeID string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written[nodeID].epoch
}

// observe takes a row that was read. If another process has written a different poll of the node,
// the node's next poll here is written.
func (w *pollWriter) observe(nodeID string, p poll) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, known := w.written[nodeID]; known && (t.epoch != p.epoch || t.applied != p.applied || t.spooled != p.spooled) {
		delete(w.written, nodeID)
	}
}

type row struct {
	nodeID                 string
	epoch                  uint64
	applied, spooled, beat int64
	gone, expelled         bool
}

// readPolls reads the rows, and records when each beat was first seen.
func (l *leases) readPolls(ctx context.Context, q store.Querier) (map[string]poll, error) {
	scan := func(from store.Row) (p row, err error) {
		err = from.Scan(&p.nodeID, &p.epoch, &p.applied, &p.spooled, &p.beat, &p.gone, &p.expelled)
		return p, err
	}
	rows, err := store.List(ctx, q, "the polls of nodes", scan, `SELECT p.node_id, p.epoch, p.applied, p.spooled, p.beat, p.gone = 1, n.expelled_at IS NOT NULL
		FROM node_polls p LEFT JOIN nodes n ON n.node_id = p.node_id`)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.cfg.Clock() // after the read
	polls := map[string]poll{}
	for _, row := range rows {
		p := poll{at: now, epoch: row.epoch, applied: row.applied, spooled: row.spooled, beat: row.beat, expelled: row.expelled, gone: row.gone}
		if old, known := l.seen[row.nodeID]; known && old.beat == p.beat {
			p.at = old.at
		}
		l.seen[row.nodeID] = p
		l.writer.observe(row.nodeID, p)
		if !l.forgotten(now, p) {
			polls[row.nodeID] = p
		}
	}
	return polls, nil
}

// removeGone deletes the rows of nodes that are no longer listed: they have been silent for long,
// or are expelled. It keeps the row of an expelled node whose spool holds records, and marks it as gone
// once its lease is over, so that a process that starts later does not count the node as live. It
// keeps the row of a node that polls concurrently.
func (l *leases) removeGone(ctx context.Context) error {
	gone, mark := map[string]poll{}, map[string]poll{}
	l.mu.Lock()
	now := l.cfg.Clock()
	for id, p := range l.seen {
		switch {
		case l.forgotten(now, p):
			gone[id] = p
		case p.expelled && !p.gone && !l.mayHoldLease(now, p):
			mark[id] = p
		}
	}
	l.mu.Unlock()
	for id, p := range mark {
		if err := l.db.Notes.Write(ctx, `UPDATE node_polls SET gone = 1 WHERE node_id = $1 AND beat = $2`, id, p.beat); err != nil {
			return err
		}
	}
	for id, p := range gone {
		if err := l.db.Notes.Write(ctx, `DELETE FROM node_polls WHERE node_id = $1 AND beat = $2`, id, p.beat); err != nil {
			return err
		}
		l.mu.Lock()
		if l.seen[id].beat == p.beat {
			delete(l.seen, id)
		}
		l.mu.Unlock()
	}
	return nil
}

// Follow reads the polls of nodes until ctx is done; then it returns nil. If processes share the
// database, a node that stops polling counts as live until this process has seen its row
// unchanged for the length of a lease, so each process must keep reading. Follow also removes
// rows that are no longer needed.
func (l *leases) Follow(ctx context.Context) error {
	if l.writer == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for failing := false; ; {
		_, err := l.readPolls(ctx, l.db.Vital())
		if err == nil {
			err = l.removeGone(ctx)
		}
		if err != nil && !failing && ctx.Err() == nil {
			l.cfg.Logger.Warn("cannot read which nodes are live", "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
