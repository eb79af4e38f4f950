package idempotency

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/keyfile"
)

// A checkpoint is written if checkpointRecords are in the log behind the newest one: a start reads these from
// the log. A file is full with checkpointKeys.
const (
	checkpointRecords = 32 << 10
	checkpointKeys    = 32 << 10
)

// checkpoints keeps the claims in files of Config.Dir, each of which covers a
// span of the log (see checkpoint). A full file is never written again: what is written a
// key is its 24 bytes, and at most a file at a time. A file that can't be written, or is not
// believed, costs the next start the reading of its span.
type checkpoints struct {
	dir   string // "": there are none
	log   Log
	limit int // of claims
	full  int // keys of a file that is full

	mu      sync.Mutex
	rebuilt bool
	// from begins the span of the file that is not full, written is how far that was
	// written, and open are the claims from there on, in any order.
	from, written sealer.Position
	open          []keptEntry
	files         []checkpoint // in their order, also the one that is not full
}

// Checkpoint writes what came into the log since the last one, if that is much. It is to be called each
// second, and waits for requests that hold a key.
func (cs *Claims) Checkpoint(ctx context.Context) { cs.checkpoint(ctx, checkpointRecords) }

// CheckpointAll writes what came into the log since the last one, for the end.
func (cs *Claims) CheckpointAll(ctx context.Context) { cs.checkpoint(ctx, 1) }

// checkpoint writes what came into the log since the last one, if that is as many records.
func (cs *Claims) checkpoint(ctx context.Context, least int64) {
	c := &cs.checkpoints
	if c.dir == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.rebuilt {
		return
	}
	_, end, err := cs.cfg.Log.Bounds(ctx, 0)
	if err != nil || end.Offset-c.written.Offset < least {
		return // the log's failures are logged where it is written
	}
	// A record before the end may be of a request that has not remembered its key yet: that
	// request still holds its claim.
	for _, ended := range cs.held() {
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
	c.open = cs.takeFresh(c.open)
	cs.cut(ctx, end)
}

// cut writes the open file up to a position. If it can't, the span is left out.
func (cs *Claims) cut(ctx context.Context, to sealer.Position) {
	c := &cs.checkpoints
	if c.dir == "" || to.Compare(c.from) <= 0 {
		return
	}
	n, err := c.write(ctx, to)
	switch {
	case err == nil:
		cs.cfg.Trouble(nil)
	case ctx.Err() != nil:
		return
	default:
		cs.cfg.Trouble(err)
	}
	c.written = to
	if err != nil || n >= c.full || to.Offset-c.from.Offset > maxCheckpoint/2 {
		c.from, c.open = to, append(c.open[:0], c.open[n:]...)
	}
	c.expire(cs.cfg.Now())
}

// write writes the open file, with the claims before a position, which are c.open[:n] then.
func (c *checkpoints) write(ctx context.Context, to sealer.Position) (n int, err error) {
	slices.SortFunc(c.open, func(a, b keptEntry) int { return a.Position().Compare(b.Position()) })
	n, _ = slices.BinarySearchFunc(c.open, to, func(e keptEntry, at sealer.Position) int { return e.Position().Compare(at) })
	last := to
	last.Offset--
	e, err := c.log.Read(ctx, last)
	if err != nil {
		return n, err
	}
	at, _ := eventTime(e.EventID)
	s := checkpoint{from: c.from, to: to, last: sha256.Sum256(e.Event), second: uint32(max(0, at.Unix())), keys: n}
	if err := keyfile.Write(filepath.Join(c.dir, s.name()), s.encode(c.open[:n]), 0o600); err != nil {
		return n, err
	}
	if k := len(c.files); k > 0 && c.files[k-1].from == s.from {
		c.files = c.files[:k-1]
	}
	c.files = append(c.files, s)
	return n, nil
}

// expire removes files that are no longer needed: all their keys are too old, or newer ones are as
// many as are remembered.
func (c *checkpoints) expire(now time.Time) {
	keys, needed := 0, len(c.files)
	for needed > 0 && keys < c.enough() {
		needed--
		keys += c.files[needed].keys
	}
	oldest := now.Add(-keepKeys - clockSlack).Unix()
	for needed < len(c.files) && int64(c.files[needed].second) < oldest {
		needed++
	}
	for _, s := range c.files[:needed] {
		_ = os.Remove(filepath.Join(c.dir, s.name())) // one that stays is removed at the next start
	}
	c.files = append(c.files[:0], c.files[needed:]...)
}

// enough is how many newer keys make older ones useless: shards fill unevenly.
func (c *checkpoints) enough() int { return c.limit + c.limit/16 + 1 }

// belongs says whether a span is of this log, whole.
func (c *checkpoints) belongs(ctx context.Context, s *checkpoint) error {
	last := s.to
	last.Offset--
	e, err := c.log.Read(ctx, last)
	if err != nil {
		return fmt.Errorf("cannot read its last record: %w", err)
	}
	if sha256.Sum256(e.Event) != s.last {
		return fmt.Errorf("it is of another log: the record at %s is not the one it names", last)
	}
	return nil
}

// Position is where the event stands.
func (p Place) Position() sealer.Position {
	return sealer.Position{Generation: p.generation, Partition: p.partition, Offset: p.offset}
}
