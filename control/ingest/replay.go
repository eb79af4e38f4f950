package ingest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
)

// ReplayJob is the kind of the jobs that deliver a tenant's held rows that a mapping covers.
// It goes on until there are none: no number of failed attempts ends it, but the rows' own end.
const ReplayJob = "ingest.replay"

// ReplayAttempts is how often it is begun at most: more than a row's wait has time for.
const ReplayAttempts = 1 << 20

func replayJob(tenantID string) store.NewJob {
	return store.NewJob{Kind: ReplayJob, TenantID: tenantID, Key: tenantID, Payload: struct{}{}}
}

const (
	// replayAtOnce is how many rows a node delivers in one wait.
	replayAtOnce = 200
	// replayMargin keeps rows from being delivered while they expire.
	replayMargin = 5 * time.Minute
	// applyPause and applyTries are how the job waits for its node to hear of a mapping.
	applyPause = 100 * time.Millisecond
	applyTries = 50
)

var errNotApplied = errors.New("the node that delivers held rows does not know their mapping yet")

// Replay does a job of the kind ReplayJob.
func (r *Room) Replay(ctx context.Context, job *store.Job) error {
	for range applyTries {
		left, err := r.replay(ctx, job)
		if err != nil || !left {
			return err
		}
		t := time.NewTimer(applyPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
	return errNotApplied
}

// replay goes through the tenant's held rows once. left says that the node did not know the
// mapping of some.
func (r *Room) replay(ctx context.Context, job *store.Job) (left bool, err error) {
	for behind := ""; ; {
		until := store.At(r.db.Now().Add(replayMargin))
		rows, err := listMapped(ctx, r.db.Read(), job.TenantID, behind, until, replayAtOnce)
		if err != nil || len(rows) == 0 {
			return left, err
		}
		behind = rows[len(rows)-1].ID
		// Of each key the rows stand as they came.
		slices.SortStableFunc(rows, func(a, b HeldRow) int { return strings.Compare(a.keyID, b.keyID) })
		for len(rows) > 0 {
			n := 1
			for n < len(rows) && rows[n].keyID == rows[0].keyID {
				n++
			}
			unmapped, err := r.deliver(ctx, job, rows[:n])
			if err != nil {
				return left, err
			}
			left, rows = left || unmapped, rows[n:]
		}
	}
}

// deliver delivers rows of one key, and writes down what became of each. What it can't tell of
// is left for the next attempt, which finds the same rows: their identities make them the same
// deliveries.
func (r *Room) deliver(ctx context.Context, job *store.Job, rows []HeldRow) (unmapped bool, err error) {
	texts := make([][]byte, len(rows))
	for i := range rows {
		texts[i] = rows[i].whole()
	}
	all, err := r.cfg.Deliver(ctx, job.TenantID, rows[0].keyID, texts)
	if refused, ok := errors.AsType[*api.Error](err); ok && !again(refused) {
		all, err = slices.Repeat([]Delivered{{Err: refused}}, len(rows)), nil
	}
	if err == nil && len(all) != len(rows) {
		err = fmt.Errorf("the node answers for %d rows of %d", len(all), len(rows))
	}
	if err != nil {
		return false, fmt.Errorf("cannot deliver held rows of %s: %w", job.TenantID, err)
	}
	var done []ended
	var failed error
	for i, d := range all {
		e := ended{id: rows[i].ID, state: Replayed, receiptID: d.ReceiptID}
		switch {
		case d.Unmapped:
			unmapped = true
			continue
		case d.Err != nil && again(d.Err):
			failed = d.Err
			continue
		case d.Err != nil:
			e.refused = rowError(d.Err)
		}
		done = append(done, e)
	}
	if len(done) > 0 {
		err = r.db.Aside(ctx, func(tx *sql.Tx) error {
			if err := job.Hold(ctx, tx); err != nil {
				return err
			}
			return end(ctx, tx, job.TenantID, done, store.At(r.db.Now()))
		})
	}
	if err == nil && failed != nil {
		err = fmt.Errorf("cannot deliver held rows of %s: %w", job.TenantID, failed)
	}
	return unmapped, err
}

// again says whether a row that was refused may be accepted a moment later.
func again(refused *api.Error) bool {
	status := refused.GetStatus()
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// dueAtOnce is how many rows one transaction ends or forgets.
const dueAtOnce = 200

// Expire ends the wait of rows that are too old to be delivered, and forgets those that have
// waited no more for a while.
func (r *Room) Expire(ctx context.Context) error {
	now := store.At(r.db.Now())
	err := r.sweep(ctx, Held, now, func(tx *sql.Tx, tenantID string, ids []string) error {
		rows := make([]ended, 0, len(ids))
		for _, id := range ids {
			rows = append(rows, ended{id: id, state: Expired})
		}
		return end(ctx, tx, tenantID, rows, now)
	})
	for _, state := range []HeldState{Replayed, Expired} {
		err = errors.Join(err, r.sweep(ctx, state, now, func(tx *sql.Tx, tenantID string, ids []string) error {
			for _, id := range ids {
				if _, err := tx.ExecContext(ctx, `DELETE FROM held_rows WHERE tenant_id = $1 AND held_id = $2 AND state = $3`, tenantID, id, state); err != nil {
					return fmt.Errorf("cannot forget the held row %s: %w", id, err)
				}
			}
			return nil
		}))
	}
	return err
}

// sweep has fn deal with all rows of a state that are due, by tenants.
func (r *Room) sweep(ctx context.Context, state HeldState, now store.Instant, fn func(tx *sql.Tx, tenantID string, ids []string) error) error {
	for {
		rows, err := listDue(ctx, r.db.Read(), state, now, dueAtOnce)
		if err != nil || len(rows) == 0 {
			return err
		}
		byTenant := map[string][]string{}
		for _, d := range rows {
			byTenant[d.tenantID] = append(byTenant[d.tenantID], d.id)
		}
		for tenantID, ids := range byTenant {
			if err := r.db.Aside(ctx, func(tx *sql.Tx) error { return fn(tx, tenantID, ids) }); err != nil {
				return err
			}
		}
	}
}
