package control

import (
	"context"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/route"
	"muniment/control/sandbox"
	"muniment/control/store"
	"muniment/control/tenant"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// The limits of one tenant's requests in flight in this process, and of those that read much of its
// log (route.Operation.Heavy). A process serves 512 (the gateway's MaxForwards): a tenant, or a
// thief of its key, must not be able to prevent others from revoking a right.
const (
	tenantLimit      = 64
	tenantHeavyLimit = 8
)

// A visitor of the sandbox can create many tenants, so a visitor's limit is lower, and all visitors
// together have a limit. Their requests to /v1 count separately. A heavy request counts as such until its response is
// in memory, and as one in flight until that is sent, which bounds this memory.
const (
	visitorLimit       = 8
	visitorHeavyLimit  = 2
	visitorsLimit      = 64
	visitorsHeavyLimit = 6
)

var (
	errLimit      = &api.Error{Code: api.RateLimited, Message: "this tenant has too many requests in flight", RetryAfter: time.Second}
	errHeavyLimit = &api.Error{Code: api.RateLimited, Message: "this tenant has too many requests in flight that read much of its log", RetryAfter: time.Second}
	errVisitors   = &api.Error{Code: api.RateLimited, Message: "the sandbox has too many requests in flight", RetryAfter: time.Second}
)

// limiter counts the requests in flight of each tenant that has any.
type limiter struct {
	each     inFlight
	together inFlight // zero: no limit

	mu    sync.Mutex
	held  map[string]inFlight
	total inFlight
}

type inFlight struct{ all, heavy int }

// admitLimited is the middleware that enforces the limits of a tenant, over all its keys. Its
// response header names the tenant to the log of requests. Changes wait as the tenant's.
func admitLimited(d *handler) func(huma.Context, func(huma.Context)) {
	tenants := &limiter{each: inFlight{tenantLimit, tenantHeavyLimit}, held: map[string]inFlight{}}
	visitors := &limiter{each: inFlight{visitorLimit, visitorHeavyLimit}, together: inFlight{visitorsLimit, visitorsHeavyLimit}, held: map[string]inFlight{}}
	return func(ctx huma.Context, next func(huma.Context)) {
		op := route.Of(ctx.Operation())
		s, tenantID, owner, heavy := tenants, "", "", op.Heavy
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
			tenantID = own.Tenant(ctx.Context())
			var err error
			if owner, err = d.ownerOf(ctx.Context(), tenantID); err != nil {
				d.refuse(ctx, err)
				return
			}
		}
		ctx = huma.WithContext(ctx, store.QueueAs(ctx.Context(), owner, op.Stops))
		if !scoped && own.Tenant == nil {
			next(ctx) // it belongs to no tenant
			return
		}
		if tenantID != "" {
			ctx.SetHeader(api.HeaderTenant, tenantID)
		}
		if err := s.take(tenantID, heavy); err != nil {
			d.refuse(ctx, err)
			return
		}
		defer func() { s.release(tenantID, heavy) }()
		if s != visitors || !heavy {
			next(ctx)
			return
		}
		// Of these few are worked on at a time, for all visitors: one who reads slowly must not keep the others out.
		response := &heldResponse{plainContext: ctx}
		next(response)
		s.releaseHeavy(tenantID)
		heavy = false
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

func (s *limiter) take(tenantID string, heavy bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.held[tenantID]
	switch {
	case tenantID != "" && now.all >= s.each.all:
		return errLimit
	case tenantID != "" && heavy && now.heavy >= s.each.heavy:
		return errHeavyLimit
	case s.together.all > 0 && (s.total.all >= s.together.all || heavy && s.total.heavy >= s.together.heavy):
		return errVisitors
	}
	s.held[tenantID], s.total = now.add(1, heavy), s.total.add(1, heavy)
	return nil
}

func (s *limiter) release(tenantID string, heavy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = s.total.add(-1, heavy)
	if now := s.held[tenantID].add(-1, heavy); now.all > 0 {
		s.held[tenantID] = now
	} else {
		delete(s.held, tenantID)
	}
}

// releaseHeavy says that a request has read what it reads of the log; it is still in flight.
func (s *limiter) releaseHeavy(tenantID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total.heavy--
	now := s.held[tenantID]
	now.heavy--
	s.held[tenantID] = now
}

func (s inFlight) add(n int, heavy bool) inFlight {
	s.all += n
	if heavy {
		s.heavy += n
	}
	return s
}
