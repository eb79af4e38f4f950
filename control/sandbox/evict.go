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

// crowdedQuiet is crowdedIdle, or Config.Idle if that is shorter.
func (s *budget) crowdedQuiet() time.Duration { return min(crowdedIdle, s.cfg.Idle) }

// hasPlace refuses another tenant if there is no place at present, until one may be dropped.
func (s *budget) hasPlace(ctx context.Context, q store.Querier) error {
	var tenants int64
	var oldestUse store.Instant
	err := q.QueryRowContext(ctx, `SELECT COUNT(*), MIN(seen_at) FROM sandbox_tenants`).Scan(&tenants, &oldestUse)
	if err != nil {
		return fmt.Errorf("cannot count the sandbox's tenants: %w", err)
	}
	if tenants < s.cfg.MaxTenants {
		return nil
	}
	return full(oldestUse.Sub(lastSeen(s.db.Now(), s.crowdedQuiet())))
}

// makePlace refuses another tenant for which there is no place. If idle tenants can make one, it first
// drops those that are idle longest, of at least crowdedIdle.
func (s *budget) makePlace(ctx context.Context) error {
	err := s.hasPlace(ctx, s.db.Read())
	if _, full := errors.AsType[*Error](err); !full {
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
		err = s.hasPlace(ctx, s.db.Read())
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

// Evict deletes rate limit windows that are over and counts of events that the log no longer has, and
// drops, one by one, the tenants that are idle when it begins. It continues after a tenant that
// can't be dropped, and returns the first such error. Any number of processes may run it.
func (s *Service) Evict(ctx context.Context) error {
	if err := s.Forget(ctx); err != nil {
		return err
	}
	if err := s.forgetExpired(ctx); err != nil {
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
