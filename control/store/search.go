package store

import (
	"context"
	"time"

	"muniment/sealer"
)

// How SearchStops reads: so many records, and then a pause. It takes a few percent of a
// processor, and of a disk 30 MB a second.
const (
	searchReads = 10_000
	searchPause = 500 * time.Millisecond
	searchRetry = 10 * time.Second
)

// unsearched is what a start has not read of what it has to hold the database against.
type unsearched struct {
	History
	missed missed
	stops  *stops // of what it has read
}

// SearchStops reads what Reconcile has left out so that the service is ready soon, and puts in
// force again what was stopped there and the database does not show. Only then the next start
// reads less: whatever ends this one, nothing is passed over. It returns nil when it is done,
// or when ctx is; History.Log must outlive it. Called once, after Reconcile.
func (db *DB) SearchStops(ctx context.Context) error {
	u := db.unsearched
	if u == nil {
		return nil
	}
	db.cfg.Logger.Info("searching for stops what came into the log since the last start", "partitions", len(u.stops.left))
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
			db.cfg.Logger.Info("all that came into the log since the last start was searched for stops")
			return nil
		}
		db.cfg.Logger.Warn("cannot search for stops what came into the log since the last start, trying again", "err", err)
		pause(ctx, time.After(searchRetry))
	}
}

// search reads what is left, and then what has come meanwhile: a stop may have been lifted.
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

// read takes the stops of a stretch in, and moves from on. What the log holds no more is
// passed over.
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
