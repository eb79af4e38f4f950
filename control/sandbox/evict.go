package sandbox

import (
	"context"
	"errors"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/sealer"
)

// hasPlace says whether there is a place for one more tenant.
func (r *Room) hasPlace(ctx context.Context, q store.Querier) (bool, error) {
	n, err := countLodgers(ctx, q)
	if err != nil || n >= r.cfg.MaxTenants {
		return false, err
	}
	return r.affords(ctx, q, usageOfSeed)
}

const (
	// crowdedIdle is after how long without a request a tenant has to go for another one
	// when there is no place left: else who makes tenants and leaves them, be it from an
	// address or two, keeps everybody out for Config.Idle.
	crowdedIdle = time.Hour
	// crowdedTries bounds how many are tried to be dropped for one visitor.
	crowdedTries = 10
)

// makeRoom drops whom nobody has used for longest, for at least crowdedIdle, until there is
// enough room. It refuses if that makes none.
func (r *Room) makeRoom(ctx context.Context, enough func(context.Context) (bool, error)) error {
	if ok, err := enough(ctx); err != nil || ok {
		return err
	}
	quiet := min(crowdedIdle, r.cfg.Idle)
	list, err := listIdle(ctx, r.db.Read(), lastSeen(r.db.Now(), quiet), lodger{}, crowdedTries)
	if err != nil {
		return err
	}
	for _, l := range list {
		dropped, err := r.dropUnused(ctx, l.tenantID, quiet)
		if _, unavailable := errors.AsType[*api.Error](err); unavailable || ctx.Err() != nil {
			return err
		}
		if err != nil {
			r.logUndropped(l, err)
		}
		if !dropped {
			continue
		}
		if ok, err := enough(ctx); err != nil || ok {
			return err
		}
	}
	return full()
}

// logUndropped logs it once a minute: visitors come as often as they like.
func (r *Room) logUndropped(l lodger, err error) {
	now, last := r.db.Now().UnixMilli(), r.undroppedLogged.Load()
	if now-last >= time.Minute.Milliseconds() && r.undroppedLogged.CompareAndSwap(last, now) {
		r.cfg.Logger.Error("cannot drop an idle tenant of the sandbox for another visitor", "tenantId", l.tenantID, "err", err)
	}
}

// Why a tenant is dropped.
const (
	wasReset   = "RESET"
	idle       = "IDLE"
	unfinished = "NOT_PROVISIONED"
)

// drop deletes a tenant, and tells of it; false if it was gone.
func (r *Room) drop(ctx context.Context, tenantID, reason string, by sealer.Ref) (dropped bool, err error) {
	return r.dropIf(ctx, tenantID, reason, by, func(*lodger, *store.Tx) bool { return true })
}

// dropUnused is drop for a tenant that nobody has used for so long; false if it came back.
func (r *Room) dropUnused(ctx context.Context, tenantID string, quiet time.Duration) (dropped bool, err error) {
	return r.dropIf(ctx, tenantID, idle, store.BySystem(), func(l *lodger, tx *store.Tx) bool {
		return !l.seenAt.After(lastSeen(tx.Now(), quiet))
	})
}

func (r *Room) dropIf(ctx context.Context, tenantID, reason string, by sealer.Ref, may func(*lodger, *store.Tx) bool) (dropped bool, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		l, err := findLodger(ctx, tx, tenantID)
		if err != nil || l == nil || !may(l, tx) {
			return err
		}
		dropped = true
		return dropAndTell(ctx, tx, tenantID, reason, by)
	})
	if !dropped || err != nil {
		return false, err
	}
	if err := r.cfg.DropPacks(tenantID); err != nil { // the next start tries again
		r.cfg.Logger.Error("cannot delete the packs of a tenant of the sandbox that is gone", "tenantId", tenantID, "err", err)
	}
	return true, nil
}

func dropAndTell(ctx context.Context, tx *store.Tx, tenantID, reason string, by sealer.Ref) error {
	if err := forget(ctx, tx, tenantID); err != nil {
		return err
	}
	return tx.EmitRecord(ctx, sealer.Event{
		TenantID: tenantID, Type: pipeline.TypeDropped, At: tx.Now(), Actor: by, Subject: sealer.Ref{Kind: "tenant", ID: tenantID},
	}, object{"tenantId": tenantID, "reason": reason})
}

// forget deletes a tenant but for the event that tells of it.
func forget(ctx context.Context, tx *store.Tx, tenantID string) error {
	u, err := usageOf(ctx, tx, tenantID)
	if err == nil {
		err = leaveInLog(ctx, tx, u.log)
	}
	if err != nil {
		return err
	}
	return tx.DropTenant(ctx, tenantID)
}

// Replay applies each event of the sandbox for store.Replay: a tenant that was dropped is
// dropped again, and a secret from before one that was replaced is replaced once more, as
// whoever had it may have it still.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	switch e.Type {
	case rotatedEvent:
		older, err := secretBefore(ctx, tx, store.At(e.At))
		if err != nil || !older {
			return false, err
		}
		return true, replaceSecret(ctx, tx, newSecret(), store.At(e.At))
	case pipeline.TypeDropped:
	default:
		return false, nil
	}
	l, err := findLodger(ctx, tx, e.TenantID)
	if err != nil || l == nil {
		return false, err
	}
	return true, forget(ctx, tx, e.TenantID)
}

const evictBatch = 100

// lastSeen is the latest moment noted of a tenant that was not used for so long: it may
// have been used for touchEvery after that.
func lastSeen(now time.Time, quiet time.Duration) time.Time { return now.Add(-quiet - touchEvery) }

// Evict forgets windows that are over and what the log holds no more, and drops, one by
// one, who was idle when it began to look. It goes on behind one that can't be dropped, and
// tells of the first. Any number of processes may do so.
func (r *Room) Evict(ctx context.Context) error {
	if r.shared != nil {
		if err := r.shared.forget(ctx); err != nil {
			return err
		}
	}
	if err := r.forgetLeft(ctx); err != nil {
		return err
	}
	until := lastSeen(r.db.Now(), r.cfg.Idle)
	var failed error
	for last := (lodger{}); ; {
		list, err := listIdle(ctx, r.db.Read(), until, last, evictBatch)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, last = range list {
			_, err := r.dropUnused(ctx, last.tenantID, r.cfg.Idle)
			if _, unavailable := errors.AsType[*api.Error](err); unavailable || ctx.Err() != nil {
				return errors.Join(failed, err)
			}
			if failed == nil {
				failed = err
			}
		}
		if len(list) < evictBatch {
			return failed
		}
	}
}
