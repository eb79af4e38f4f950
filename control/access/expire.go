package access

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// expireBatch is how many applications one change erases; other changes wait for it.
const expireBatch = 100

// Expire expires the applications that were not confirmed in time, and deletes those that are over, with
// an event of each that was open, what is left of them in the outbox, expired tokens, and windows of
// callers in which nothing counts any more. Any number of processes may run it.
func (s *Service) Expire(ctx context.Context) error {
	if err := s.callers.Forget(ctx); err != nil {
		return err
	}
	err := s.db.Transact(ctx, func(tx *sql.Tx) error { return forgetTokens(ctx, tx, s.db.Now()) })
	if err != nil {
		return fmt.Errorf("cannot forget activation tokens: %w", err)
	}
	if _, err := s.inBatches(ctx, listLate, expire); err != nil {
		return err
	}
	erased, err := s.inBatches(ctx, listDue, erase)
	if err != nil {
		return err
	}
	if erased {
		s.unscrubbed.Store(true)
	}
	if err := s.cleanOutbox(ctx); err != nil || !s.unscrubbed.Load() {
		return err
	}
	// Somebody's old transaction must not keep other applications from being erased: the next sweep tries again.
	ctx, cancel := context.WithTimeout(ctx, scrubTimeout)
	defer cancel()
	if err := s.db.Scrub(ctx, Tables, nil); err != nil {
		return err
	}
	s.unscrubbed.Store(false)
	return nil
}

// scrubTimeout is how long a sweep waits for transactions that still see what it has erased.
const scrubTimeout = 20 * time.Second

// inBatches calls do with each application of a list, a batch in one change, until the list is empty; did
// reports whether there were any. do takes it off the list.
func (s *Service) inBatches(ctx context.Context, list func(context.Context, store.Querier, time.Time, int) ([]Application, error), do func(context.Context, *store.Tx, *Application) error) (did bool, err error) {
	for {
		// It reads first, since other changes wait for a change.
		due, err := list(ctx, s.db.Read(), s.db.Now(), 1)
		if err != nil || len(due) == 0 {
			return did, err
		}
		err = s.db.Change(ctx, func(tx *store.Tx) error {
			due, err := list(ctx, tx, tx.Now(), expireBatch)
			for i := 0; i < len(due) && err == nil; i++ {
				err = do(ctx, tx, &due[i])
			}
			return err
		})
		if err != nil {
			return did, err
		}
		did = true
	}
}

// listLate lists the oldest applications that were not confirmed in time.
func listLate(ctx context.Context, q store.Querier, now time.Time, limit int) ([]Application, error) {
	return listUnconfirmed(ctx, q, now.Add(-confirmWithin), limit)
}

func expire(ctx context.Context, tx *store.Tx, a *Application) error {
	if _, err := applications.Move(ctx, tx, store.Move[Application, Action]{TenantID: api.SystemTenant, ID: a.ID, Action: Expire, By: store.BySystem()}); err != nil {
		return fmt.Errorf("cannot expire the application %s: %w", a.ID, err)
	}
	return nil
}

// erase expires an application that is still open, and deletes it.
func erase(ctx context.Context, tx *store.Tx, a *Application) error {
	if a.stateAt(store.At(tx.Now())) == Expired && a.State != Expired {
		if err := expire(ctx, tx, a); err != nil {
			return err
		}
	}
	if err := deleteApplication(ctx, tx, a.ID); err != nil {
		return fmt.Errorf("cannot erase the application %s: %w", a.ID, err)
	}
	return nil
}

// cleanOutbox removes the mails of applications that are not APPROVED any more.
func (s *Service) cleanOutbox(ctx context.Context) error {
	return s.cfg.Mails.Clean(prefixApplication, func(id string) (needed bool, err error) {
		a, err := find(ctx, s.db.Read(), id)
		if err != nil && store.IsNone(err) {
			return false, nil
		}
		return err == nil && a.State == Approved, err
	})
}
