package control

import (
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// What one tenant may have in hand here at a time: requests, and among them those
// that read much of its log (Metadata["heavy"]). A process serves 512 (the
// gateway's MaxForwards): a tenant, or a thief of its key, must not be able to keep
// the others from revoking a right.
const (
	shareOfTenant = 64
	shareOfHeavy  = 8
)

var (
	errShare      = &api.Error{Code: api.RateLimited, Message: "this tenant has too many requests in hand", RetryAfter: time.Second}
	errShareHeavy = &api.Error{Code: api.RateLimited, Message: "this tenant has too many exports in hand", RetryAfter: time.Second}
)

// shares counts the requests in hand of each tenant that has any.
type shares struct {
	mu   sync.Mutex
	held map[string]share
}

type share struct{ all, heavy int }

// admit is the middleware that refuses a tenant more than its share, whatever key it
// uses. It names the tenant to the gateway, which bounds long answers by it.
func (s *shares) admit(d *door) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		declared := ctx.Operation().Metadata
		if _, scoped := declared["scope"]; !scoped {
			next(ctx) // no tenant's
			return
		}
		tenantID, heavy := auth.PrincipalFrom(ctx.Context()).TenantID, declared["heavy"] == true
		ctx.SetHeader(api.HeaderTenant, tenantID)
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
	case now.all >= shareOfTenant:
		return errShare
	case heavy && now.heavy >= shareOfHeavy:
		return errShareHeavy
	}
	s.held[tenantID] = now.add(1, heavy)
	return nil
}

func (s *shares) release(tenantID string, heavy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
