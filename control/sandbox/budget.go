package sandbox

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
)

// # The budget
//
// Strangers decide how much is appended, loaded and sealed here. Config.Bytes bounds what
// all of it takes on disk, and a tenant may take a part of that alone, or one visitor would
// close the sandbox to all others. Whoever would take more is refused with 503, as is every
// visitor while the disk has less than Config.MinFree left: the sandbox stops before
// anything else has to.
//
// It is an estimate, by sizes that were measured: of what was written, when it was
// written. What requests that are in hand write comes on top. A tenant that is dropped
// gives back what it took, but for what the log holds of it until that lets go of it.

const (
	defaultBytes   = 1 << 30
	defaultLogKeep = 7 * 24 * time.Hour
	// budgetParts is how many tenants there may be that take all they may.
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

// usageOfChange is what a change of state takes, of which the answer tells the record: it
// stands in the database, in the feed, and in an event.
func usageOfChange(answer int) usage { return usage{512 + int64(answer), 2048 + 4*int64(answer)} }

// usageOfSeed is what a tenant takes from the beginning.
var usageOfSeed = usage{12 << 10, 64 << 10}

// admit refuses a visitor who would take more than there is. It drops idle tenants before.
func (r *Room) admit(ctx context.Context, more usage) error {
	if err := r.hasSpace(); err != nil {
		return err
	}
	own, err := usageOf(ctx, r.db.Read(), visitorOf(ctx).caller.TenantID)
	if err != nil {
		return err
	}
	if own.sum()+more.sum() > r.cfg.Bytes/budgetParts {
		return unavailable("the tenant has taken all the room that a visitor gets: POST /api/sandbox/reset makes it anew")
	}
	return r.makeRoom(ctx, func(ctx context.Context) (bool, error) { return r.affords(ctx, r.db.Read(), more) })
}

// hasSpace refuses while the disk has too little left.
func (r *Room) hasSpace() error {
	if r.cfg.MinFree == 0 {
		return nil
	}
	free, err := r.cfg.Free()
	if err == nil && free < r.cfg.MinFree {
		err = unavailable("the disk is nearly full, the sandbox takes nothing more: ask again later")
	}
	return err
}

// affords says whether the budget of all tenants has room for more.
func (r *Room) affords(ctx context.Context, q store.Querier, more usage) (bool, error) {
	taken, err := totalUsage(ctx, q)
	return taken+more.sum() <= r.cfg.Bytes, err
}

// charge writes down what the visitor's request took, whether or not anybody waits for the
// answer, or the tenant was dropped under it: then what it took in the log counts. What
// can't be written down is lost to the budget alone, and told to the log.
func (r *Room) charge(ctx context.Context, u usage) {
	tenantID := visitorOf(ctx).caller.TenantID
	ctx = context.WithoutCancel(ctx)
	err := r.db.Change(ctx, func(tx *store.Tx) error {
		there, err := addUsage(ctx, tx, tenantID, u)
		if err == nil && !there {
			err = leaveInLog(ctx, tx, u.log)
		}
		return err
	})
	if err != nil {
		r.cfg.Logger.Error("cannot count what a visitor of the sandbox took", "tenantId", tenantID, "err", err)
	}
}

// unavailable is a 503 for want of room.
func unavailable(message string) *Error {
	return said{Code: api.InternalError, Message: message}.refused(http.StatusServiceUnavailable, touchEvery)
}

func usageOf(ctx context.Context, q store.Querier, tenantID string) (usage, error) {
	u, err := store.One(ctx, q, "what the tenant "+tenantID+" takes", func(row store.Row) (u usage, err error) {
		return u, row.Scan(&u.log, &u.kept)
	}, `SELECT log_bytes, kept_bytes FROM sandbox_tenants WHERE tenant_id = $1`, tenantID)
	if u == nil {
		return usage{}, err
	}
	return *u, nil
}

func totalUsage(ctx context.Context, q store.Querier) (bytes int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT CAST(COALESCE((SELECT SUM(log_bytes + kept_bytes) FROM sandbox_tenants), 0)
		+ COALESCE((SELECT SUM(bytes) FROM sandbox_left), 0) AS BIGINT)`).Scan(&bytes)
	if err != nil {
		err = fmt.Errorf("cannot sum up what the sandbox takes: %w", err)
	}
	return bytes, err
}

// addUsage says whether there is such a tenant.
func addUsage(ctx context.Context, tx *store.Tx, tenantID string, u usage) (there bool, err error) {
	result, err := tx.ExecContext(ctx, `UPDATE sandbox_tenants SET log_bytes = log_bytes + $2, kept_bytes = kept_bytes + $3 WHERE tenant_id = $1`,
		tenantID, u.log, u.kept)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// leaveInLog takes note of what a tenant that is dropped leaves in the log.
func leaveInLog(ctx context.Context, tx *store.Tx, bytes int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sandbox_left (hour, bytes) VALUES ($1, $2)
		ON CONFLICT (hour) DO UPDATE SET bytes = sandbox_left.bytes + excluded.bytes`, store.Millis(tx.Now().Truncate(time.Hour)), bytes)
	return err
}

// forgetLeft forgets what the log holds no more.
func (r *Room) forgetLeft(ctx context.Context) error {
	until := store.Millis(r.db.Now().Add(-r.cfg.LogKeep - time.Hour))
	return r.db.Change(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sandbox_left WHERE hour <= $1`, until)
		return err
	})
}
