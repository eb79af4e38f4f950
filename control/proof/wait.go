package proof

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// pollEvery is how often a seal polls the warehouse.
const pollEvery = 5 * time.Millisecond

// errBehind refuses to use a warehouse that lacks acknowledged events.
var errBehind = api.Unavailable(api.WarehouseBehind, "the warehouse has not loaded all acknowledged events yet", retrySoon)

// loadedPosition is how far the warehouse has loaded a tenant's partition.
type loadedPosition struct {
	// end is the end of the log; loaded is after the last record in the warehouse.
	end, loaded sealer.Position
	first       sealer.Position // the first position that the log still has
	known       bool            // the warehouse was queried successfully
}

// short reports whether the warehouse lacks something.
func (r loadedPosition) short() bool { return r.loaded.Compare(r.end) < 0 }

// lacks counts the records before a position that the warehouse lacks.
func (r loadedPosition) lacks(before sealer.Position) int64 {
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

// catchUp waits until all acknowledged events of a tenant are in the log and in the warehouse. It
// returns how far the warehouse is, and what is still in spools.
func (a *archive) catchUp(parent context.Context, tenantID string, spoolWait time.Duration) (at loadedPosition, pending []Pending, err error) {
	ctx, cancel := a.bounded(parent)
	defer cancel()
	if err := a.drain(ctx, parent, tenantID); err != nil {
		return at, nil, err
	}
	// This is read before the end, because records that leave a spool later may be after the end.
	if pending, err = a.spools(ctx, spoolWait); err != nil {
		return at, nil, err
	}
	if at, err = a.loaded(ctx, tenantID); errors.Is(err, errBehind) && parent.Err() == nil && at.known {
		err = nil
	}
	return at, pending, err
}

// AwaitLoaded waits until the warehouse has the events of a tenant that are in the log now. After
// WaitFor it fails with 503 WAREHOUSE_BEHIND.
func (a *archive) AwaitLoaded(parent context.Context, tenantID string) error {
	ctx, cancel := a.bounded(parent)
	defer cancel()
	_, err := a.loaded(ctx, tenantID)
	return err
}

// AwaitRecorded waits until the log has the events of the tenant's current records in the database,
// and then as AwaitLoaded.
func (a *archive) AwaitRecorded(parent context.Context, tenantID string) error {
	ctx, cancel := a.bounded(parent)
	defer cancel()
	if err := a.drain(ctx, parent, tenantID); err != nil {
		return err
	}
	_, err := a.loaded(ctx, tenantID)
	return err
}

// drain waits until the log has the tenant's audit events. It fails with 503 LOG_UNAVAILABLE if ctx,
// which derives from parent, times out.
func (a *archive) drain(ctx, parent context.Context, tenantID string) error {
	err := a.db.Outbox.Drain(ctx, tenantID)
	if err != nil && parent.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = api.Unavailable(api.LogUnavailable, "the log has not accepted the tenant's audit events yet", retrySoon)
	}
	return err
}

// bounded limits a call's waiting to WaitFor.
func (a *archive) bounded(parent context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(parent, a.cfg.WaitFor, errBehind)
}

// loaded waits until the warehouse has reached the current end of the tenant's partition. If ctx ends
// first, the error is its cause. Other partitions have no events of the tenant and may be behind.
func (a *archive) loaded(ctx context.Context, tenantID string) (at loadedPosition, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	partition, err := a.log.PartitionOf(ctx, tenantID)
	if err != nil {
		return at, err
	}
	first, end, err := a.log.Bounds(ctx, partition)
	if err != nil {
		return at, err
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for first.Compare(end) < 0 { // retention deletes only loaded records, so all of an empty log's were loaded
		next, ok, err := a.warehouse.Resume(ctx, partition)
		if err == nil {
			at = loadedPosition{end: end, first: first, known: true}
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
	// Records after the end are for the next call.
	return loadedPosition{end: end, loaded: end, first: first, known: true}, nil
}

// spoolEvery is how often the spools are polled, for all waiting seals together.
const spoolEvery = 50 * time.Millisecond

// spoolWatch polls the spools for all waiting seals: however many there are, it makes one query each
// spoolEvery.
type spoolWatch struct {
	mu   sync.Mutex
	next *spoolLook // the next one; nil: no waiters
}

// spoolLook is the result of a poll for all its waiters; done is closed once the result is set.
type spoolLook struct {
	done         chan struct{}
	live, silent map[string]int64
	err          error
}

// wait returns the next poll, which begins after the call.
func (w *spoolWatch) wait(ctx context.Context, nodes Nodes) *spoolLook {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil {
		look := &spoolLook{done: make(chan struct{})}
		w.next = look
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spoolLookFor) // its caller may be cancelled
		time.AfterFunc(spoolEvery, func() {
			defer cancel()
			defer close(look.done)
			w.mu.Lock()
			w.next = nil
			w.mu.Unlock()
			look.live, look.silent, look.err = nodes.Spooled(ctx)
		})
	}
	return w.next
}

// spoolLookFor bounds the time of a poll.
const spoolLookFor = 5 * time.Second

// spools waits, at most for wait, until the spools of all live nodes are empty. It returns the nodes
// whose spools are not.
func (a *archive) spools(ctx context.Context, wait time.Duration) (pending []Pending, err error) {
	if a.cfg.Nodes == nil {
		return []Pending{}, nil
	}
	live, silent, err := a.cfg.Nodes.Spooled(ctx)
	limit := time.NewTimer(wait)
	defer limit.Stop()
	for over := wait == 0; err == nil && !over && len(live) > 0; {
		look := a.watch.wait(ctx, a.cfg.Nodes)
		select {
		case <-look.done:
			live, silent, err = look.live, look.silent, look.err
		case <-limit.C:
			over = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	named := maps.Clone(silent)
	if named == nil {
		named = map[string]int64{}
	}
	maps.Copy(named, live)
	pending = []Pending{}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		pending = append(pending, Pending{NodeID: id, Count: named[id]})
	}
	return pending, nil
}
