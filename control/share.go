package control

import (
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/route"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// What one tenant may have in hand here at a time: requests, and among them those
// that read much of its log (route.Operation.Heavy). A process serves 512 (the
// gateway's MaxForwards): a tenant, or a thief of its key, must not be able to keep
// the others from revoking a right.
const (
	shareOfTenant = 64
	shareOfHeavy  = 8
)

// Visitors of the sandbox are strangers, who have as many tenants as they like: one has
// less, and all of them together have a share. What they ask of /v1 counts beside it.
const (
	shareOfVisitor  = 8
	heavyOfVisitor  = 2
	shareOfVisitors = 64
	heavyOfVisitors = 6
)

var (
	errShare      = &api.Error{Code: api.RateLimited, Message: "this tenant has too many requests in hand", RetryAfter: time.Second}
	errShareHeavy = &api.Error{Code: api.RateLimited, Message: "this tenant has too many exports in hand", RetryAfter: time.Second}
	errVisitors   = &api.Error{Code: api.RateLimited, Message: "the sandbox has too many requests in hand", RetryAfter: time.Second}
)

// shares counts the requests in hand of each tenant that has any.
type shares struct {
	each     share
	together share // zero: no bound

	mu    sync.Mutex
	held  map[string]share
	total share
}

type share struct{ all, heavy int }

// admitShares is the middleware that refuses a tenant more than its share, whatever key it
// uses. It names the tenant to the gateway, which bounds long answers by it.
func admitShares(d *door) func(huma.Context, func(huma.Context)) {
	tenants := &shares{each: share{shareOfTenant, shareOfHeavy}, held: map[string]share{}}
	visitors := &shares{each: share{shareOfVisitor, heavyOfVisitor}, together: share{shareOfVisitors, heavyOfVisitors}, held: map[string]share{}}
	return func(ctx huma.Context, next func(huma.Context)) {
		op := route.Of(ctx.Operation())
		s, tenantID, heavy := tenants, "", op.Heavy
		if _, scoped := op.Access.(route.Scope); scoped {
			tenantID = auth.PrincipalFrom(ctx.Context()).TenantID
		} else if visited, _ := op.Access.(route.Own); visited.Tenant != nil {
			s, tenantID = visitors, visited.Tenant(ctx.Context())
		} else {
			next(ctx) // no tenant's
			return
		}
		if tenantID != "" {
			ctx.SetHeader(api.HeaderTenant, tenantID)
		}
		if err := s.take(tenantID, heavy); err != nil {
			d.refuse(ctx, err)
			return
		}
		defer s.release(tenantID, heavy)
		next(ctx)
	}
}

func (s *shares) take(tenantID string, heavy bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.held[tenantID]
	switch {
	case tenantID != "" && now.all >= s.each.all:
		return errShare
	case tenantID != "" && heavy && now.heavy >= s.each.heavy:
		return errShareHeavy
	case s.together.all > 0 && (s.total.all >= s.together.all || heavy && s.total.heavy >= s.together.heavy):
		return errVisitors
	}
	s.held[tenantID], s.total = now.add(1, heavy), s.total.add(1, heavy)
	return nil
}

func (s *shares) release(tenantID string, heavy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = s.total.add(-1, heavy)
	if now := s.held[tenantID].add(-1, heavy); now.all > 0 {
		s.held[tenantID] = now
	} else {
		delete(s.held, tenantID)
	}
}

func (s share) add(n int, heavy bool) share {
	s.all += n
	if heavy {
		s.heavy += n
	}
	return s
}
