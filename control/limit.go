package control

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// The limits of one tenant's requests in flight in this process, and of those that read much of its
// log or its rows (route.Operation.Heavy), which are fewer than the connections for such reads of the embedded
// warehouse and of the database: so a tenant leaves some of them to others. A process serves 512 (the gateway's MaxForwards): a tenant, or a
// thief of its key, must not be able to prevent others from revoking a right.
const (
	tenantLimit      = 64
	tenantHeavyLimit = 4
	// stopsLimit is how many more may be in flight of those that are stops: a thief of a player's key must not keep the
	// tenant from revoking it.
	stopsLimit = 16
	// linkLimit is that of requests by links to what a tenant has: who has a link must not take the tenant's own.
	linkLimit = 8
)

// A visitor of the sandbox can create many tenants, so a visitor's limit is lower, and all visitors
// together have a limit. Their requests to /v1 count separately. A request that changes nothing counts until its
// response is in memory.
const (
	visitorLimit       = 8
	visitorHeavyLimit  = 2
	visitorsLimit      = 64
	visitorsHeavyLimit = 6
)

// The limits of the memory for responses that visitors have not read yet, of an IP address and of all, in bytes. A response
// that is longer than an address may have counts as that. One of up to visitorShort, which the gateway reads at once,
// does not count.
const (
	visitorShort        = 64 << 10
	visitorUnreadLimit  = 8 << 20
	visitorsUnreadLimit = 64 << 20
)

var (
	errLimit      = &api.Error{Code: api.RateLimited, Message: "this tenant has too many requests in flight", RetryAfter: time.Second}
	errHeavyLimit = &api.Error{Code: api.RateLimited, Message: "this tenant has too many requests in flight that read much of what it has", RetryAfter: time.Second}
	errLinks      = &api.Error{Code: api.RateLimited, Message: "too many downloads by links of this tenant are in flight", RetryAfter: time.Second}
	errVisitors   = &api.Error{Code: api.RateLimited, Message: "the sandbox has too many requests in flight", RetryAfter: time.Second}
	errUnread     = &api.Error{Code: api.RateLimited, Message: "the sandbox has too many long responses in memory that nobody has read yet, or too many for this address", RetryAfter: time.Second}
)

// limiter counts the requests in flight of each tenant that has any, or bytes of each address. It is safe for
// concurrent use.
type limiter struct {
	each     inFlight
	together inFlight   // zero: no limit
	stops    int        // further ones of an owner that are stops
	busy     *api.Error // of an owner who has all its own

	mu    sync.Mutex
	held  map[string]inFlight
	total inFlight
}

type inFlight struct{ all, heavy int }

// oneRequest is what a request counts as.
func oneRequest(heavy bool) inFlight {
	if heavy {
		return inFlight{1, 1}
	}
	return inFlight{all: 1}
}

func (n inFlight) plus(m inFlight) inFlight { return inFlight{n.all + m.all, n.heavy + m.heavy} }

// admitLimited is the middleware that enforces the limits of a tenant, over all its keys. It notes the
// tenant for the log of requests. Changes wait as the tenant's.
func admitLimited(d *handler) func(huma.Context, func(huma.Context)) {
	tenants := &limiter{each: inFlight{tenantLimit, tenantHeavyLimit}, stops: stopsLimit, busy: errLimit, held: map[string]inFlight{}}
	links := &limiter{each: inFlight{linkLimit, linkLimit}, busy: errLinks, held: map[string]inFlight{}}
	visitors := &limiter{each: inFlight{visitorLimit, visitorHeavyLimit}, busy: errLimit, together: inFlight{visitorsLimit, visitorsHeavyLimit}, held: map[string]inFlight{}}
	unread := &limiter{each: inFlight{all: visitorUnreadLimit}, busy: errUnread, together: inFlight{all: visitorsUnreadLimit}, held: map[string]inFlight{}}
	return func(ctx huma.Context, next func(huma.Context)) {
		op := route.Of(ctx.Operation())
		s, tenantID, owner, request := tenants, "", "", oneRequest(op.IsHeavy(ctx.Query))
		if sandbox.Enveloped(op.Path) {
			owner = store.SandboxOwner
		}
		own, _ := op.Access.(route.Own)
		_, scoped := op.Access.(route.Scope)
		switch {
		case scoped:
			principal := auth.PrincipalFrom(ctx.Context())
			tenantID, owner = principal.TenantID, principal.TenantID
			if principal.Sandbox {
				owner = store.SandboxOwner
			}
		case own.Tenant != nil && owner == store.SandboxOwner:
			s, tenantID = visitors, own.Tenant(ctx.Context())
		case own.Tenant != nil: // by a link to what a tenant has, which may be one of the sandbox
			s, tenantID = links, own.Tenant(ctx.Context())
			var err error
			if owner, err = d.ownerOf(ctx.Context(), tenantID); err != nil {
				d.refuse(ctx, err)
				return
			}
		}
		counted := scoped || own.Tenant != nil
		if !counted && owner == store.SandboxOwner { // a stream of a visitor, which has limits of its own
			tenantID = sandbox.VisitorOf(ctx.Context()).TenantID
		}
		if x, ok := exchangeOf(ctx.Context()); ok {
			x.tenantID = tenantID
		}
		ctx = huma.WithContext(ctx, store.QueueAs(ctx.Context(), owner, op.Stops))
		if !counted {
			next(ctx) // it belongs to no tenant
			return
		}
		if err := s.take(tenantID, request, op.Stops); err != nil {
			d.refuse(ctx, err)
			return
		}
		release := sync.OnceFunc(func() { s.release(tenantID, request) })
		defer release()
		if s != visitors || op.Method != http.MethodGet {
			next(ctx)
			return
		}
		// Visitors have few places together: those who read slowly must not keep the others out.
		response := &heldResponse{plainContext: ctx}
		next(response)
		release()
		if size := response.body.Len(); size > visitorShort {
			address, n := sandbox.VisitorOf(ctx.Context()).Address, inFlight{all: min(size, visitorUnreadLimit)}
			if unread.take(address, n, false) != nil {
				d.refuse(ctx, errUnread)
				return
			}
			defer unread.release(address, n)
		}
		response.send()
	}
}

// ownerOf returns as whose a tenant's changes wait.
func (d *handler) ownerOf(ctx context.Context, tenantID string) (string, error) {
	ofSandbox, err := tenant.IsSandbox(ctx, d.db.Read(), tenantID)
	if ofSandbox {
		return store.SandboxOwner, err
	}
	return tenantID, err
}

// take counts n more, of an owner or, if it is empty, of all alone. release must follow unless there is an error.
func (s *limiter) take(owner string, n inFlight, stops bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.each.all
	if stops {
		most += s.stops
	}
	held, total := s.held[owner].plus(n), s.total.plus(n)
	switch {
	case owner != "" && held.all > most:
		return s.busy
	case owner != "" && held.heavy > s.each.heavy:
		return errHeavyLimit
	case s.together.all > 0 && (total.all > s.together.all || total.heavy > s.together.heavy):
		return errVisitors
	}
	s.held[owner], s.total = held, total
	return nil
}

func (s *limiter) release(owner string, n inFlight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = inFlight{-n.all, -n.heavy}
	s.total = s.total.plus(n)
	if s.held[owner] = s.held[owner].plus(n); s.held[owner].all == 0 {
		delete(s.held, owner)
	}
}
