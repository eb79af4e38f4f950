package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"muniment/sealer"
)

// ring lends the keys of one role by the moment that is signed for. A key's window
// is the one that the directory states, so whatever is signed verifies by it.
//
// The handover from one key to the next has a moment of its own, which comes after
// every moment lent for so far. From there on the old key signs nothing, and the
// new one nothing before it stands in the directory: who asks in between waits.
type ring struct {
	role role
	now  func() time.Time

	mu     sync.Mutex
	keys   []*held       // oldest first; the last is current
	latest time.Time     // that was lent for
	turn   chan struct{} // closed when the handover in hand has ended; nil without one
	before time.Time     // until of the current key before the handover in hand
}

// held is a key in use.
type held struct {
	private    *private
	signer     *sealer.Signer
	delegation string // of a directory key
	done       func() // ends one loan

	// Under the ring's mutex.
	from, until time.Time // until is zero while it is open
	lent        int
	idle        chan struct{} // closed with the last loan; nil while nobody waits for that
}

// hold makes a key one of the ring's, but does not lend it yet.
func (g *ring) hold(key *private, row *signingKey) *held {
	k := &held{
		private: key, delegation: row.delegation, from: row.NotBefore,
		signer: &sealer.Signer{KeyID: row.KeyID, Node: g.role.node, Key: key},
	}
	if row.NotAfter != nil {
		k.until = *row.NotAfter
	}
	k.done = func() { g.giveBack(k) }
	return k
}

// lend returns the key that signs for a moment. It waits while a handover is in
// hand, until ctx is done.
func (g *ring) lend(ctx context.Context, at time.Time) (*held, error) {
	for {
		k, turn := g.pick(at)
		if k != nil {
			return k, nil
		}
		if turn == nil {
			return nil, fmt.Errorf("there is no key for %s at %s", g.role, sealer.FormatTime(at))
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return nil, fmt.Errorf("the next key for %s is not there yet: %w", g.role, ctx.Err())
		}
	}
}

func (g *ring) pick(at time.Time) (*held, chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range slices.Backward(g.keys) {
		if !at.Before(k.from) && (k.until.IsZero() || at.Before(k.until)) {
			k.lent++
			if at.After(g.latest) {
				g.latest = at
			}
			return k, nil
		}
	}
	return nil, g.turn
}

func (g *ring) giveBack(k *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.lent--; k.lent == 0 && k.idle != nil {
		close(k.idle)
		k.idle = nil
	}
}

// current is the newest key, nil if there is none.
func (g *ring) current() *held {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newest()
}

// newest is current, under the lock.
func (g *ring) newest() *held {
	if len(g.keys) == 0 {
		return nil
	}
	return g.keys[len(g.keys)-1]
}

// all are the ring's keys, oldest first.
func (g *ring) all() []*held {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.keys)
}

// add makes a key current that another process has made so.
func (g *ring) add(k *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = append(g.keys, k)
}

// amend moves the end of a key's window to where the directory has it.
func (g *ring) amend(k *held, until *time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.until = (time.Time{}); until != nil {
		k.until = *until
	}
}

// window is that of the current key; zero if there is none.
func (g *ring) window() (from, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := g.newest(); k != nil {
		from, until = k.from, k.until
	}
	return from, until
}

// find returns the key of an id, nil if the ring does not hold it.
func (g *ring) find(keyID string) *held {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range g.keys {
		if k.signer.KeyID == keyID {
			return k
		}
	}
	return nil
}

// handover closes the current key's window overlap after the moment that it
// returns, at which the next key's begins, and which is not before least. Nothing is lent for later moments than
// the old window has until take or undo ends the handover.
func (g *ring) handover(least time.Time, overlap time.Duration) (at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn = make(chan struct{})
	old := g.newest()
	if old == nil {
		return latest(g.now().UTC().Truncate(time.Millisecond), least)
	}
	at, g.before = latest(g.next(), least), old.until
	if end := at.Add(overlap); old.until.IsZero() || end.Before(old.until) {
		old.until = end
	}
	return at
}

// take ends the handover: the key is current from now on. With nil there is none.
func (g *ring) take(k *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k != nil {
		g.keys = append(g.keys, k)
	}
	close(g.turn)
	g.turn = nil
}

// undo ends the handover as if it had never begun.
func (g *ring) undo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.newest(); old != nil {
		old.until = g.before
	}
	close(g.turn)
	g.turn = nil
}

// after is the first whole millisecond after now and after everything lent for.
func (g *ring) after() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.next()
}

// next is after, under the lock.
func (g *ring) next() time.Time {
	t := g.now()
	if g.latest.After(t) {
		t = g.latest // the clock stepped back
	}
	return nextMilli(t)
}

func nextMilli(t time.Time) time.Time {
	return t.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
}

// straggling is how long after it read the clock a delivery may ask for a key.
const straggling = 100 * time.Millisecond

// drain waits until nobody can sign any more with a key whose window is closed:
// until it has ended, whoever read the clock before that has borrowed, and all
// loans have ended.
func (g *ring) drain(ctx context.Context, k *held) error {
	g.mu.Lock()
	end := time.NewTimer(k.until.Sub(g.now()) + straggling)
	g.mu.Unlock()
	defer end.Stop()
	select {
	case <-end.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-g.idle(k):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// idle is closed once the key is lent to nobody.
func (g *ring) idle(k *held) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.lent == 0 {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	if k.idle == nil {
		k.idle = make(chan struct{})
	}
	return k.idle
}

// drop takes an old key out of the ring.
func (g *ring) drop(k *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = slices.DeleteFunc(g.keys, func(other *held) bool { return other == k })
}
