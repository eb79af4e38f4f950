package sandbox

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// # The budget
//
// Visitors decide how much the sandbox appends, loads and seals. Config.Bytes limits the disk
// space for all of it: what tenants keep in warehouse, packs and database until they are dropped,
// and what was written to the log until the log deletes it after Config.LogKeep. A tenant may keep
// a 64th of the budget, and an address may write a 64th to the log, however many tenants it
// creates; otherwise one visitor could close the sandbox to all others. A tenant or an address
// above its part is refused, and so is every visitor while the disk has less than Config.MinFree
// left: the sandbox stops before other parts of the service have to.
//
// The budget is an estimate from measured sizes, counted when something is written. Requests in
// flight are not counted yet. An address is stored as a hash under the secret of the cookies, so
// replacing the secret resets the counts.

const (
	defaultBytes   = 1 << 30
	defaultLogKeep = 7 * 24 * time.Hour
	// budgetParts is the number of parts of the budget.
	budgetParts = 64
)

// usage is disk space in bytes: log in the log, and kept in warehouse, packs and database.
type usage struct{ log, kept int64 }

func (u usage) sum() int64 { return u.log + u.kept }

// usageOfDemo is the usage of deliveries, each with an event of about 1.2 KB, and of their pack,
// whose header has this length.
func usageOfDemo(deliveries, header int) usage {
	return usage{1024 + 1536*int64(deliveries), 4096 + 2560*int64(deliveries) + 2*int64(header)}
}

// usageOfChange is the usage of a change whose response has this length. The response has the
// record, which is also in the database, in the feed, and in an event.
func usageOfChange(response int) usage {
	return usage{512 + int64(response), 2048 + 4*int64(response)}
}

// usageOfSeed is the usage of a new tenant.
var usageOfSeed = usage{12 << 10, 64 << 10}

// budget admits what visitors write, and drops idle tenants to make space for it.
type budget struct {
	*core
	undroppedLogged atomic.Int64 // Unix milliseconds of the last line by logUndropped
}

// limit is what one tenant may keep, and what one address may write to the log.
func (s *budget) limit() int64 { return s.cfg.Bytes / budgetParts }

// admit refuses a visitor for whom there is no space, after dropping idle tenants.
func (s *budget) admit(ctx context.Context, more usage) error {
	if err := s.diskHasSpace(); err != nil {
		return err
	}
	kept, err := keptBy(ctx, s.db.Read(), visitorOf(ctx).caller.TenantID)
	if err != nil {
		return err
	}
	if kept+more.kept > s.limit() { // without Retry-After: waiting does not help
		return unavailable("the tenant has used all the space that a visitor has: send POST /api/sandbox/reset to drop it and start again", 0)
	}
	if err := s.withinLogLimit(ctx, more.log); err != nil {
		return err
	}
	return s.makeSpace(ctx, claim{bytes: more.sum()})
}

// withinLogLimit refuses an address that would exceed its part of the log. The error has the time
// until the log has deleted enough.
func (s *budget) withinLogLimit(ctx context.Context, more int64) error {
	log, err := s.logged(ctx, s.db.Read(), visitorOf(ctx).address)
	if err != nil {
		return err
	}
	excess := sumOf(log) + more - s.limit()
	if excess <= 0 {
		return nil
	}
	e := limited(max(s.untilLeft(log, excess), time.Second))
	e.Message = "this IP address has used all the space in the log that an address has"
	return e
}

// diskHasSpace refuses while the disk has less than Config.MinFree left.
func (s *budget) diskHasSpace() error {
	if s.cfg.MinFree == 0 {
		return nil
	}
	free, err := s.cfg.Free()
	if err == nil && free < s.cfg.MinFree {
		err = unavailable("the disk is nearly full, so the sandbox accepts no changes: try again later", touchEvery)
	}
	return err
}

// charge records the usage of the visitor's request, even if the caller has disconnected or the
// tenant was dropped meanwhile. A failure is logged, and only makes the budget inexact.
func (s *budget) charge(ctx context.Context, u usage) {
	v := visitorOf(ctx)
	ctx = context.WithoutCancel(ctx)
	err := s.db.Change(ctx, func(tx *store.Tx) error { return addUsage(ctx, tx, v.caller.TenantID, v.address, u) })
	if err != nil {
		s.cfg.Logger.Error("cannot record the disk usage of a visitor of the sandbox", "tenantId", v.caller.TenantID, "err", err)
	}
}

// unavailable is a 503 for lack of space, with Retry-After wait; 0 if waiting does not help.
func unavailable(message string, wait time.Duration) *Error {
	e := refusal(http.StatusServiceUnavailable, HandlerError, string(api.InternalError)+": "+message)
	e.retryAfter = wait
	return e
}

// keptBy is what a tenant keeps outside the log.
func keptBy(ctx context.Context, q store.Querier, tenantID string) (int64, error) {
	n, err := store.One(ctx, q, "the disk usage of the tenant "+tenantID, func(row store.Row) (n int64, err error) {
		return n, row.Scan(&n)
	}, `SELECT kept_bytes FROM sandbox_tenants WHERE tenant_id = $1`, tenantID)
	if n == nil {
		return 0, err
	}
	return *n, nil
}

// addUsage charges the tenant, if it still exists, and the address.
func addUsage(ctx context.Context, tx *store.Tx, tenantID, address string, u usage) error {
	if _, err := tx.ExecContext(ctx, `UPDATE sandbox_tenants SET kept_bytes = kept_bytes + $2 WHERE tenant_id = $1`, tenantID, u.kept); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO sandbox_log (address, hour, bytes) VALUES ($1, $2, $3)
		ON CONFLICT (address, hour) DO UPDATE SET bytes = sandbox_log.bytes + excluded.bytes`, address, store.At(tx.Now().Truncate(time.Hour)), u.log)
	return err
}

// hourly is what was written to the log within an hour.
type hourly struct {
	hour  store.Instant // its beginning
	bytes int64
}

func sumOf(log []hourly) (bytes int64) {
	for _, h := range log {
		bytes += h.bytes
	}
	return bytes
}

// logged lists what the log still has from an address, or from all if it is empty, oldest first.
func (s *budget) logged(ctx context.Context, q store.Querier, address string) ([]hourly, error) {
	return store.List(ctx, q, "the visitors' usage of the log", func(row store.Row) (h hourly, err error) {
		return h, row.Scan(&h.hour, &h.bytes)
	}, `SELECT hour, CAST(SUM(bytes) AS BIGINT) FROM sandbox_log WHERE hour > $1 AND ($2 = '' OR address = $2) GROUP BY hour ORDER BY hour`,
		s.expired(), address)
}

// expired is the latest hour of which the log has nothing left.
func (s *budget) expired() store.Instant {
	return store.At(s.db.Now().Add(-s.cfg.LogKeep - time.Hour))
}

// untilLeft is how long it takes until the log has deleted that many bytes.
func (s *budget) untilLeft(log []hourly, bytes int64) time.Duration {
	var last store.Instant
	for _, h := range log {
		last = h.hour
		if bytes -= h.bytes; bytes <= 0 {
			break
		}
	}
	return last.Sub(s.expired().Time)
}

// forgetLogged deletes the counts of what the log no longer has.
func (s *budget) forgetLogged(ctx context.Context) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sandbox_log WHERE hour <= $1`, s.expired())
		return err
	})
}
