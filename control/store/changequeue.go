package store

import (
	"context"
	"slices"
	"sync"
)

// changeQueue lets the changes of this process run one at a time: one of each owner in turn, in the order in which
// they came, and stops first. Without it one tenant's burst would delay a change of every other tenant, and a
// suspension, by the length of the burst.
//
// Behind a round, a stop of each owner that has any, one other change runs: a tenant that always stops something must not
// keep all others from changing anything. So the first stop of an owner waits for the change that runs, and for one more
// at most.
//
// An owner is a tenant, all visitors and tenants of the sandbox together, all who open a page, or the system (operators, nodes, background work). The
// sandbox's stops are changes like its others: strangers must not get ahead of tenants.
//
// A rewrite of the file (DB.rewriteFile) takes its turn as a change. It and a LongChange are broken off for a stop.
//
// On PostgreSQL each process has a queue of its own and one change at most waits for the lock on changes, which
// serves in the order of arrival. So a stop waits for one change of each other process.
type changeQueue struct {
	mu      sync.Mutex
	running bool // a change runs
	stops   line
	changes line
	round   int    // one more than the stops that this round still has; 0: the next stop begins one
	yield   func() // breaks off what runs, for a stop; nil: it is a change, for which stops wait
}

// SandboxOwner is the owner of all that the sandbox's visitors and tenants change.
const SandboxOwner = "sandbox"

// PageOwner is the owner of all that pages change for whoever opens them: sign-ins, sessions.
const PageOwner = "pages"

// waiterKey is the context key of who waits.
type waiterKey struct{}

type waiter struct {
	owner string
	stops bool
}

// QueueAs returns a context in which changes wait as those of an owner, a tenant, SandboxOwner or PageOwner, and, if the request
// is a stop, all of them as stops. Without it they wait as the system's.
func QueueAs(ctx context.Context, owner string, stops bool) context.Context {
	return context.WithValue(ctx, waiterKey{}, waiter{owner, stops})
}

// enter waits for its turn. leave must follow unless there is an error, which is that of ctx.
func (q *changeQueue) enter(ctx context.Context, stops bool) (leave func(), err error) {
	as, _ := ctx.Value(waiterKey{}).(waiter)
	q.mu.Lock()
	if !q.running {
		q.running = true
		q.mu.Unlock()
		return q.leave, nil
	}
	in := &q.changes
	if (stops || as.stops) && as.owner != SandboxOwner {
		in = &q.stops
	}
	ready := in.add(as.owner)
	if in == &q.stops && q.yield != nil {
		q.yield()
	}
	q.mu.Unlock()
	select {
	case <-ready:
		return q.leave, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !in.remove(as.owner, ready) { // it was its turn meanwhile
		q.next()
	}
	return nil, ctx.Err()
}

func (q *changeQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.yield = nil
	q.next()
}

// yields makes what runs one that is broken off by yield, which must not block, once a stop waits.
func (q *changeQueue) yields(yield func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.yield = yield; len(q.stops.owners) > 0 {
		yield()
	}
}

// stays makes what runs one for whose end stops wait, again.
func (q *changeQueue) stays() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.yield = nil
}

// WaitingChanges is how many changes of this process wait for the one that runs.
func (db *DB) WaitingChanges() (n int) {
	q := &db.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range []*line{&q.stops, &q.changes} {
		for _, of := range l.of {
			n += len(of)
		}
	}
	return n
}

// next lets the next change run. The caller holds mu.
func (q *changeQueue) next() {
	if q.round == 0 {
		q.round = len(q.stops.owners) + 1
	}
	var ready chan struct{}
	if q.round > 1 {
		q.round--
		ready = q.stops.take()
	}
	if ready == nil {
		q.round, ready = 0, q.changes.take()
	}
	if ready == nil {
		ready = q.stops.take()
	}
	if q.running = ready != nil; q.running {
		close(ready)
	}
}

// line has the changes that wait; each is a channel that is closed when it may run.
type line struct {
	owners []string // that have changes here; the first one is next
	of     map[string][]chan struct{}
}

func (l *line) add(owner string) chan struct{} {
	ready := make(chan struct{})
	if l.of == nil {
		l.of = map[string][]chan struct{}{}
	}
	if len(l.of[owner]) == 0 {
		l.owners = append(l.owners, owner)
	}
	l.of[owner] = append(l.of[owner], ready)
	return ready
}

// take takes the first change of the first owner, who becomes the last; nil if there is none.
func (l *line) take() chan struct{} {
	if len(l.owners) == 0 {
		return nil
	}
	owner := l.owners[0]
	ready := l.of[owner][0]
	l.owners = l.owners[1:]
	if l.of[owner] = l.of[owner][1:]; len(l.of[owner]) > 0 {
		l.owners = append(l.owners, owner)
	} else {
		delete(l.of, owner)
	}
	return ready
}

// remove takes a change that gives up out of the line; false if it is not there any more.
func (l *line) remove(owner string, ready chan struct{}) bool {
	at := slices.Index(l.of[owner], ready)
	if at < 0 {
		return false
	}
	if l.of[owner] = slices.Delete(l.of[owner], at, at+1); len(l.of[owner]) == 0 {
		delete(l.of, owner)
		l.owners = slices.DeleteFunc(l.owners, func(other string) bool { return other == owner })
	}
	return true
}
