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

	"muniment.example/control/right"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// ReplayJob is the kind of the jobs that deliver a tenant's held rows that a mapping covers, or whose
// right is no longer suspended. A job runs until there are none: failed attempts don't end it, since
// rows expire.
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
	// replayMargin is longer than a delivery takes: a row expires so much later than its last delivery
	// may begin, so that none expires that has a receipt, and a key must be in force so much longer.
	replayMargin = 5 * time.Minute
	// deliverFor is how long after rows were read the node may issue their receipts: an erasure that began
	// meanwhile still covers these.
	deliverFor = api.ClockSlack / 2
	// applyTries and applyPause bound how long the job waits for its node to apply a mapping or a
	// resumption.
	applyPause = 100 * time.Millisecond
	applyTries = 50
)

var errNotApplied = errors.New("the node that delivers held rows has not applied their mapping, or the resumption of their right, yet")

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

// replay delivers once the tenant's held rows that a mapping covers, and those whose right is no longer
// suspended. left reports that some have to be tried again: the node has not applied the mapping or
// the resumption, or the row waits for something else now.
func (s *Service) replay(ctx context.Context, job *store.Job) (left bool, err error) {
	left, failed := s.replayMapped(ctx, job)
	for of := (suspendedRight{tenantID: job.TenantID}); ctx.Err() == nil && !errors.Is(failed, store.ErrStale); {
		next, err := nextSuspended(ctx, s.db.Read(), of)
		if err != nil || next == nil || next.tenantID != job.TenantID {
			return left, errors.Join(failed, err)
		}
		of = *next
		resumed, err := s.replayResumed(ctx, job, of)
		left, failed = left || resumed, errors.Join(failed, err) // which delays no other right
	}
	return left, errors.Join(failed, ctx.Err())
}

// replayMapped is replay for the rows that a mapping covers.
func (s *Service) replayMapped(ctx context.Context, job *store.Job) (left bool, err error) {
	invalid := map[string]bool{}
	for behind := ""; ; {
		until, read := store.At(s.db.Now()), time.Now()
		rows, err := listMapped(ctx, s.db.Read(), job.TenantID, behind, invalid, until, replayAtOnce)
		if err != nil || len(rows) == 0 {
			return left, err
		}
		kept, wait, err := s.deliverAll(ctx, job, rows, invalid, read.Add(deliverFor))
		if err != nil {
			return left, err
		}
		left = left || wait
		for _, h := range kept { // all earlier rows are delivered
			behind = max(behind, h.vendorKey)
		}
	}
}

// replayResumed is replay for the rows of a right.
func (s *Service) replayResumed(ctx context.Context, job *store.Job, of suspendedRight) (left bool, err error) {
	invalid := map[string]bool{}
	for behind := ""; ; {
		waits, err := right.Waits(ctx, s.db.Read(), of.tenantID, of.rightID)
		if err != nil || waits {
			return left, err
		}
		until, read := store.At(s.db.Now()), time.Now()
		rows, err := listSuspended(ctx, s.db.Read(), of, behind, until, replayAtOnce)
		if err != nil || len(rows) == 0 {
			return left, err
		}
		behind = rows[len(rows)-1].ID
		_, wait, err := s.deliverAll(ctx, job, rows, invalid, read.Add(deliverFor))
		if err != nil {
			return left, err
		}
		left = left || wait
	}
}

// deliverAll delivers rows, those of one key at a time. Its results are those of deliver.
func (s *Service) deliverAll(ctx context.Context, job *store.Job, rows []HeldRow, invalid map[string]bool, by time.Time) (kept []HeldRow, left bool, err error) {
	slices.SortStableFunc(rows, func(a, b HeldRow) int { return strings.Compare(a.keyID, b.keyID) })
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].keyID == rows[0].keyID {
			n++
		}
		some, wait, err := s.deliver(ctx, job, rows[:n], invalid, by)
		if err != nil {
			return nil, false, err
		}
		kept, left, rows = append(kept, some...), left || wait, rows[n:]
	}
	return kept, left, nil
}

