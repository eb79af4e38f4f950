package proof

import (
	"context"
	"crypto/rand"
	"database/sql"
	"sync"
	"time"

	"muniment/control/store"
)

const (
	// turnTerm is how long a process that was killed keeps others from a tenant.
	turnTerm = 15 * time.Second
	// turnPoll is how often who waits for another process looks.
	turnPoll = 200 * time.Millisecond
	// turnEnd bounds the giving back.
	turnEnd = 3 * time.Second
)

// turns are the turns of this process among those that share the database.
type turns struct {
	db      *store.DB
	process string
	shared  bool // there may be others
}

func newTurns(db *store.DB) turns { return turns{db, rand.Text(), db.Shared()} }

// turn waits until nobody else is at work on the tenant, here or in another process. It
// only spares the work of two that would build the same pack, so one that ends too soon
// harms nothing.
func (r *Room) turn(ctx context.Context, tenantID string) (release func(), err error) {
	leave, err := r.sealing.acquire(ctx, tenantID)
	if err != nil || !r.turns.shared {
		return leave, err
	}
	if err := r.turns.await(ctx, tenantID); err != nil {
		leave()
		return nil, err
	}
	end := r.turns.keep(ctx, tenantID)
	return func() { end(); leave() }, nil
}

// await takes the turn as soon as no other process has it.
func (t turns) await(ctx context.Context, tenantID string) error {
	poll := time.NewTicker(turnPoll)
	defer poll.Stop()
	for {
		taken, err := t.take(context.WithoutCancel(ctx), tenantID) // also if there is no time to wait
		if err != nil || taken {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take takes the turn, or keeps it for another term, unless another process has it.
func (t turns) take(ctx context.Context, tenantID string) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, turnTerm/3)
	defer cancel()
	err = t.db.Aside(ctx, func(tx *sql.Tx) error {
		now := t.db.Now()
		result, err := tx.ExecContext(ctx, `INSERT INTO proof_turns (tenant_id, process, ends_at) VALUES ($1, $2, $3)
			ON CONFLICT (tenant_id) DO UPDATE SET process = excluded.process, ends_at = excluded.ends_at
			WHERE proof_turns.process = excluded.process OR proof_turns.ends_at <= $4`,
			tenantID, t.process, store.Millis(now.Add(turnTerm)), store.Millis(now))
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		taken = n == 1
		return err
	})
	return taken, err
}

// keep keeps the turn until end is called.
func (t turns) keep(ctx context.Context, tenantID string) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	keeper.Go(func() {
		tick := time.NewTicker(turnTerm / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = t.take(ctx, tenantID) // the term ends, or the next one succeeds
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		keeper.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turnEnd)
		defer cancel()
		_ = t.db.Aside(ctx, func(tx *sql.Tx) error { // else it ends with its term
			_, err := tx.ExecContext(ctx, `DELETE FROM proof_turns WHERE tenant_id = $1 AND process = $2`, tenantID, t.process)
			return err
		})
	}
}
