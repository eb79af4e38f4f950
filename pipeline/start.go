package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"muniment.example/sealer"
)

// Chained is a log that proves what it holds: Chain is equal for two logs only if they hold
// the same records up to the position. An engine that can't prove that doesn't implement it.
type Chained interface {
	// Chain returns a hash that commits to every record before a position, whose
	// generation is that of the last of them. ErrGone where the log doesn't hold that
	// record, or not in that generation. nil: nothing is known.
	Chain(ctx context.Context, at sealer.Position) ([]byte, error)
}

// ChainKeeper is a Sink that keeps Batch.Chain with its position.
type ChainKeeper interface {
	// Chain returns the chain of the position that Resume returns; nil for none.
	Chain(ctx context.Context, partition int32) ([]byte, error)
}

// chain is the log's hash of everything before a position, nil if it has none.
func (l *Loader) chain(ctx context.Context, at sealer.Position) ([]byte, error) {
	log, ok := l.cfg.Log.(Chained)
	if !ok {
		return nil, nil
	}
	chain, err := log.Chain(ctx, at)
	if errors.Is(err, ErrGone) {
		return nil, nil
	}
	return chain, err
}

// start returns where to load the partition from, and where the log ends.
func (l *Loader) start(ctx context.Context) (next, end sealer.Position, err error) {
	first, end, err := l.cfg.Log.Bounds(ctx, l.cfg.Partition)
	if err != nil {
		return next, end, err
	}
	// Offsets count from 0, so a warehouse without a position has to begin there.
	next, ok, err := l.cfg.Warehouse.Resume(ctx, l.cfg.Partition)
	switch {
	case err != nil:
		return next, end, err
	case !ok:
		next = sealer.Position{Generation: first.Generation, Partition: l.cfg.Partition}
	}
	if next.Generation < end.Generation && ok {
		// The log was recreated or restored since it was last loaded: its offsets may
		// count anew, or stand for other records.
		known, err := l.proven(ctx, next)
		if err != nil || known {
			return next, end, err
		}
		if first.Offset > next.Offset {
			return next, end, gap(next, first)
		}
		l.log.WarnContext(ctx, "log has a new generation, loading it from its start",
			"loaded", next.String(), "first", first.String(), "end", end.String())
		return first, end, nil
	}
	if next.Compare(end) > 0 {
		return next, end, fmt.Errorf("%w: loaded up to %s, the log ends at %s", ErrLogBehind, next, end)
	}
	if first.Compare(next) > 0 {
		return next, end, gap(next, first)
	}
	return next, end, nil
}

// proven reports whether the log holds, up to next, the very records that were loaded. In
// doubt it is false: loading a record again changes nothing, skipping one loses it.
func (l *Loader) proven(ctx context.Context, next sealer.Position) (bool, error) {
	keeper, ok := l.cfg.Warehouse.(ChainKeeper)
	if !ok {
		return false, nil
	}
	loaded, err := keeper.Chain(ctx, l.cfg.Partition)
	if err != nil || loaded == nil {
		return false, err
	}
	found, err := l.chain(ctx, next)
	return err == nil && bytes.Equal(loaded, found), err
}

// checkReached fails with ErrAhead if the warehouse doesn't hold what is before a position,
// and with the error that would end Run if it can't be loaded.
func (l *Loader) checkReached(ctx context.Context, from sealer.Position) error {
	next, _, err := l.start(ctx)
	if err == nil && next.Compare(from) < 0 {
		err = fmt.Errorf("%w: from %s, loaded up to %s", ErrAhead, from, next)
	}
	return err
}

func gap(from, to sealer.Position) error {
	return fmt.Errorf("%w: nothing from %s up to %s", ErrGap, from, to)
}
