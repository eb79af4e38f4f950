package store

import (
	"context"
	"sync"
)

// Turns lets each of many owners do a few things at a time in this process; further ones wait. It keeps nothing of owners who
// do nothing. NewTurns makes one; it is safe for concurrent use.
type Turns struct {
	atOnce int
	mu     sync.Mutex
	of     map[string]*turn // owners that have a turn or wait, guarded by mu
}

type turn struct {
	places chan struct{}
	users  int // that have one or wait, guarded by Turns.mu
}

// NewTurns returns turns of which each owner has so many at once.
func NewTurns(atOnce int) *Turns { return &Turns{atOnce: atOnce, of: map[string]*turn{}} }

// Take waits for a turn of an owner, or fails with ctx's error. One that is free is taken also if there is no time to
// wait. The caller must call leave.
func (t *Turns) Take(ctx context.Context, owner string) (leave func(), err error) {
	t.mu.Lock()
	own, known := t.of[owner]
	if !known {
		own = &turn{places: make(chan struct{}, t.atOnce)}
		t.of[owner] = own
	}
	own.users++
	t.mu.Unlock()

	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.of, owner)
		}
	}
	leave = func() { <-own.places; gone() }
	select {
	case own.places <- struct{}{}:
		return leave, nil
	default:
	}
	select {
	case own.places <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}

// Users returns how many have a turn or wait for one, by owner; owners without any are not in it.
func (t *Turns) Users() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	users := make(map[string]int, len(t.of))
	for owner, own := range t.of {
		users[owner] = own.users
	}
	return users
}
