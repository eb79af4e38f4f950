package proof

import (
	"context"
	"sync"
)

// locks lets one seal of a tenant work at a time in this process. It only prevents duplicate work:
// between processes the head's compare-and-set decides, and the loser continues behind the winner's
// pack.
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
