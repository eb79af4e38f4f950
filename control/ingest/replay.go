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
	"muniment/control/tenant"
	"muniment/gateway/api"
)

// ReplayJob is the kind of the jobs that deliver a tenant's held rows that a mapping covers. It
// runs until there are none: failed attempts do not end it, only the end of the rows' wait.
const ReplayJob = "ingest.replay"

// ReplayAttempts is how often it is begun at most: more than a row's wait has time for.
const ReplayAttempts = 1 << 20

func replayJob(tenantID string) store.NewJob {
	return store.NewJob{Kind: ReplayJob, TenantID: tenantID, Key: tenantID, Payload: struct{}{}}
}

const (
	// replayAtOnce is how many rows a node delivers in one wait.
	replayAtOnce = 200
	// replayMargin keeps rows from being delivered while they expire, or their key does.
	replayMargin = 5 * time.Minute
	// applyPause and applyTries are how the job waits for its node to apply a mapping.
	applyPause = 100 * time.Millisecond
	applyTries = 50
)

var errNotApplied = errors.New("the node that delivers held rows does not know their mapping yet")

// Replay does a job of the kind ReplayJob.
func (s *Service) Replay(ctx context.Context, job *store.Job) error {
	for range applyTries {
		left, err := s.replay(ctx, job)
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
func (s *Service) replay(ctx context.Context, job *store.Job) (left bool, err error) {
	for behind := ""; ; {
		until := store.At(s.db.Now().Add(replayMargin))
		rows, err := listMapped(ctx, s.db.Read(), job.TenantID, behind, until, replayAtOnce)
		if err != nil || len(rows) == 0 {
			return left, err
		}
		slices.SortStableFunc(rows, func(a, b HeldRow) int { return strings.Compare(a.keyID, b.keyID) })
		for len(rows) > 0 {
			n := 1
			for n < len(rows) && rows[n].keyID == rows[0].keyID {
				n++
			}
			unmapped, err := s.deliver(ctx, job, rows[:n])
			if err != nil {
				return left, err
			}
			// All rows that are before those are delivered.
			left, behind, rows = left || unmapped != "", max(behind, unmapped), rows[n:]
		}
	}
}

// deliver delivers rows of one key, and records the result of each. Rows without a result are left
// for the next attempt: their identities make them the same deliveries. unmapped is the last vendor
// key whose mapping the node does not know.
func (s *Service) deliver(ctx context.Context, job *store.Job, rows []HeldRow) (unmapped string, err error) {
	texts := make([][]byte, len(rows))
	for i := range rows {
		texts[i] = rows[i].whole()
	}
	keyID, err := tenant.KeyInForce(ctx, s.db.Read(), rows[0].keyID, s.db.Now().Add(replayMargin))
	if err != nil {
		return "", err
	}
	all, err := s.cfg.Deliver(ctx, job.TenantID, keyID, texts)
	if refused, ok := errors.AsType[*api.Error](err); ok && !again(refused) {
		all, err = slices.Repeat([]Delivered{{Err: refused}}, len(rows)), nil
	}
	if err == nil && len(all) != len(rows) {
		err = fmt.Errorf("the node answers for %d rows of %d", len(all), len(rows))
	}
	if err != nil {
		return "", fmt.Errorf("cannot deliver held rows of %s: %w", job.TenantID, err)
	}
	var done []ended
	var failed error
	for i, d := range all {
		e := ended{id: rows[i].ID, state: Replayed, receiptID: d.ReceiptID}
		switch {
		case d.Unmapped:
			unmapped = max(unmapped, rows[i].vendorKey)
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
		err = s.db.Transact(ctx, func(tx *sql.Tx) error {
			if err := job.Hold(ctx, tx); err != nil {
				return err
			}
			return end(ctx, tx, job.TenantID, done, store.At(s.db.Now()))
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

// Expire ends the wait of rows that are too old to be delivered, and deletes those whose wait ended
// long ago.
func (s *Service) Expire(ctx context.Context) error {
	now := store.At(s.db.Now())
	err := s.sweep(ctx, Held, now, func(tx *sql.Tx, tenantID string, ids []string) error {
		rows := make([]ended, 0, len(ids))
		for _, id := range ids {
			rows = append(rows, ended{id: id, state: Expired})
		}
		return end(ctx, tx, tenantID, rows, now)
	})
	for _, state := range []HeldState{Replayed, Expired} {
		err = errors.Join(err, s.sweep(ctx, state, now, func(tx *sql.Tx, tenantID string, ids []string) error {
			for _, id := range ids {
				if err := forget(ctx, tx, tenantID, id); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	return err
}

// sweep has fn deal with all rows of a state that are due, by tenants.
func (s *Service) sweep(ctx context.Context, state HeldState, now store.Instant, fn func(tx *sql.Tx, tenantID string, ids []string) error) error {
	for {
		rows, err := listDue(ctx, s.db.Read(), state, now, dueAtOnce)
		if err != nil || len(rows) == 0 {
			return err
		}
		byTenant := map[string][]string{}
		for _, d := range rows {
			byTenant[d.tenantID] = append(byTenant[d.tenantID], d.id)
		}
		for tenantID, ids := range byTenant {
			if err := s.db.Transact(ctx, func(tx *sql.Tx) error { return fn(tx, tenantID, ids) }); err != nil {
				return err
			}
		}
	}
}
