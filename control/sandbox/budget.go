package sandbox

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
)

// # The budget
//
// Strangers decide how much is appended, loaded and sealed here. Config.Bytes bounds what
// all of it takes on disk: what tenants keep in warehouse, packs and database, until they
// are dropped, and what was put into the log, until that lets go of it after Config.LogKeep.
// A tenant may keep a 64th of it, and an address may put a 64th into the log, however many
// tenants it makes, or one visitor would close the sandbox to all others. A tenant or an
// address that would take more is refused, and so is every visitor while the disk has less
// than Config.MinFree left: the sandbox stops before anything else has to.
//
// It is an estimate, by sizes that were measured: of what was written, when it was written. What
// requests that are in hand write comes on top. An address is stored as a hash under the secret of
// the cookies, so replacing the secret resets the counts.

const (
	defaultBytes   = 1 << 30
	defaultLogKeep = 7 * 24 * time.Hour
	// budgetParts is the number of parts of the budget.
	budgetParts = 64
)

// usage is what something takes on disk, in bytes: in the log, and in warehouse, packs and
// database.
type usage struct{ log, kept int64 }

func (u usage) sum() int64 { return u.log + u.kept }

// usageOfDemo is what deliveries take, each with an event of about 1.2 KB, and their pack
// by the length of its header.
func usageOfDemo(deliveries, header int) usage {
	return usage{1024 + 1536*int64(deliveries), 4096 + 4096*int64(deliveries) + 2*int64(header)}
}

// usageOfChange is what a change of state takes, whose response has the record: it is in the
// database, in the feed, and in an event.
func usageOfChange(answer int) usage { return usage{512 + int64(answer), 2048 + 4*int64(answer)} }

// usageOfSeed is what a tenant takes from the beginning.
var usageOfSeed = usage{12 << 10, 64 << 10}

// budget admits what visitors write, and drops idle tenants for it.
type budget struct {
	*core
	undroppedLogged atomic.Int64 // in Unix milliseconds, when logUndropped did so last
}

// limit is what one tenant may keep, and what one address may put into the log.
func (s *budget) limit() int64 { return s.cfg.Bytes / budgetParts }

// admit refuses a visitor who would take more than there is. It drops idle tenants before.
func (s *budget) admit(ctx context.Context, more usage) error {
	if err := s.diskHasSpace(); err != nil {
		return err
	}
	kept, err := keptBy(ctx, s.db.Read(), visitorOf(ctx).caller.TenantID)
	if err != nil {
		return err
	}
	if kept+more.kept > s.limit() { // without Retry-After: waiting does not help
		return unavailable("the tenant has taken all the space that a visitor gets: POST /api/sandbox/reset starts over", 0)
	}
	if err := s.withinLogLimit(ctx, more.log); err != nil {
		return err
	}
	return s.makeSpace(ctx, claim{bytes: more.sum()})
}

// withinLogLimit refuses an address that would put more into the log than one may, and says when
// enough of it has left.
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
	e.Message = "this address has taken all the space in the log that an address gets"
	return e
}

// diskHasSpace refuses while the disk has too little left.
func (s *budget) diskHasSpace() error {
	if s.cfg.MinFree == 0 {
		return nil
	}
	free, err := s.cfg.Free()
	if err == nil && free < s.cfg.MinFree {
		err = unavailable("the disk is nearly full, the sandbox takes nothing more: try again later", touchEvery)
	}
	return err
}

// charge records what the visitor's request took, also if the caller is gone or the tenant was
// dropped meanwhile. A failure is logged, and only makes the budget inexact.
func (s *budget) charge(ctx context.Context, u usage) {
	v := visitorOf(ctx)
	ctx = context.WithoutCancel(ctx)
	err := s.db.Change(ctx, func(tx *store.Tx) error { return addUsage(ctx, tx, v.caller.TenantID, v.address, u) })
	if err != nil {
		s.cfg.Logger.Error("cannot count what a visitor of the sandbox took", "tenantId", v.caller.TenantID, "err", err)
	}
}

// unavailable is a 503 for lack of space. wait is how long to wait for some; 0 if waiting does
// not help.
func unavailable(message string, wait time.Duration) *Error {
	e := refusal(http.StatusServiceUnavailable, HandlerError, string(api.InternalError)+": "+message)
	e.retryAfter = wait
	return e
}

// keptBy is what a tenant takes elsewhere than in the log.
func keptBy(ctx context.Context, q store.Querier, tenantID string) (int64, error) {
	n, err := store.One(ctx, q, "what the tenant "+tenantID+" takes", func(row store.Row) (n int64, err error) {
		return n, row.Scan(&n)
	}, `SELECT kept_bytes FROM sandbox_tenants WHERE tenant_id = $1`, tenantID)
	if n == nil {
		return 0, err
	}
	return *n, nil
}

// addUsage charges the tenant, if it is still there, and the address.
func addUsage(ctx context.Context, tx *store.Tx, tenantID, address string, u usage) error {
	if _, err := tx.ExecContext(ctx, `UPDATE sandbox_tenants SET kept_bytes = kept_bytes + $2 WHERE tenant_id = $1`, tenantID, u.kept); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO sandbox_log (address, hour, bytes) VALUES ($1, $2, $3)
		ON CONFLICT (address, hour) DO UPDATE SET bytes = sandbox_log.bytes + excluded.bytes`, address, store.At(tx.Now().Truncate(time.Hour)), u.log)
	return err
}

// hourly is what was put into the log within an hour.
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

// logged lists what the log holds of an address, or of all if that is empty, the oldest first.
func (s *budget) logged(ctx context.Context, q store.Querier, address string) ([]hourly, error) {
	return store.List(ctx, q, "what visitors have put into the log", func(row store.Row) (h hourly, err error) {
		return h, row.Scan(&h.hour, &h.bytes)
	}, `SELECT hour, CAST(SUM(bytes) AS BIGINT) FROM sandbox_log WHERE hour > $1 AND ($2 = '' OR address = $2) GROUP BY hour ORDER BY hour`,
		s.letGo(), address)
}

// letGo is the latest hour of which the log holds nothing more.
func (s *budget) letGo() store.Instant { return store.At(s.db.Now().Add(-s.cfg.LogKeep - time.Hour)) }

// untilLeft is how long it takes until the log has let go of so many bytes.
func (s *budget) untilLeft(log []hourly, bytes int64) time.Duration {
	var last store.Instant
	for _, h := range log {
		last = h.hour
		if bytes -= h.bytes; bytes <= 0 {
			break
		}
	}
	return last.Sub(s.letGo().Time)
}

// forgetLogged forgets what the log holds no more.
func (s *budget) forgetLogged(ctx context.Context) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sandbox_log WHERE hour <= $1`, s.letGo())
		return err
	})
}
