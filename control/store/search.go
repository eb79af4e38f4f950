package store

import (
	"context"
	"time"

	"muniment/sealer"
)

// SearchStops reads searchReads records and then pauses. It takes a few percent of a processor, and
// 30 MB a second of a disk.
const (
	searchReads = 10_000
	searchPause = 500 * time.Millisecond
	searchRetry = 10 * time.Second
)

// unsearched is the part of the log that a start has not searched for stops.
type unsearched struct {
	History
	missed missed
	stops  *stops // found so far
}

// SearchStops reads the part of the log that Reconcile left out so that the service is ready soon,
// and re-applies the stops that the database lacks. Only then does the next start read less, so
// nothing is skipped if the process ends before. It returns nil when it is done, or when ctx is;
// History.Log must outlive it. Call it once, after Reconcile.
func (db *reconciler) SearchStops(ctx context.Context) error {
	u := db.unsearched
	if u == nil {
		return nil
	}
	db.cfg.Logger.Info("searching the log since the last start for stops", "partitions", len(u.stops.left))
	for {
		err := u.search(ctx)
		if err == nil {
			u.stops.left = nil
			err = db.holdAgainst(ctx, u.History, u.missed, u.stops)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			db.unsearched = nil
			db.cfg.Logger.Info("searched the log since the last start for stops")
			return nil
		}
		db.cfg.Logger.Warn("cannot search the log since the last start for stops, retrying", "err", err)
		pause(ctx, time.After(searchRetry))
	}
}

// search reads what is left, and then what came meanwhile, since a stop may have been lifted.
func (u *unsearched) search(ctx context.Context) error {
	for i := range u.stops.left {
		if err := u.read(ctx, &u.stops.left[i].from, u.stops.left[i].to); err != nil {
			return err
		}
	}
	for i := range u.missed.parts {
		_, end, err := u.Log.Bounds(ctx, int32(i))
		if err != nil {
			return err
		}
		if err := u.read(ctx, &u.missed.parts[i].end, end); err != nil {
			return err
		}
	}
	return nil
}

// read adds the stops of a span, and advances from. Records that the log no longer holds are
// skipped.
func (u *unsearched) read(ctx context.Context, from *sealer.Position, to sealer.Position) error {
	for from.Compare(to) < 0 {
		first, _, err := u.Log.Bounds(ctx, from.Partition)
		if err != nil {
			return err
		}
		if from.Offset = max(from.Offset, first.Offset); from.Compare(to) >= 0 {
			break
		}
		some := to
		some.Offset = min(to.Offset, from.Offset+searchReads)
		if err := u.stops.scan(ctx, u.Log, *from, some); err != nil {
			return err
		}
		if *from = some; some != to {
			if pause(ctx, time.After(searchPause)); ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}
