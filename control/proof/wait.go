package proof

import (
	"context"
	"errors"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
)

// pollEvery is how often a seal looks for the warehouse.
const pollEvery = 5 * time.Millisecond

// errBehind refuses to answer from a warehouse that lacks what was acknowledged.
var errBehind = api.Unavailable(api.WarehouseBehind, "the warehouse has not loaded all that was acknowledged yet", retrySoon)

// reached is how far the warehouse is of a tenant's partition.
type reached struct {
	// end is that of the log; loaded is behind what of it is in the warehouse.
	end, loaded sealer.Position
	first       sealer.Position // that the log still holds
	known       bool            // the warehouse has answered
}

// short says that the warehouse lacks something.
func (r reached) short() bool { return r.loaded.Compare(r.end) < 0 }

// lacks counts the records before a position that the warehouse lacks.
func (r reached) lacks(before sealer.Position) int64 {
	if r.loaded.Compare(before) >= 0 {
		return 0
	}
	from := r.loaded
	if from.Generation != before.Generation {
		from = sealer.Position{} // of an older log
	}
	if r.first.Generation == before.Generation {
		from.Offset = max(from.Offset, r.first.Offset)
	}
	return max(1, before.Offset-from.Offset)
}

// catchUp brings what was acknowledged of a tenant before into the log, and waits for the
// warehouse to have it. It returns how far that is, and what may come behind that out of
// spools.
func (r *Room) catchUp(parent context.Context, tenantID string, spoolWait time.Duration) (at reached, pending []Pending, err error) {
	ctx, cancel := r.bounded(parent)
	defer cancel()
	if err := r.db.Drain(ctx, tenantID); err != nil {
		if parent.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = api.Unavailable(api.LogUnavailable, "the log has not taken the tenant's audit events yet", retrySoon)
		}
		return at, nil, err
	}
	// Before the end: what leaves a spool afterwards may be behind it.
	if pending, err = r.spools(ctx, spoolWait); err != nil {
		return at, nil, err
	}
	if at, err = r.loaded(ctx, tenantID); errors.Is(err, errBehind) && parent.Err() == nil && at.known {
		err = nil
	}
	return at, pending, err
}

// load waits until what the log holds of a tenant now is in the warehouse.
func (r *Room) load(parent context.Context, tenantID string) error {
	ctx, cancel := r.bounded(parent)
	defer cancel()
	_, err := r.loaded(ctx, tenantID)
	return err
}

// bounded gives a call WaitFor to wait.
func (r *Room) bounded(parent context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(parent, r.cfg.WaitFor, errBehind)
}

// loaded waits until the warehouse has reached the end that the tenant's partition of
// the log has now; the cause of ctx's end if that comes first. Other
// partitions hold nothing of the tenant: they may be behind.
func (r *Room) loaded(ctx context.Context, tenantID string) (at reached, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // whichever step it ended
		}
	}()
	partition, err := r.log.PartitionOf(ctx, tenantID)
	if err != nil {
		return at, err
	}
	first, end, err := r.log.Bounds(ctx, partition)
	if err != nil {
		return at, err
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for first.Compare(end) < 0 { // what an empty log held is loaded: retention waits for it
		next, ok, err := r.warehouse.Resume(ctx, partition)
		if err == nil {
			at = reached{end: end, first: first, known: true}
			if at.loaded.Partition = partition; ok {
				at.loaded = next
			}
			if !at.short() {
				break
			}
		} else if ctx.Err() == nil {
			return at, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return at, ctx.Err()
		}
	}
	// What comes behind the end is for the next.
	return reached{end: end, loaded: end, first: first, known: true}, nil
}
