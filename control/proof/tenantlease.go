package proof

import (
	"context"
	"crypto/rand"
	"database/sql"
	"sync"
	"time"

	"muniment.example/control/store"
)

const (
	// leaseTerm is how long a killed process blocks the others at a tenant.
	leaseTerm = 15 * time.Second
	// leasePoll is how often a process polls for another's lease.
	leasePoll = 200 * time.Millisecond
	// releaseTimeout is how long a release may take.
	releaseTimeout = 3 * time.Second
)

// leases are the leases of tenants, one at a time among the processes that share the database.
type leases struct {
	db      *store.DB
	process string
	shared  bool // other processes may share the database
}

func newLeases(db *store.DB) leases { return leases{db, rand.Text(), db.Shared()} }

// lease waits until no other call seals the tenant, in this process or another. It only prevents
// duplicate work on the same pack, so a lease that ends too soon does no harm.
func (s *packer) lease(ctx context.Context, tenantID string) (release func(), err error) {
	leave, err := s.sealing.acquire(ctx, tenantID)
	if err != nil || !s.leases.shared {
		return leave, err
	}
	if err := s.leases.await(ctx, tenantID); err != nil {
		leave()
		return nil, err
	}
	end := s.leases.keep(ctx, tenantID)
	return func() { end(); leave() }, nil
}

// await acquires the lease as soon as no other process has it.
func (t leases) await(ctx context.Context, tenantID string) error {
	poll := time.NewTicker(leasePoll)
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

// take acquires or renews the lease, unless another process has it.
func (t leases) take(ctx context.Context, tenantID string) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTerm/3)
	defer cancel()
	err = t.db.Transact(ctx, func(tx *sql.Tx) error {
		now := t.db.Now()
		result, err := tx.ExecContext(ctx, `INSERT INTO proof_turns (tenant_id, process, ends_at) VALUES ($1, $2, $3)
			ON CONFLICT (tenant_id) DO UPDATE SET process = excluded.process, ends_at = excluded.ends_at
			WHERE proof_turns.process = excluded.process OR proof_turns.ends_at <= $4`,
			tenantID, t.process, store.Millis(now.Add(leaseTerm)), store.Millis(now))
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		taken = n == 1
		return err
	})
	return taken, err
}

// keep renews the lease until end is called.
func (t leases) keep(ctx context.Context, tenantID string) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	keeper.Go(func() {
		tick := time.NewTicker(leaseTerm / 3)
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = t.db.Transact(ctx, func(tx *sql.Tx) error { // else it ends with its term
			_, err := tx.ExecContext(ctx, `DELETE FROM proof_turns WHERE tenant_id = $1 AND process = $2`, tenantID, t.process)
			return err
		})
	}
}

// locks lets one seal of a tenant work at a time in this process (see lease). It only prevents
// duplicate work: between processes the head's compare-and-set decides.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock // guarded by mu; holds only locks in use
}

type lock struct {
	token chan struct{} // one token
	users int           // guarded by locks.mu
}

// acquire waits for the tenant's token, or fails with ctx's error. The caller must call release.
func (l *locks) acquire(ctx context.Context, tenantID string) (release func(), err error) {
	l.mu.Lock()
	one, ok := l.held[tenantID]
	if !ok {
		one = &lock{token: make(chan struct{}, 1)}
		l.held[tenantID] = one
	}
	one.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.held, tenantID)
		}
	}
	done := func() { <-one.token; leave() }
	select {
	case one.token <- struct{}{}: // also if there is no time to wait
		return done, nil
	default:
	}
	select {
	case one.token <- struct{}{}:
		return done, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
