package proof

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// dueTick is the time between two calls of SealDue. A tenant with new events is checked no sooner
// again.
const dueTick = 10 * time.Second

// schedule determines which tenants SealDue has to check, and when. An idle tenant is checked once in
// half of SealEvery, by two queries on its newest rows. After a restart all tenants are checked
// once.
type schedule struct {
	mu    sync.Mutex
	plans map[string]*plan // by tenant
}

// plan is the schedule of one tenant.
type plan struct {
	next    time.Time     // when to check again
	idle    time.Duration // the delay after a check that found nothing new
	checked bool          // at least once
	oldest  time.Time     // of the events in no pack, at the last check; zero for none
	failing bool          // the last attempt to seal failed, for another reason than quarantined records
	logged  bool          // that it can't be sealed
}

// retryFailed is the longest time until a tenant whose sealing has failed is tried again.
const retryFailed = 5 * time.Minute

// DueEvery is how often SealDue should be called; 0: never, as nothing is sealed automatically.
func (s *packer) DueEvery() time.Duration {
	if s.cfg.Tenants == nil || s.cfg.SealEvery == 0 && s.cfg.SealAt == 0 {
		return 0
	}
	if s.cfg.SealEvery == 0 {
		return dueTick
	}
	return min(dueTick, max(time.Millisecond, s.cfg.SealEvery/10))
}

// SealDue seals the new events of each tenant of Config.Tenants that has had some for SealEvery, or
// has SealAt of them: a few tenants at a time, each for at most WorkFor. The rest is due again at the
// next call. Any number of processes may call it at once: of two that seal a tenant, one wins the first pack, and the
// other leaves the tenant to it.
// Calls in one process must not overlap.
//
// A tenant without new events is checked less and less often, down to twice in SealEvery. So events
// are sealed in time by their age, but SealAt events may be noticed that late.
func (s *packer) SealDue(ctx context.Context) error {
	if err := s.db.Reserved(); err != nil {
		return err
	}
	tenants, err := s.cfg.Tenants(ctx)
	if err != nil {
		return err
	}
	due := s.due.at(s.now(), tenants, s.DueEvery())
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work := make(chan string)
	var behind sync.Map // partitions that the warehouse is behind in: waiting for one would delay other tenants
	var workers sync.WaitGroup
	for range min(len(due), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for id := range work {
				if err := s.sealUnlessBehind(ctx, id, &behind); err != nil {
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

// sealUnlessBehind calls sealIfDue, unless the tenant's partition is known to be behind: then the tenant stays due.
// It returns only errors that concern all tenants.
func (s *packer) sealUnlessBehind(ctx context.Context, tenantID string, behind *sync.Map) error {
	partition, err := s.log.PartitionOf(ctx, tenantID)
	if err != nil {
		return err
	}
	if _, known := behind.Load(partition); known {
		return nil
	}
	own, err := s.sealIfDue(ctx, tenantID)
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case errors.Is(err, errBehind):
		behind.Store(partition, true)
		s.due.plan(tenantID, func(p *plan) { p.next = s.now().Add(retryLater) })
		return nil
	}
	if !own || store.Away(err) {
		s.due.later(tenantID, s.now().Add(s.mostIdle()))
		return err
	}
	fresh := s.due.failed(tenantID, s.now().Add(min(retryFailed, s.mostIdle())), result(false, err) == resultFailed)
	if api.From(err).Reason == api.EngineUnavailable {
		return err // the bucket: each other pack would be built in vain
	}
	if fresh {
		s.cfg.Logger.Error("cannot seal a tenant automatically, retrying", "tenantId", tenantID, "err", err)
	}
	return nil
}

// mostIdle is the longest time between two checks of a tenant.
func (s *packer) mostIdle() time.Duration {
	if s.cfg.SealEvery == 0 {
		return 30 * time.Minute
	}
	return max(s.DueEvery(), s.cfg.SealEvery/2)
}

// at returns the tenants that are due, and forgets those that no longer exist.
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

// later schedules a retry of a tenant that could not be looked at.
func (s *schedule) later(tenantID string, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans[tenantID].next = next
}

// failed schedules a retry of a tenant that could not be sealed, failing or held by quarantined records;
// fresh reports that it could before.
func (s *schedule) failed(tenantID string, next time.Time, failing bool) (fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plans[tenantID]
	fresh = !p.logged
	p.failing, p.logged, p.next = failing, true, next
	return fresh
}

// sealed ends the failure of a tenant that somebody else had sealed.
func (s *schedule) sealed(tenantID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.plans[tenantID]; p != nil {
		p.failing, p.logged = false, false
	}
}

// failing is how many tenants could not be sealed at the last attempt.
func (s *schedule) failing() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.plans {
		if p.failing {
			n++
		}
	}
	return n
}

// oldest is the time of the oldest event that no pack has, as of the last checks; zero if there is none.
// all is false as long as tenants were never checked, which may have older ones.
func (s *schedule) oldest() (at time.Time, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = s.plans != nil
	for _, p := range s.plans {
		all = all && p.checked
		if !p.oldest.IsZero() && (at.IsZero() || p.oldest.Before(at)) {
			at = p.oldest
		}
	}
	return at, all
}

// found records what a check has found: the time of the oldest event that no pack has, zero for none.
func (s *schedule) found(tenantID string, oldest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plans[tenantID]
	p.checked, p.oldest = true, oldest
}

// sealIfDue seals a tenant if it is due, and plans the next check. own reports that an error comes from
// sealing.
func (s *packer) sealIfDue(ctx context.Context, tenantID string) (own bool, err error) {
	h, err := readHead(ctx, s.db.Read(), tenantID)
	if err != nil {
		return false, err
	}
	oldest, news, err := s.firstNews(ctx, tenantID, h.position, nil)
	if err != nil {
		return false, err
	}
	s.due.found(tenantID, oldest) // now, as sealing may fail
	now, tick := s.now(), s.DueEvery()
	if !news {
		s.due.plan(tenantID, func(p *plan) { p.next, p.idle = now.Add(p.idle), min(2*p.idle, s.mostIdle()) })
		return false, nil
	}
	wait := s.mostIdle()
	if s.cfg.SealEvery > 0 {
		wait = oldest.Add(s.cfg.SealEvery).Sub(now)
	}
	if at := int64(s.cfg.SealAt); at > 0 && wait > 0 {
		n, err := s.warehouse.CountEvents(ctx, tenantID)
		if err != nil {
			return false, err
		}
		n -= int64(h.tree.Size())
		// Extrapolate when there will be enough at the rate so far, and check at half of that time,
		// in case the rate grows.
		if n >= at {
			wait = 0
		} else if since := now.Sub(oldest); n > 0 && since > 0 {
			wait = min(wait, time.Duration(float64(since)*float64(at-n)/float64(n)/2))
		}
	}
	if wait <= 0 {
		sealed, err := s.timed(ctx, tenantID, request{workFor: s.cfg.WorkFor, yields: true, by: store.BySystem()})
		if err != nil {
			return true, err
		}
		s.due.found(tenantID, time.Time{}) // the next check finds out if there is more
		if wait = 0; sealed.More {
			wait = tick + rand.N(tick) // so that processes don't go through a backlog in step
		}
	}
	s.due.plan(tenantID, func(p *plan) { p.next, p.idle = now.Add(max(wait, tick)), tick })
	return false, nil
}

func (s *schedule) plan(tenantID string, change func(*plan)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plans[tenantID]
	p.failing, p.logged = false, false
	change(p)
}
