package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

const (
	// crowdedIdle is how long a tenant must be idle to be dropped for another visitor when the
	// sandbox is full. Without it a client with one or two addresses could create tenants, leave
	// them, and keep all others out for Config.Idle.
	crowdedIdle = time.Hour
	// crowdedTries is how many tenants are tried for one visitor.
	crowdedTries = 10
)

// claim is the part of the shared limits that a request needs.
type claim struct{ tenants, bytes int64 }

// inUse is the part of the shared limits that is in use.
type inUse struct {
	tenants, kept         int64         // kept are bytes outside the log
	idleTenants, idleKept int64         // the part that may be dropped for another visitor
	oldestUse             store.Instant // last use of the tenant that is idle longest
	log                   []hourly
}

// crowdedQuiet is crowdedIdle, or Config.Idle if that is shorter.
func (s *budget) crowdedQuiet() time.Duration { return min(crowdedIdle, s.cfg.Idle) }

func (s *budget) taken(ctx context.Context, q store.Querier) (t inUse, err error) {
	err = q.QueryRowContext(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(kept_bytes), 0) AS BIGINT), COUNT(CASE WHEN seen_at <= $1 THEN 1 END),
		CAST(COALESCE(SUM(CASE WHEN seen_at <= $1 THEN kept_bytes ELSE 0 END), 0) AS BIGINT), MIN(seen_at) FROM sandbox_tenants`,
		store.At(lastSeen(s.db.Now(), s.crowdedQuiet()))).Scan(&t.tenants, &t.kept, &t.idleTenants, &t.idleKept, &t.oldestUse)
	if err != nil {
		return t, fmt.Errorf("cannot sum up the sandbox's usage: %w", err)
	}
	t.log, err = s.logged(ctx, q, "")
	return t, err
}

// fits says whether there is space for a claim beside what is taken. The number of tenants matters
// only to a claim for a tenant.
func (s *budget) fits(c claim, tenants, bytes int64) bool {
	return (c.tenants == 0 || tenants+c.tenants <= s.cfg.MaxTenants) && bytes+c.bytes <= s.cfg.Bytes
}

// hasSpace refuses a claim for which there is no space at present. It returns what is taken, also
// with the refusal.
func (s *budget) hasSpace(ctx context.Context, q store.Querier, c claim) (inUse, error) {
	t, err := s.taken(ctx, q)
	if err == nil && !s.fits(c, t.tenants, t.kept+sumOf(t.log)) {
		err = s.full(t, c)
	}
	return t, err
}

// full refuses a claim. Its Retry-After is the time until the log has deleted enough, if the log
// alone is too full, and otherwise until a tenant may be dropped.
func (s *budget) full(t inUse, c claim) *Error {
	wait := t.oldestUse.Sub(lastSeen(s.db.Now(), s.crowdedQuiet()))
	if excess := sumOf(t.log) + c.bytes - s.cfg.Bytes; excess > 0 {
		wait = s.untilLeft(t.log, excess)
	}
	return unavailable("the sandbox is full: try again later", max(wait, touchEvery))
}

// makeSpace refuses a claim for which there is no space. If dropping idle tenants can make enough,
// it first drops those that are idle longest, of at least crowdedIdle.
func (s *budget) makeSpace(ctx context.Context, c claim) error {
	t, err := s.hasSpace(ctx, s.db.Read(), c)
	if _, full := errors.AsType[*Error](err); !full || !s.fits(c, t.tenants-t.idleTenants, t.kept-t.idleKept+sumOf(t.log)) {
		return err
	}
	quiet := s.crowdedQuiet()
	list, failed := listIdle(ctx, s.db.Read(), lastSeen(s.db.Now(), quiet), visitorTenant{}, crowdedTries)
	if failed != nil {
		return failed
	}
	for _, l := range list {
		dropped, failed := s.dropUnused(ctx, l.tenantID, quiet)
		if _, unavailable := errors.AsType[*api.Error](failed); unavailable || ctx.Err() != nil {
			return failed
		}
		if failed != nil {
			s.logUndropped(l, failed)
		}
		if !dropped {
			continue
		}
		_, err = s.hasSpace(ctx, s.db.Read(), c)
		if _, full := errors.AsType[*Error](err); !full {
			return err
		}
	}
	return err
}

// logUndropped logs at most once a minute, however many requests visitors send.
func (s *budget) logUndropped(l visitorTenant, err error) {
	now, last := s.db.Now().UnixMilli(), s.undroppedLogged.Load()
	if now-last >= time.Minute.Milliseconds() && s.undroppedLogged.CompareAndSwap(last, now) {
		s.cfg.Logger.Error("cannot drop an idle tenant of the sandbox for another visitor", "tenantId", l.tenantID, "err", err)
	}
}

// Why a tenant is dropped.
const (
	wasReset   = "RESET"
	idle       = "IDLE"
	unfinished = "NOT_PROVISIONED"
)

// drop deletes a tenant, with an event; false if there is no such tenant.
func (s *budget) drop(ctx context.Context, tenantID, reason string, by sealer.Ref) (dropped bool, err error) {
	return s.dropIf(ctx, tenantID, reason, by, func(*visitorTenant, *store.Tx) bool { return true })
}

// dropUnused is drop for a tenant that is idle for quiet; false if it was used again.
func (s *budget) dropUnused(ctx context.Context, tenantID string, quiet time.Duration) (dropped bool, err error) {
	return s.dropIf(ctx, tenantID, idle, store.BySystem(), func(l *visitorTenant, tx *store.Tx) bool {
		return !l.seenAt.After(lastSeen(tx.Now(), quiet))
	})
}

func (s *budget) dropIf(ctx context.Context, tenantID, reason string, by sealer.Ref, may func(*visitorTenant, *store.Tx) bool) (dropped bool, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		l, err := findVisitorTenant(ctx, tx, tenantID)
		if err != nil || l == nil || !may(l, tx) {
			return err
		}
		dropped = true
		if err := s.cfg.Tables.DropTenant(ctx, tx, tenantID); err != nil {
			return err
		}
		if err := s.cfg.DropPacks(ctx, tx, tenantID); err != nil {
			return err
		}
		return tx.EmitRecord(ctx, tenantDropped, sealer.Event{
			TenantID: tenantID, At: tx.Now(), Actor: by, Subject: sealer.Ref{Kind: "tenant", ID: tenantID},
		}, TenantDropped{tenantID, reason})
	})
	if dropped = dropped && err == nil; dropped && s.cfg.Dropped != nil {
		s.cfg.Dropped(tenantID)
	}
	return dropped, err
}

// Replay returns a function that applies each event of the sandbox for rollback.Replay. A tenant that
// was dropped is dropped again from the tables of all services. A secret from before a rotation is
// replaced again, since the reason for the rotation may have been that it leaked.
func Replay(tables store.Tables) func(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	return func(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
		switch e.Type {
		case secretRotated.Type:
			older, err := secretBefore(ctx, tx, store.At(e.At))
			if err != nil || !older {
				return false, err
			}
			return true, replaceSecret(ctx, tx, newSecret(), store.At(e.At))
		case pipeline.TypeDropped:
		default:
			return false, nil
		}
		l, err := findVisitorTenant(ctx, tx, e.TenantID)
		if err != nil || l == nil {
			return false, err
		}
		return true, tables.DropTenant(ctx, tx, e.TenantID)
	}
}

const evictBatch = 100

// lastSeen is the latest recorded use of a tenant that is idle for quiet: the tenant may have been
// used for touchEvery after its recorded use.
func lastSeen(now time.Time, quiet time.Duration) time.Time { return now.Add(-quiet - touchEvery) }

// Evict deletes rate limit windows that are over and counts of what the log no longer has, and
// drops, one by one, the tenants that are idle when it begins. It continues after a tenant that
// can't be dropped, and returns the first such error. Any number of processes may run it.
func (s *Service) Evict(ctx context.Context) error {
	if err := s.Forget(ctx); err != nil {
		return err
	}
	if err := s.forgetLogged(ctx); err != nil {
		return err
	}
	until := lastSeen(s.db.Now(), s.cfg.Idle)
	var failed error
	for last := (visitorTenant{}); ; {
		list, err := listIdle(ctx, s.db.Read(), until, last, evictBatch)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, last = range list {
			_, err := s.dropUnused(ctx, last.tenantID, s.cfg.Idle)
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
