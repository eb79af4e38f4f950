package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
)

// Sealed is the answer of a seal.
type Sealed struct {
	// Packs are the headers of the packs sealed since the call began, oldest
	// first, or of the last pack alone when nothing was new.
	Packs []json.RawMessage `json:"packs" doc:"Headers of the packs sealed since the call began, oldest first, or of the last pack alone when nothing was new."`
	// Pack is the newest of them; null while the tenant has none.
	Pack json.RawMessage `json:"pack" doc:"The newest of them; null while the tenant has none."`
	// Pending are acknowledged events that only the next pack can hold.
	Pending []Pending `json:"pending" doc:"Acknowledged events that only the next pack can hold, by node."`
}

// Pending counts what a node still holds in its spool.
type Pending struct {
	NodeID string `json:"nodeId"`
	Count  int64  `json:"count"`
}

// How soon a caller may try again, and how often a seal looks for the warehouse.
const (
	retrySoon  = time.Second
	retryLater = time.Minute
	pollEvery  = 5 * time.Millisecond
)

// Seal seals what is new of a tenant on behalf of by. What a caller may be told of
// a failure is *api.Error. Seal may be called by any number of goroutines and
// processes; ctx ends the call between two steps, and what was sealed until then
// stays sealed.
func (r *Room) Seal(ctx context.Context, tenantID string, by sealer.Ref) (Sealed, error) {
	return r.timed(ctx, tenantID, "", r.cfg.SpoolWait, by)
}

// Vouch seals what is new of a tenant before a key is revoked, and leaves no pack by
// that key without a later one by the key that signs now: where the newest pack is by
// the key, another one is sealed on top of it, news or not. It waits for no spool: whose
// receipts matter then was waited for before.
func (r *Room) Vouch(ctx context.Context, tenantID, keyID string, by sealer.Ref) error {
	_, err := r.timed(ctx, tenantID, keyID, 0, by)
	return err
}

// timed is seal for Seal and Vouch; leaving is the key that is about to be revoked,
// spoolWait how long it waits for spools.
func (r *Room) timed(ctx context.Context, tenantID, leaving string, spoolWait time.Duration, by sealer.Ref) (Sealed, error) {
	began := r.cfg.Now()
	sealed, fresh, err := r.seal(ctx, tenantID, leaving, spoolWait, by)
	r.metrics.seconds.Observe(r.cfg.Now().Sub(began).Seconds())
	r.metrics.seals.WithLabelValues(result(fresh, err)).Inc()
	if err != nil {
		return Sealed{}, fmt.Errorf("cannot seal %s: %w", tenantID, err)
	}
	return sealed, nil
}

func (r *Room) seal(ctx context.Context, tenantID, leaving string, spoolWait time.Duration, by sealer.Ref) (sealed Sealed, fresh bool, err error) {
	if err := r.db.Reserved(); err != nil {
		return Sealed{}, false, err
	}
	before, err := readHead(ctx, r.db.Read(), tenantID)
	if err != nil {
		return Sealed{}, false, err
	}
	end, pending, err := r.catchUp(ctx, tenantID, spoolWait)
	if err != nil {
		return Sealed{}, false, err
	}
	release, err := r.sealing.acquire(ctx, tenantID)
	if err != nil {
		return Sealed{}, false, err
	}
	defer release()
	if err := r.refuseHeld(ctx, tenantID); err != nil {
		return Sealed{}, false, err
	}
	session, err := r.newSession(ctx, tenantID, leaving, by, end)
	if err != nil {
		return Sealed{}, false, err
	}
	for more := true; more; {
		more, err = session.sealNext(ctx)
		if errors.Is(err, errMoved) {
			more = true // another process has sealed: begin anew behind its pack
			session, err = r.newSession(ctx, tenantID, leaving, by, end)
		}
		if err != nil {
			return Sealed{}, false, err
		}
	}
	sealed, fresh, err = r.sealedSince(ctx, tenantID, before.sequence)
	sealed.Pending = pending
	return sealed, fresh, err
}

// errBehind refuses to answer from a warehouse that lacks what was acknowledged.
var errBehind = api.Unavailable(api.WarehouseBehind, "the warehouse has not loaded all that was acknowledged yet", retrySoon)

// catchUp brings everything of a tenant that was acknowledged into the log so far into
// the warehouse, and returns the position behind it, and what may come behind that out of
// spools.
func (r *Room) catchUp(parent context.Context, tenantID string, spoolWait time.Duration) (end sealer.Position, pending []Pending, err error) {
	ctx, cancel := r.bounded(parent)
	defer cancel()
	if err := r.db.Drain(ctx, tenantID); err != nil {
		if parent.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = api.Unavailable(api.LogUnavailable, "the log has not taken the tenant's audit events yet", retrySoon)
		}
		return end, nil, err
	}
	// Before the end: what leaves a spool afterwards may be behind it.
	if pending, err = r.spools(ctx, spoolWait); err != nil {
		return end, nil, err
	}
	end, err = r.loaded(ctx, tenantID)
	return end, pending, err
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
// the log has now, and returns it; the cause of ctx's end if that comes first. Other
// partitions hold nothing of the tenant: they may be behind.
func (r *Room) loaded(ctx context.Context, tenantID string) (end sealer.Position, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // whichever step it ended
		}
	}()
	partition, err := r.log.PartitionOf(ctx, tenantID)
	if err != nil {
		return end, err
	}
	first, end, err := r.log.Bounds(ctx, partition)
	if err != nil {
		return end, err
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for first.Compare(end) < 0 { // what an empty log held is loaded: retention waits for it
		next, ok, err := r.warehouse.Resume(ctx, partition)
		if err == nil && ok && next.Compare(end) >= 0 {
			break
		}
		if err != nil && ctx.Err() == nil {
			return end, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return end, ctx.Err()
		}
	}
	return end, nil
}

// errHeld refuses to seal around a record that can't be trusted.
var errHeld = api.Unavailable(api.SetAside, "a record set aside holds sealing until an operator has repaired or released it", retryLater)

// refuseHeld is errHeld while a record set aside holds the tenant.
func (r *Room) refuseHeld(ctx context.Context, tenantID string) error {
	aside, err := r.warehouse.SetAsides(ctx, tenantID)
	if err == nil && len(aside) > 0 {
		err = errHeld
	}
	return err
}

// sealedSince answers with the packs behind a sequence number, or the last one.
func (r *Room) sealedSince(ctx context.Context, tenantID string, after int64) (sealed Sealed, fresh bool, err error) {
	now, err := readHead(ctx, r.db.Read(), tenantID)
	if err != nil {
		return Sealed{}, false, err
	}
	fresh = now.sequence > after
	if !fresh {
		after = now.sequence - 1
	}
	packs, err := listPacks(ctx, r.db.Read(), tenantID, after, int(now.sequence-after))
	if err != nil {
		return Sealed{}, false, err
	}
	sealed = Sealed{Packs: []json.RawMessage{}, Pending: []Pending{}}
	for _, p := range packs {
		sealed.Packs = append(sealed.Packs, p.Header)
		sealed.Pack = p.Header
	}
	return sealed, fresh, nil
}

// result is the metric's label for the outcome of a seal.
func result(fresh bool, err error) string {
	refused, _ := errors.AsType[*api.Error](err)
	switch {
	case refused != nil && refused.Reason == api.SetAside:
		return resultSetAside
	case refused != nil:
		return resultBehind
	case err != nil:
		return resultFailed
	case fresh:
		return resultSealed
	}
	return resultNothing
}
