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
// Visitors decide how much the sandbox appends, loads and seals. Two numbers limit it, over all
// processes: Config.MaxTenants, and Config.Events, which are those that visitors have caused and
// the log still has. An address may cause a 64th of these, however many tenants it creates;
// otherwise one visitor could close the sandbox to all others. An event takes about 4 KB in log,
// warehouse, packs and database. One of a change with the longest scope takes about 85 KB, and counts
// as 21 (weight): so 400,000 take about 1.6 GB at most, whatever visitors write. While the disk has
// less than Config.MinFree left every visitor is refused: the sandbox stops before other parts of the
// service have to.
//
// Events are counted when they are in the log. Requests in flight are not counted yet. An address
// is stored as a hash under the secret of the cookies, so replacing the secret resets the counts.

const (
	budgetEvents   = 400_000
	defaultLogKeep = 7 * 24 * time.Hour
	// budgetParts is the number of parts of the budget.
	budgetParts = 64
	// seedEvents is how many events a tenant has whatever its visitor does: those of its seed, and the one of
	// its end.
	seedEvents = 12
	// usualBytes is the longest record that counts as one event; each extraBytes beyond it count as one
	// more, as they take as much space as a usual event: they are kept several times, in several forms.
	usualBytes = 2 << 10
	extraBytes = 750
)

// weight is how many events a change or delivery counts as whose record, as JSON, has that many bytes.
func weight(bytes int) int { return 1 + max(0, bytes-usualBytes)/extraBytes }

// budget admits what visitors write, and drops idle tenants to make space for it.
type budget struct {
	*core
	undroppedLogged atomic.Int64 // Unix milliseconds of the last line by logUndropped
}

// admit refuses a visitor who may not cause that many events now. Retry-After is the time until the
// log has deleted enough.
func (s *budget) admit(ctx context.Context, events int) error {
	if err := s.diskHasSpace(); err != nil {
		return err
	}
	own, err := s.caused(ctx, visitorOf(ctx).address)
	if err != nil {
		return err
	}
	if wait := s.untilLeft(own, int64(events), s.cfg.Events/budgetParts); wait > 0 {
		e := limited(max(wait, time.Second))
		e.Message = "this IP address has caused all the events that an address may"
		return e
	}
	all, err := s.caused(ctx, "")
	if err != nil {
		return err
	}
	if wait := s.untilLeft(all, int64(events), s.cfg.Events); wait > 0 {
		return full(wait)
	}
	return nil
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

// count records the events that the visitor's request has caused, even if the caller has
// disconnected or the tenant was dropped meanwhile. A failure is logged, and only makes the budget
// inexact.
func (s *budget) count(ctx context.Context, events int) {
	v := visitorOf(ctx)
	ctx = context.WithoutCancel(ctx)
	err := s.db.Change(ctx, func(tx *store.Tx) error { return addEvents(ctx, tx, v.address, events) })
	if err != nil {
		s.cfg.Logger.Error("cannot count the events of a visitor of the sandbox", "tenantId", v.caller.TenantID, "err", err)
	}
}

// unavailable is a 503 for lack of space, with Retry-After wait.
func unavailable(message string, wait time.Duration) *Error {
	e := refusal(http.StatusServiceUnavailable, HandlerError, string(api.InternalError)+": "+message)
	e.retryAfter = wait
	return e
}

// full is a 503 until there is a place or events are left.
func full(wait time.Duration) *Error {
	return unavailable("the sandbox is full: try again later", max(wait, touchEvery))
}

func addEvents(ctx context.Context, tx *store.Tx, address string, events int) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sandbox_events (address, hour, events) VALUES ($1, $2, $3)
		ON CONFLICT (address, hour) DO UPDATE SET events = sandbox_events.events + excluded.events`, address, store.At(tx.Now().Truncate(time.Hour)), events)
	return err
}

// hourly is how many events were caused within an hour.
type hourly struct {
	hour   store.Instant // its beginning
	events int64
}

// caused lists what the log still has from an address, or from all if it is empty, oldest first.
func (s *budget) caused(ctx context.Context, address string) ([]hourly, error) {
	return store.List(ctx, s.db.Read(), "the visitors' events", func(row store.Row) (h hourly, err error) {
		return h, row.Scan(&h.hour, &h.events)
	}, `SELECT hour, CAST(SUM(events) AS BIGINT) FROM sandbox_events WHERE hour > $1 AND ($2 = '' OR address = $2) GROUP BY hour ORDER BY hour`,
		s.expired(), address)
}

// expired is the latest hour of which the log has nothing left.
func (s *budget) expired() store.Instant {
	return store.At(s.db.Now().Add(-s.cfg.LogKeep - time.Hour))
}

// untilLeft is how long it takes until the log has deleted so many that more fit into a limit; 0 if
// they do now.
func (s *budget) untilLeft(counts []hourly, more, limit int64) time.Duration {
	excess := more - limit
	for _, h := range counts {
		excess += h.events
	}
	if excess <= 0 {
		return 0
	}
	var last store.Instant
	for _, h := range counts {
		last = h.hour
		if excess -= h.events; excess <= 0 {
			break
		}
	}
	return max(last.Sub(s.expired().Time), 1)
}

// forgetExpired deletes the counts of what the log no longer has.
func (s *budget) forgetExpired(ctx context.Context) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sandbox_events WHERE hour <= $1`, s.expired())
		return err
	})
}
