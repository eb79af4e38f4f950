package drift

import (
	"context"

	"muniment.example/sealer"
)

const (
	// runRecords bounds a range of the log, runDecisions a range of decisions: recomputing a decision
	// costs more than finding a row.
	runRecords, runDecisions = 8192, 1024
)

// The checks.
const (
	checkRows       = "rows"
	checkDuplicates = "duplicates"
	checkPacks      = "packs"
	checkStatements = "statements"
)

// piece is what one check compares: from ≤ position < to, or the pack or statement after an id.
type piece struct {
	check    string
	from, to sealer.Position
	after    string
}

// place identifies a piece, however much of it was loaded when it was checked.
type place struct {
	check     string
	partition int32
	run       int64
	after     string
}

func (p piece) place() place {
	size := int64(runRecords)
	if p.check == checkDuplicates {
		size = runDecisions
	}
	return place{p.check, p.to.Partition, p.from.Offset / size, p.after}
}

// walks is the progress of the checks. They alternate, and each alternates between partitions.
type walks struct {
	look       int
	partitions []*walk
	log        *cursor // where the current piece is from, unless it is checked out of order
	packs      series
	statements series
}

// series goes through packs or statements by their ids, in rounds.
type series struct {
	at     string // the id that was compared last
	rounds int    // finished rounds
}

// pass advances from one id to the next, unless another one was checked. An empty to begins a new
// round.
func (s *series) pass(from, to string) {
	switch {
	case from != s.at:
	case to == "":
		s.at, s.rounds = "", s.rounds+1
	default:
		s.at = to
	}
}

// walk is the progress through one partition.
type walk struct {
	newest           sealer.Position // the end of what was loaded when its newest range was compared
	rows, duplicates cursor
}

// cursor goes through the loaded part of a partition, in rounds.
type cursor struct {
	at     sealer.Position
	begun  bool
	rounds int // finished rounds
}

// whole reports whether every walk has finished a round.
func (w *walks) whole(packs, statements bool) bool {
	for _, p := range w.partitions {
		if p.rows.rounds == 0 || p.duplicates.rounds == 0 {
			return false
		}
	}
	return len(w.partitions) > 0 && (!packs || w.packs.rounds > 0) && (!statements || w.statements.rounds > 0)
}

// next returns the next check's next piece; ok is false if that check has none.
func (c *Checker) next(ctx context.Context) (p piece, ok bool, err error) {
	w := &c.walks
	if w.partitions == nil {
		n, err := c.cfg.Log.Partitions(ctx)
		if err != nil {
			return p, false, err
		}
		for range n {
			w.partitions = append(w.partitions, new(walk))
		}
	}
	const checks = 5
	check, round := w.look%checks, w.look/checks
	w.look++
	switch check {
	case 0:
		return piece{check: checkPacks, after: w.packs.at}, c.cfg.NextPack != nil, nil
	case 4:
		return piece{check: checkStatements, after: w.statements.at}, c.cfg.NextStatement != nil, nil
	}
	partition := int32(round % len(w.partitions))
	first, next, err := c.loaded(ctx, partition)
	if err != nil {
		return p, false, err
	}
	in := w.partitions[partition]
	switch check {
	case 1:
		return in.newestRun(first, next)
	case 2:
		if p, ok = in.rows.run(checkRows, first, next, runRecords); ok {
			w.log = &in.rows
			in.rows.pass(p.to, next)
		}
	case 3:
		if p, ok = in.duplicates.run(checkDuplicates, first, next, runDecisions); ok {
			in.duplicates.pass(p.to, next)
		}
	}
	return p, ok, nil
}

// loaded returns the part of the log that is loaded: first ≤ position < next.
func (c *Checker) loaded(ctx context.Context, partition int32) (first, next sealer.Position, err error) {
	first, end, err := c.cfg.Log.Bounds(ctx, partition)
	if err != nil {
		return first, next, err
	}
	next, ok, err := c.cfg.Loaded(ctx, partition)
	if err != nil || !ok || next.Compare(first) < 0 {
		return first, first, err
	}
	if next.Compare(end) > 0 {
		next = end
	}
	next.Partition = partition
	return first, next, nil
}

// newestRun returns the range with the newest loaded records, unless it was compared already.
func (w *walk) newestRun(first, next sealer.Position) (p piece, ok bool, err error) {
	if next == w.newest || next.Compare(first) <= 0 || first.Generation != next.Generation {
		return p, false, nil
	}
	w.newest = next
	from := next
	from.Offset = max(first.Offset, (next.Offset-1)/runRecords*runRecords)
	return piece{check: checkRows, from: from, to: next}, true, nil
}

// run returns the next range of the round. Ranges end at multiples of size, so a range that drifts is
// found again at the same place.
func (c *cursor) run(check string, first, next sealer.Position, size int64) (p piece, ok bool) {
	if first.Compare(next) >= 0 {
		c.rounds++
		return p, false
	}
	if !c.begun || c.at.Compare(first) < 0 || c.at.Compare(next) >= 0 {
		c.at, c.begun = first, true
	}
	to := next
	to.Offset = min(next.Offset, (c.at.Offset/size+1)*size)
	return piece{check: check, from: c.at, to: to}, true
}

// pass advances beyond a range that was checked. After the last range a new round begins.
func (c *cursor) pass(to, next sealer.Position) {
	if c.at = to; to.Compare(next) >= 0 {
		c.begun = false
		c.rounds++
	}
}
