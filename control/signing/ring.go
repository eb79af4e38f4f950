package signing

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"muniment/sealer"
)

// ring has the keys of one role of control. A key's window is the one that the directory
// states, so whatever is signed verifies by it. One key takes over from another while
// keyring.change is held; of directory keys at a moment that comes after every one that was
// signed for.
type ring struct {
	role role
	now  func() time.Time

	mu     sync.Mutex
	keys   []*held   // oldest first; the last is current
	latest time.Time // that a key was picked for
	before time.Time // until of the current key before the handover in hand
}

// held is a key in use.
type held struct {
	private    *private
	signer     *sealer.Signer
	delegation string // of a directory key

	// Under the ring's mutex.
	from, until time.Time // until is zero while it is open
}

// hold makes a key one of the ring's, but does not use it yet.
func (g *ring) hold(key *private, row *Key) *held {
	k := &held{
		private: key, delegation: row.delegation, from: row.NotBefore,
		signer: &sealer.Signer{KeyID: row.KeyID, Node: g.role.node, Key: key},
	}
	if row.NotAfter != nil {
		k.until = *row.NotAfter
	}
	return k
}

// pick is the key that signs for a moment.
func (g *ring) pick(at time.Time) (*held, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range slices.Backward(g.keys) {
		if !at.Before(k.from) && (k.until.IsZero() || at.Before(k.until)) {
			if at.After(g.latest) {
				g.latest = at
			}
			return k, nil
		}
	}
	return nil, fmt.Errorf("there is no key for %s at %s", g.role, sealer.FormatTime(at))
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

// add makes a key current.
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
// returns, at which the next key's begins, and which is not before least; until undo.
func (g *ring) handover(least time.Time, overlap time.Duration) (at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
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

// undo ends the handover as if it had never begun.
func (g *ring) undo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.newest(); old != nil {
		old.until = g.before
	}
}

// after is the first whole millisecond after now and after everything signed for.
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

// drop takes an old key out of the ring.
func (g *ring) drop(k *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = slices.DeleteFunc(g.keys, func(other *held) bool { return other == k })
}
