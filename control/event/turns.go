package event

import (
	"context"
	"sync"

	"muniment.example/control/store"
	"muniment.example/gateway/auth"
)

// listsAtOnce is how many lists of one tenant, or of all the sandbox's, are read from the warehouse at a time: the filters of one may leave nothing
// to find in all that the tenant has. Further ones wait for their turn, and not at the warehouse, where other tenants' would wait behind
// them. With a tenant's Heavy operations (control's tenantHeavyLimit) they are fewer than the readers of the embedded warehouse.
const listsAtOnce = 3

// turns lets owners read lists. The zero value is ready; it is safe for concurrent use.
type turns struct {
	mu sync.Mutex
	of map[string]*turn // owners that read or wait
}

type turn struct {
	places chan struct{}
	users  int // that read or wait
}

// take waits for the turn of a caller. leave must follow unless there is an error, which is that of ctx.
func (t *turns) take(ctx context.Context, caller auth.Principal) (leave func(), err error) {
	owner := caller.TenantID
	if caller.Sandbox {
		owner = store.SandboxOwner
	}
	t.mu.Lock()
	own := t.of[owner]
	if own == nil {
		if t.of == nil {
			t.of = map[string]*turn{}
		}
		own = &turn{places: make(chan struct{}, listsAtOnce)}
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
	select {
	case own.places <- struct{}{}:
		return func() { <-own.places; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
