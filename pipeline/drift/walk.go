package drift

import (
	"context"

	"muniment/sealer"
)

const (
	// runRecords bounds a run of the log, runDecisions one of decisions: to decide anew costs
	// more than to look whether a row is there.
	runRecords, runDecisions = 8192, 1024
)

// The checks.
const (
	checkRows       = "rows"
	checkDuplicates = "duplicates"
	checkPacks      = "packs"
	checkStatements = "statements"
)

// piece is what one look compares: from ≤ position < to, or the next pack or statement behind one.
type piece struct {
	check    string
	from, to sealer.Position
	after    string
}

// place is what a piece is known by, however much of it was loaded when it was looked at.
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

// walks are where the checks go on. They take turns, and within each of them partitions do.
type walks struct {
	look       int
	partitions []*walk
	log        *cursor // that the piece at hand is from, if it is one of the log in turn
	packs      series
	statements series
}

// series goes through records by their ids, in turns.
type series struct {
	at    string // the one that was compared last
	turns int    // that were finished
}

// pass goes on from one to the next, unless another was looked at again; with none, to a new turn.
func (s *series) pass(from, to string) {
	switch {
	case from != s.at:
	case to == "":
		s.at, s.turns = "", s.turns+1
	default:
		s.at = to
	}
}

// walk is that through one partition.
type walk struct {
	newest           sealer.Position // what was loaded when its newest run was compared
	rows, duplicates cursor
}

// cursor goes through what is loaded of a partition, in turns.
type cursor struct {
	at    sealer.Position
	begun bool
	turns int // that were finished
}

// whole says whether every walk has finished a turn.
func (w *walks) whole(packs, statements bool) bool {
	for _, p := range w.partitions {
		if p.rows.turns == 0 || p.duplicates.turns == 0 {
			return false
		}
	}
	return len(w.partitions) > 0 && (!packs || w.packs.turns > 0) && (!statements || w.statements.turns > 0)
}

// next is the next piece in turn; ok is false when there is none of the check whose turn it is.
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
	turn, round := w.look%checks, w.look/checks
	w.look++
	switch turn {
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
	switch turn {
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

// loaded is the part of the log that is loaded: first ≤ position < next.
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

// newestRun is the run that what was loaded last is in, unless it was compared already.
func (w *walk) newestRun(first, next sealer.Position) (p piece, ok bool, err error) {
	if next == w.newest || next.Compare(first) <= 0 || first.Generation != next.Generation {
		return p, false, nil
	}
	w.newest = next
	from := next
	from.Offset = max(first.Offset, (next.Offset-1)/runRecords*runRecords)
	return piece{check: checkRows, from: from, to: next}, true, nil
}

// run is the next one of the turn. Runs end at round offsets: one that drifts is met again
// at the same place.
func (c *cursor) run(check string, first, next sealer.Position, size int64) (p piece, ok bool) {
	if first.Compare(next) >= 0 {
		c.turns++
		return p, false
	}
	if !c.begun || c.at.Compare(first) < 0 || c.at.Compare(next) >= 0 {
		c.at, c.begun = first, true
	}
	to := next
	to.Offset = min(next.Offset, (c.at.Offset/size+1)*size)
	return piece{check: check, from: c.at, to: to}, true
}

// pass goes on behind what was looked at: behind all that is loaded, with a new turn.
func (c *cursor) pass(to, next sealer.Position) {
	if c.at = to; to.Compare(next) >= 0 {
		c.begun = false
		c.turns++
	}
}
