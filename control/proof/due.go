package proof

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"muniment/control/store"
)

// dueTick is the time between two calls of SealDue. A tenant that something happens to is
// looked at no sooner again.
const dueTick = 10 * time.Second

// schedule says which tenants SealDue has to look at, and when. What idle tenants cost is a
// look in half of SealEvery: two questions to the warehouse, each about the tenant's newest
// rows. A restart forgets it, and looks at all of them once.
type schedule struct {
	mu    sync.Mutex
	plans map[string]*plan // by tenant
}

// plan is what is known of a tenant.
type plan struct {
	next    time.Time     // when to look again
	idle    time.Duration // how long after a look that found nothing new
	oldest  time.Time     // of the events that no pack has, when they were looked at; zero for none
	failing bool
}

// DueEvery is how often SealDue should be called; 0: never, as nothing is sealed by itself.
func (r *Room) DueEvery() time.Duration {
	if r.cfg.Tenants == nil || r.cfg.SealEvery == 0 && r.cfg.SealAt == 0 {
		return 0
	}
	if r.cfg.SealEvery == 0 {
		return dueTick
	}
	return min(dueTick, max(time.Millisecond, r.cfg.SealEvery/10))
}

// SealDue seals what is new of each tenant of Config.Tenants that has had something to seal
// for SealEvery, or SealAt events of it: a few tenants at a time, and each for WorkFor at
// most; what is left is due again at the next call. Any number of processes may do it at once:
// one of them seals a tenant at a time. Calls may not overlap in one process.
//
// A tenant to which nothing happens is looked at ever more rarely, at last twice in SealEvery.
// So events are sealed by then, but that there are SealAt of them may be noticed as late.
func (r *Room) SealDue(ctx context.Context) error {
	if err := r.db.Reserved(); err != nil {
		return err
	}
	tenants, err := r.cfg.Tenants(ctx)
	if err != nil {
		return err
	}
	due := r.due.at(r.now(), tenants, r.DueEvery())
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work := make(chan string)
	var behind sync.Map // partitions that the warehouse is behind in: who waits for one keeps other tenants waiting
	var workers sync.WaitGroup
	for range min(len(due), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for id := range work {
				if err := r.lookAt(ctx, id, &behind); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, id := range due {
		if ctx.Err() != nil {
			break
		}
		work <- id
	}
	close(work)
	workers.Wait()
	return context.Cause(ctx)
}

// lookAt is look, unless the tenant's partition is known to be behind: then it stays due. An
// error is not that of the tenant alone.
func (r *Room) lookAt(ctx context.Context, tenantID string, behind *sync.Map) error {
	partition, err := r.log.PartitionOf(ctx, tenantID)
	if err != nil {
		return err
	}
	if _, known := behind.Load(partition); known {
		return nil
	}
	own, err := r.look(ctx, tenantID)
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case errors.Is(err, errBehind):
		behind.Store(partition, true)
		r.due.plan(tenantID, func(p *plan) { p.next = r.now().Add(retryLater) })
		return nil
	}
	fresh := r.due.failed(tenantID, r.now().Add(r.mostIdle()))
	if !own || store.Away(err) {
		return err
	}
	if fresh {
		r.cfg.Logger.Error("a tenant can't be sealed by itself; it is tried again", "tenantId", tenantID, "err", err)
	}
	return nil
}

// mostIdle is the longest between two looks at a tenant.
func (r *Room) mostIdle() time.Duration {
	if r.cfg.SealEvery == 0 {
		return 30 * time.Minute
	}
	return max(r.DueEvery(), r.cfg.SealEvery/2)
}

// at returns the tenants whose time has come, and forgets those that are no more.
func (s *schedule) at(now time.Time, tenants []string, tick time.Duration) (due []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	plans := make(map[string]*plan, len(tenants))
	for _, id := range tenants {
		p, ok := s.plans[id]
		if !ok {
			p = &plan{next: now, idle: tick}
		}
		plans[id] = p
		if !p.next.After(now) {
			due = append(due, id)
		}
	}
	s.plans = plans
	return due
}

// failed has a tenant tried again later; fresh says that it did not fail before.
func (s *schedule) failed(tenantID string, next time.Time) (fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plans[tenantID]
	fresh = !p.failing
	p.failing, p.next = true, next
	return fresh
}

// oldest is the time of the oldest event that no pack has; zero if there is none.
func (s *schedule) oldest() (at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.plans {
		if !p.oldest.IsZero() && (at.IsZero() || p.oldest.Before(at)) {
			at = p.oldest
		}
	}
	return at
}

// look seals a tenant if it is due, and plans the next look. own says of an error that it is
// of the sealing.
func (r *Room) look(ctx context.Context, tenantID string) (own bool, err error) {
	h, err := readHead(ctx, r.db.Read(), tenantID)
	if err != nil {
		return false, err
	}
	oldest, news, err := r.firstNews(ctx, tenantID, h.position, nil)
	if err != nil {
		return false, err
	}
	now, tick := r.now(), r.DueEvery()
	if !news {
		r.due.plan(tenantID, func(p *plan) {
			p.oldest, p.next, p.idle = time.Time{}, now.Add(p.idle), min(2*p.idle, r.mostIdle())
		})
		return false, nil
	}
	wait := r.mostIdle()
	if r.cfg.SealEvery > 0 {
		wait = oldest.Add(r.cfg.SealEvery).Sub(now)
	}
	if at := int64(r.cfg.SealAt); at > 0 && wait > 0 {
		n, err := r.warehouse.CountEvents(ctx, tenantID)
		if err != nil {
			return false, err
		}
		n -= int64(h.tree.Size())
		// At its rate so far it takes so long until there are enough; half of that, if it grows.
		if n >= at {
			wait = 0
		} else if since := now.Sub(oldest); n > 0 && since > 0 {
			wait = min(wait, time.Duration(float64(since)*float64(at-n)/float64(n)/2))
		}
	}
	if wait <= 0 {
		if _, err := r.timed(ctx, tenantID, request{workFor: r.cfg.WorkFor, by: store.BySystem()}); err != nil {
			return true, err
		}
		wait, oldest = 0, time.Time{} // the next look tells if there is more
	}
	r.due.plan(tenantID, func(p *plan) { p.oldest, p.next, p.idle = oldest, now.Add(max(wait, tick)), tick })
	return false, nil
}

func (s *schedule) plan(tenantID string, change func(*plan)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plans[tenantID]
	p.failing = false
	change(p)
}
