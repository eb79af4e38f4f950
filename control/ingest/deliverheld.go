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

// ReplayJob is the kind of the jobs that deliver a tenant's held rows that a mapping covers. A job
// runs until there are none: failed attempts don't end it, since rows expire.
const ReplayJob = "ingest.replay"

// ReplayAttempts bounds the attempts of a ReplayJob. It exceeds the number of attempts that fit in
// the time until rows expire.
const ReplayAttempts = 1 << 20

func replayJob(tenantID string) store.NewJob {
	return store.NewJob{Kind: ReplayJob, TenantID: tenantID, Key: tenantID, Payload: struct{}{}}
}

const (
	// replayAtOnce is how many rows one call to Deliver has.
	replayAtOnce = 200
	// replayMargin excludes rows that are about to expire, or whose key is.
	replayMargin = 5 * time.Minute
	// applyTries and applyPause bound how long the job waits for its node to apply a mapping.
	applyPause = 100 * time.Millisecond
	applyTries = 50
)

var errNotApplied = errors.New("the node that delivers held rows has not applied their mapping yet")

// Replay runs a job of the kind ReplayJob.
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

// replay delivers the tenant's mapped held rows once. left reports that the node had not applied the
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
			// All earlier rows are delivered.
			left, behind, rows = left || unmapped != "", max(behind, unmapped), rows[n:]
		}
	}
}

// deliver delivers rows of one key, and records the result of each. Rows without a result stay for
// the next attempt; their identities make them the same deliveries. unmapped is the last vendor key
// whose mapping the node has not applied.
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
		err = fmt.Errorf("the node returned %d results for %d rows", len(all), len(rows))
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

// again reports whether a refused row may be accepted later.
func again(refused *api.Error) bool {
	status := refused.GetStatus()
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// dueAtOnce is how many rows one transaction expires or deletes.
const dueAtOnce = 200

// Expire expires rows that are too old to be delivered, and deletes rows that ended keepEnded ago.
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

// sweep calls fn with all due rows of a state, tenant by tenant.
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
