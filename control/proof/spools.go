package proof

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// spoolEvery is how often the seals that wait for spools look at them, all together.
const spoolEvery = 50 * time.Millisecond

// spoolWatch looks at the spools for all seals that wait: however many there are, the
// database is asked once each spoolEvery.
type spoolWatch struct {
	mu   sync.Mutex
	next *spoolLook // the next one; nil: no waiters
}

// spoolLook is what all who waited for it have seen; done is closed once that is set.
type spoolLook struct {
	done         chan struct{}
	live, silent map[string]int64
	err          error
}

// wait returns the next look, which begins after the call.
func (w *spoolWatch) wait(ctx context.Context, nodes Nodes) *spoolLook {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil {
		look := &spoolLook{done: make(chan struct{})}
		w.next = look
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spoolLookFor) // its caller may be cancelled
		time.AfterFunc(spoolEvery, func() {
			defer cancel()
			defer close(look.done)
			w.mu.Lock()
			w.next = nil
			w.mu.Unlock()
			look.live, look.silent, look.err = nodes.Spooled(ctx)
		})
	}
	return w.next
}

// spoolLookFor bounds a look.
const spoolLookFor = 5 * time.Second

// spools waits until no live node has anything in its spool, at most for so long, and
// names the nodes that have.
func (a *archive) spools(ctx context.Context, wait time.Duration) (pending []Pending, err error) {
	if a.cfg.Nodes == nil {
		return []Pending{}, nil
	}
	live, silent, err := a.cfg.Nodes.Spooled(ctx)
	limit := time.NewTimer(wait)
	defer limit.Stop()
	for over := wait == 0; err == nil && !over && len(live) > 0; {
		look := a.watch.wait(ctx, a.cfg.Nodes)
		select {
		case <-look.done:
			live, silent, err = look.live, look.silent, look.err
		case <-limit.C:
			over = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	named := maps.Clone(silent)
	if named == nil {
		named = map[string]int64{}
	}
	maps.Copy(named, live)
	pending = []Pending{}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		pending = append(pending, Pending{NodeID: id, Count: named[id]})
	}
	return pending, nil
}