// deliver delivers rows of one key, and records the result of each, or what it waits for now. Rows
// without a result stay for the next attempt; their identities make them the same deliveries. kept are
// those of which the node says that they still wait; left is true then. A key that is not valid is added
// to invalid: that is no result of its rows, which stay HELD and expire, with their event.
func (s *Service) deliver(ctx context.Context, job *store.Job, rows []HeldRow, invalid map[string]bool, by time.Time) (kept []HeldRow, left bool, err error) {
	deliveries := make([]Delivery, len(rows))
	for i := range rows {
		deliveries[i] = Delivery{rows[i].whole(), rows[i].identity}
	}
	keyID, err := tenant.KeyInForce(ctx, s.db.Read(), rows[0].keyID, s.db.Now().Add(replayMargin))
	if err != nil {
		return nil, false, err
	}
	within, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	all, err := s.cfg.Deliver(within, job.TenantID, keyID, deliveries)
	refused, ok := errors.AsType[*api.Error](err)
	switch {
	case ok && refused.GetStatus() == http.StatusUnauthorized:
		invalid[rows[0].keyID] = true
		return nil, false, nil
	case ok && !again(refused):
		all, err = slices.Repeat([]Delivered{{Err: refused}}, len(rows)), nil
	}
	if err == nil && len(all) != len(rows) {
		err = fmt.Errorf("the node returned %d results for %d rows", len(all), len(rows))
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot deliver held rows of %s: %w", job.TenantID, err)
	}
	var done []endedRow
	moved := map[int]waitsFor{}
	var failed error
	for i, d := range all {
		e := endedRow{id: rows[i].ID, state: Replayed, receiptID: d.ReceiptID}
		switch now := d.waitsFor(); {
		case now.reason != "":
			kept = append(kept, rows[i])
			if now != (waitsFor{rows[i].Reason, rows[i].rightID()}) {
				moved[i] = now
			}
			continue
		case d.Err != nil && again(d.Err):
			failed = d.Err
			continue
		case d.Err != nil:
			e.refused = rowError(d.Err)
		}
		done = append(done, e)
	}
	if len(done)+len(moved) > 0 {
		err = s.db.Transact(ctx, func(tx *sql.Tx) error {
			if err := job.Hold(ctx, tx); err != nil {
				return err
			}
			if err := end(ctx, tx, job.TenantID, done, store.At(s.db.Now())); err != nil { // which locks the usage
				return err
			}
			for i, now := range moved {
				if err := wait(ctx, tx, &rows[i], now.reason, now.rightID); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil && failed != nil {
		err = fmt.Errorf("cannot deliver held rows of %s: %w", job.TenantID, failed)
	}
	return kept, len(kept) > 0, err
}

// waitsFor is what a row waits for; without a reason, for nothing.
type waitsFor struct {
	reason  api.HeldReason
	rightID string
}

func (d *Delivered) waitsFor() waitsFor {
	switch {
	case d.Unmapped:
		return waitsFor{reason: api.HeldUnmapped}
	case d.SuspendedRightID != "":
		return waitsFor{api.HeldRightSuspended, d.SuspendedRightID}
	}
	return waitsFor{}
}

// Wake queues the delivery of rows whose right is no longer suspended, or is revoked, which refuses
// them.
func (s *Service) Wake(ctx context.Context) error {
	for of := (suspendedRight{}); ; {
		next, err := nextSuspended(ctx, s.db.Read(), of)
		if err != nil || next == nil {
			return err
		}
		of = *next
		waits, err := right.Waits(ctx, s.db.Read(), of.tenantID, of.rightID)
		if err != nil {
			return err
		}
		if waits {
			continue
		}
		if _, err := s.db.Jobs.Enqueue(ctx, replayJob(of.tenantID)); err != nil {
			return err
		}
		of.rightID = behindRights // the job is for all rights of the tenant
	}
}

// behindRights follows every id of a right.
const behindRights = string(api.PrefixRight) + "~"

// again reports whether a refused row may be accepted later.
func again(refused *api.Error) bool {
	status := refused.GetStatus()
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// dueAtOnce is how many rows one transaction expires or deletes.
const dueAtOnce = 200

// Expire expires rows that are too old to be delivered, with an event each, and deletes rows that ended
// keepEnded ago.
func (s *Service) Expire(ctx context.Context) error {
	now := store.At(s.db.Now())
	err := s.sweep(ctx, Held, store.At(now.Add(-replayMargin)), func(tenantID string, ids []string) error {
		return s.db.Change(ctx, func(tx *store.Tx) error { return expire(ctx, tx, tenantID, ids, now) })
	})
	for _, state := range []HeldState{Replayed, Expired} {
		err = errors.Join(err, s.sweep(ctx, state, now, func(tenantID string, ids []string) error {
			return s.db.Transact(ctx, func(tx *sql.Tx) error {
				for _, id := range ids {
					if err := forget(ctx, tx, tenantID, id); err != nil {
						return err
					}
				}
				return nil
			})
		}))
	}
	return err
}

// expire expires those of some rows that are HELD.
func expire(ctx context.Context, tx *store.Tx, tenantID string, ids []string, now store.Instant) error {
	if _, err := lockUsage(ctx, tx, tenantID); err != nil { // no other change ends them meanwhile
		return err
	}
	rows := make([]endedRow, 0, len(ids))
	for _, id := range ids {
		h, err := store.One(ctx, tx, "the held row "+id, scanHeld, `SELECT `+heldColumns+` FROM held_rows WHERE tenant_id = $1 AND held_id = $2 AND state = 'HELD'`, tenantID, id)
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		rows = append(rows, endedRow{id: id, state: Expired})
		e := sealer.Event{TenantID: tenantID, At: now.Time, Actor: store.BySystem(), Subject: sealer.Ref{Kind: "held_row", ID: id}}
		if err := tx.EmitRecord(ctx, eventExpired, e, ExpiredRow{h.ID, h.Reason, h.RightID, h.PlayedAt}); err != nil {
			return err
		}
	}
	return end(ctx, tx.Tx, tenantID, rows, now)
}

// sweep calls fn with all due rows of a state, tenant by tenant.
func (s *Service) sweep(ctx context.Context, state HeldState, now store.Instant, fn func(tenantID string, ids []string) error) error {
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
			if err := fn(tenantID, ids); err != nil {
				return err
			}
		}
	}
}
