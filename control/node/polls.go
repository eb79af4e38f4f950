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

	"muniment/control/store"
)

// # Several processes of control
//
// A node asks one process, and another one revokes. So where processes share a
// database, each poll is a row of it before it is answered: a lease can only come
// from an answer, so whoever reads the rows after a revocation was committed finds
// every node that may hold an older one.
//
// A row is written when the node has applied something new, while anything is in its
// spool, when another process has written something else, and else every tenth of the
// bound: a row that stands still says that its node has not asked for longer than that.
// When it was written is of no interest, as clocks of machines step and differ: a process
// notes by its own clock, which never steps, when it first saw the row's beat. That is
// after the node has asked, so the node counts as live for too long rather than too
// short. Polls that come while a statement is on its way share the next one.

// renewals is how often within the bound a node that applies nothing is written.
const renewals = 10

// lookEvery is how often a process looks at the rows though nobody waits for them.
const lookEvery = 500 * time.Millisecond

// shared brings polls into the database.
type shared struct {
	db    *store.DB
	clock func() time.Duration
	renew time.Duration
	turn  chan struct{} // one token: whoever has it writes

	mu   sync.Mutex
	told map[string]poll // what this process has written last; at is from before that
	next *batch          // of polls that nobody writes yet; nil: none
}

// batch is the polls of one statement.
type batch struct {
	polls map[string]poll
	done  chan struct{} // closed once err is set
	err   error
}

func newShared(cfg *Config) *shared {
	return &shared{db: cfg.DB, clock: cfg.Clock, renew: cfg.Bound / renewals, turn: make(chan struct{}, 1), told: map[string]poll{}}
}

// writeFor bounds a statement: who waits for it may not.
const writeFor = 5 * time.Second

// tell returns once the database knows that the node has asked.
func (s *shared) tell(ctx context.Context, nodeID string, p poll) error {
	s.mu.Lock()
	// A word about a spool goes back and forth: another process may have heard another since.
	if t, known := s.told[nodeID]; known && t.applied == p.applied && t.spooled == 0 && p.spooled == 0 && s.clock()-t.at < s.renew {
		s.mu.Unlock()
		return nil
	}
	b, first := s.next, s.next == nil
	if first {
		b = &batch{polls: map[string]poll{}, done: make(chan struct{})}
		s.next = b
	}
	b.polls[nodeID] = p
	s.mu.Unlock()
	if first {
		go s.write(context.WithoutCancel(ctx), b) // whoever cannot wait goes, and the others have their answer
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write waits for its turn, in which more polls join, and writes the batch.
func (s *shared) write(ctx context.Context, b *batch) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	defer close(b.done)
	s.mu.Lock()
	s.next = nil
	at := s.clock()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	// In one order, so that processes don't lock each other out.
	var values []string
	var args []any
	for _, id := range slices.Sorted(maps.Keys(b.polls)) {
		values = append(values, fmt.Sprintf("($%d, $%d, $%d, $%d)", len(args)+1, len(args)+2, len(args)+3, len(args)+4))
		args = append(args, id, b.polls[id].applied, b.polls[id].spooled, rand.Int64N(1<<62)) // another than that of a row that was removed
	}
	if b.err = s.db.Note(ctx, `INSERT INTO node_polls (node_id, applied, spooled, beat) VALUES `+strings.Join(values, ", ")+`
		ON CONFLICT (node_id) DO UPDATE SET applied = excluded.applied, spooled = excluded.spooled, beat = node_polls.beat + 1, gone = 0`, args...); b.err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range b.polls {
		p.at = at
		s.told[id] = p
	}
}

// read forgets what was written last of a node that has said something else elsewhere.
func (s *shared) read(nodeID string, p poll) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, known := s.told[nodeID]; known && (t.applied != p.applied || t.spooled != p.spooled) {
		delete(s.told, nodeID)
	}
}

type row struct {
	nodeID                 string
	applied, spooled, beat int64
	gone, expelled         bool
}

// look reads the rows, and notes whose beat is new.
func (l *leases) look(ctx context.Context) (map[string]poll, error) {
	scan := func(from store.Row) (p row, err error) {
		err = from.Scan(&p.nodeID, &p.applied, &p.spooled, &p.beat, &p.gone, &p.expelled)
		return p, err
	}
	rows, err := store.List(ctx, l.db.Read(), "the polls of nodes", scan, `SELECT p.node_id, p.applied, p.spooled, p.beat, p.gone = 1, n.expelled_at IS NOT NULL
		FROM node_polls p LEFT JOIN nodes n ON n.node_id = p.node_id`)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.cfg.Clock() // after the read
	polls := map[string]poll{}
	for _, row := range rows {
		p := poll{at: now, applied: row.applied, spooled: row.spooled, beat: row.beat, expelled: row.expelled, gone: row.gone}
		if old, known := l.seen[row.nodeID]; known && old.beat == p.beat {
			p.at = old.at
		}
		l.seen[row.nodeID] = p
		l.shared.read(row.nodeID, p)
		if !l.forgotten(now, p) {
			polls[row.nodeID] = p
		}
	}
	return polls, nil
}

// removeGone removes the rows of nodes that have been silent for so long that they are
// not listed any more. An expelled one whose lease is over stays if its spool is to be
// named, and whoever starts later is told that it is gone. Who asks at the same time stays.
func (l *leases) removeGone(ctx context.Context) error {
	gone, mark := map[string]poll{}, map[string]poll{}
	l.mu.Lock()
	now := l.cfg.Clock()
	for id, p := range l.seen {
		switch {
		case l.forgotten(now, p):
			gone[id] = p
		case p.expelled && !p.gone && !l.mayHold(now, p):
			mark[id] = p
		}
	}
	l.mu.Unlock()
	for id, p := range mark {
		if err := l.db.Note(ctx, `UPDATE node_polls SET gone = 1 WHERE node_id = $1 AND beat = $2`, id, p.beat); err != nil {
			return err
		}
	}
	for id, p := range gone {
		if err := l.db.Note(ctx, `DELETE FROM node_polls WHERE node_id = $1 AND beat = $2`, id, p.beat); err != nil {
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

// Follow keeps an eye on the nodes until ctx is done; then it returns nil. Where
// processes share a database a node that has gone counts as live until this process
// has looked at it for the length of a lease; the row of one that is silent for long is
// removed.
func (l *leases) Follow(ctx context.Context) error {
	if l.shared == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for failing := false; ; {
		_, err := l.look(ctx)
		if err == nil {
			err = l.removeGone(ctx)
		}
		if err != nil && !failing && ctx.Err() == nil {
			l.cfg.Logger.Warn("cannot see which nodes are live", "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
