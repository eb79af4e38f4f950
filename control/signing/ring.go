package signing

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// ring has the keys of one role of control. A key signs only within the window that the
// directory states for it, so verifiers accept what it signs. A key takes over from another
// while keyring.change is held; a directory key takes over at a time after every time for
// which its predecessor has signed.
type ring struct {
	role role
	now  func() time.Time

	mu     sync.Mutex
	keys   []*held   // oldest first; the last is current
	latest time.Time // latest time for which a key was picked
	before time.Time // until of the current key, as undo restores it
}

// held is a key in use. It signs nothing before it is logged: the event log has its event, so
// that no loss of the database leaves a signature by a key that nobody knows.
type held struct {
	private    *private
	signer     *sealer.Signer
	delegation string // of a directory key
	logged     atomic.Bool

	// Guarded by ring.mu. until is zero while the window is open.
	from, until time.Time
}

// hold returns a key in the ring's form. It is not in use before add.
func (g *ring) hold(key *private, row *Key) *held {
	k := &held{
		private: key, delegation: row.delegation, from: row.NotBefore,
		signer: &sealer.Signer{KeyID: row.KeyID, Node: g.role.node, Key: key, NotBefore: row.NotBefore},
	}
	if row.NotAfter != nil {
		k.until = *row.NotAfter
	}
	return k
}

// pick returns the key that signs for a time.
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
	return nil, fmt.Errorf("there is no key for %s at %s", g.role, canonical.FormatTime(at))
}

// current is the newest key, nil if there is none.
func (g *ring) current() *held {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newest()
}

// newest is current for a caller that holds mu.
func (g *ring) newest() *held {
	if len(g.keys) == 0 {
		return nil
	}
	return g.keys[len(g.keys)-1]
}

// all lists the ring's keys, oldest first.
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

// amend sets the end of a key's window to that in the directory.
func (g *ring) amend(k *held, until *time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.until = (time.Time{}); until != nil {
		k.until = *until
	}
}

// window is the current key's window; zero if there is no key.
func (g *ring) window() (from, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := g.newest(); k != nil {
		from, until = k.from, k.until
	}
	return from, until
}

// find returns the key with an id, nil if the ring does not have it.
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

// handover returns the time at which the next key's window begins, which is not before
// least, and ends the current key's window overlap after it. undo restores that window.
func (g *ring) handover(least time.Time, overlap time.Duration) (at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.newest()
	if old == nil {
		return latest(latest(g.now().UTC().Truncate(time.Millisecond), least), nextMilli(g.latest))
	}
	at, g.before = latest(g.next(), least), old.until
	if end := at.Add(overlap); old.until.IsZero() || end.Before(old.until) {
		old.until = end
	}
	return at
}

// undo restores the current key's window from before the last handover.
func (g *ring) undo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.newest(); old != nil {
		old.until = g.before
	}
}

// after returns the first whole millisecond after now and after every time for which a key
// has signed.
func (g *ring) after() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.next()
}

// next is after for a caller that holds mu.
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

// drop removes a key from the ring.
func (g *ring) drop(k *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = slices.DeleteFunc(g.keys, func(other *held) bool { return other == k })
}
