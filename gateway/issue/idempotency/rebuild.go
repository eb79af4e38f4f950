package idempotency

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/keyfile"
)

// Rebuild reads the Idempotency-Keys and identities of the last 24 hours back: from the
// checkpoints, and what they don't cover from the log. It is called before the first Find.
func (cs *Claims) Rebuild(ctx context.Context) error {
	c := &cs.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	since := cs.cfg.Now().Add(-keepKeys)
	first, end, err := cs.cfg.Log.Bounds(ctx, 0)
	if err != nil {
		return err
	}
	at, err := firstSince(ctx, cs.cfg.Log, first, end, since.Add(-clockSlack))
	if err != nil {
		return err
	}
	checkpoints, at, err := cs.usableCheckpoints(ctx, at)
	if err != nil {
		return err
	}
	for _, s := range checkpoints {
		if at.Compare(s.from) < 0 {
			if err := cs.scan(ctx, at, s.from, since); err != nil {
				return err
			}
			cs.cut(ctx, s.from)
		}
		if cs.load(&s, since) == nil { // or the gap before the next one begins here
			at = s.to
		}
	}
	if err := cs.scan(ctx, at, end, since); err != nil {
		return err
	}
	c.rebuilt = true
	return nil
}

// usableCheckpoints are the checkpoints that are to be loaded, in their order, and from where on the
// keys are needed. Files that are of no use are removed.
func (cs *Claims) usableCheckpoints(ctx context.Context, at sealer.Position) (list []checkpoint, from sealer.Position, err error) {
	c := &cs.checkpoints
	if c.dir == "" {
		return nil, at, nil
	}
	names, err := checkpointNames(c.dir)
	if err = errors.Join(err, keyfile.Sweep(c.dir)); err != nil {
		cs.cfg.Trouble(err)
	}
	keys := 0
	for _, name := range slices.Backward(names) {
		s, _, err := readCheckpoint(c.dir, name)
		wanted := keys < c.enough() && (err != nil || s.to.Compare(at) > 0)
		if wanted && err == nil {
			err = c.belongs(ctx, &s)
		}
		switch {
		case ctx.Err() != nil:
			return nil, at, ctx.Err()
		case wanted && err == nil:
			list, keys = append(list, s), keys+s.keys
			continue
		case wanted:
			cs.cfg.Logger.Warn("a checkpoint of idempotency keys is not believed: its part of the log is read", "file", name, "err", err)
		}
		_ = os.Remove(filepath.Join(c.dir, name))
	}
	slices.Reverse(list)
	if keys >= c.enough() && at.Compare(list[0].from) < 0 {
		at = list[0].from
	}
	return list, at, nil
}

// load remembers the keys of a checkpoint.
func (cs *Claims) load(s *checkpoint, since time.Time) error {
	c := &cs.checkpoints
	_, keys, err := readCheckpoint(c.dir, s.name())
	if err != nil {
		return err
	}
	c.files = append(c.files, *s)
	c.from, c.written, c.open = s.to, s.to, c.open[:0]
	full := s.keys >= c.full
	if !full {
		c.from = s.from
	}
	for ; len(keys) > 0; keys = keys[checkpointKeySize:] {
		e := s.entry(keys)
		if !full {
			c.open = append(c.open, e)
		}
		if int64(e.second) >= since.Unix() {
			cs.put(&e)
		}
	}
	return nil
}

// scan remembers the keys of a part of the log, and writes checkpoints of it, but for the
// last.
func (cs *Claims) scan(ctx context.Context, from, to sealer.Position, since time.Time) error {
	c := &cs.checkpoints
	if c.written != from { // else the open file goes on
		c.from, c.written, c.open = from, from, c.open[:0]
	}
	err := cs.cfg.Log.Scan(ctx, from, to, func(e sealer.Entry) error {
		if e.Generation != c.from.Generation {
			cs.generation(ctx, e.Position)
		}
		at, ok := eventTime(e.EventID)
		if !ok || at.Before(since) {
			return nil
		}
		h, ok := HashOf(e.Event)
		if !ok {
			return nil
		}
		claim := keptEntry{claimKey(h[:16]), Place{e.Offset, e.Partition, e.Generation, uint32(at.Unix())}}
		cs.put(&claim)
		if c.dir == "" {
			return nil
		}
		if c.open = append(c.open, claim); len(c.open) >= c.full {
			cs.cut(ctx, e.Position.Next())
		}
		return nil
	})
	if to.Generation != c.from.Generation {
		cs.generation(ctx, to)
	}
	return err
}

// generation ends the open file where another generation of the log begins.
func (cs *Claims) generation(ctx context.Context, begins sealer.Position) {
	c := &cs.checkpoints
	cs.cut(ctx, sealer.Position{Generation: c.from.Generation, Offset: begins.Offset})
	c.from, c.written, c.open = begins, begins, c.open[:0]
}

// clockSlack is how far the clocks of the writers of one log may disagree, for finding a point
// in time in it.
const clockSlack = 10 * time.Minute

// firstSince finds, by halving, a position at or before the first event of a moment. An
// event that can't be read may be from any: what stands before it is looked at.
func firstSince(ctx context.Context, log Log, first, end sealer.Position, since time.Time) (sealer.Position, error) {
	if first.Generation != end.Generation {
		return first, nil
	}
	from, to := first.Offset, end.Offset
	for from < to {
		middle := first
		middle.Offset = from + (to-from)/2
		e, err := log.Read(ctx, middle)
		if err != nil {
			held, _, boundsErr := log.Bounds(ctx, first.Partition)
			if boundsErr != nil {
				return first, errors.Join(err, boundsErr)
			}
			if middle.Compare(held) < 0 { // the oldest go meanwhile
				from = max(held.Offset, middle.Offset+1)
				continue
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return first, err
			}
		}
		if at, ok := eventTime(e.EventID); ok && at.Before(since) {
			from = middle.Offset + 1
		} else {
			to = middle.Offset
		}
	}
	first.Offset = from
	return first, nil
}

// eventTime returns the moment of an event, which its id holds.
func eventTime(id string) (time.Time, bool) {
	text, found := strings.CutPrefix(id, string(api.PrefixEvent))
	u, err := ulid.ParseStrict(text)
	return u.Timestamp(), found && err == nil
}
