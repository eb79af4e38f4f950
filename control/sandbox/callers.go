package sandbox

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Callers keeps callers without a key within the limits of their addresses, and refuses what pages
// of other sites have a browser send. It is safe for concurrent use.
type Callers struct {
	limiter *Limiter
	shared  *shared // in place of limiter; nil unless CallersConfig.Shared
	sites   http.CrossOriginProtection
}

// CallersConfig says who counts. DB, Limits and Now are required.
type CallersConfig struct {
	DB     *store.DB
	Limits Limits
	// Shared counts in the database, together with other processes.
	Shared bool
	// Window keeps the windows of these callers apart from others in the database; the sandbox's own
	// have none.
	Window string
	// Now is the clock of the limits, which should be a monotonic one.
	Now func() time.Time
}

// NewCallers returns callers of whom nothing was accepted yet in this process.
func NewCallers(cfg CallersConfig) *Callers {
	c := &Callers{limiter: NewLimiter(cfg.Limits, cfg.Now)}
	if cfg.Shared {
		c.shared = &shared{db: cfg.DB, limits: cfg.Limits, window: cfg.Window, refused: map[netip.Addr]time.Time{}}
	}
	return c
}

// Anyone admits requests within the limits that don't come from a page of another site.
func (c *Callers) Anyone(ctx huma.Context) (context.Context, error) {
	request, _ := humago.Unwrap(ctx)
	if err := c.Count(request); err != nil {
		return nil, err
	}
	if err := c.sites.Check(request); err != nil {
		return nil, foreignSite()
	}
	return ctx.Context(), nil
}

// Count counts a request, whether there is anything under its path or not. It refuses one
// that is beyond the limits of its address.
func (c *Callers) Count(request *http.Request) error {
	wait, ok, err := c.admitted(request.Context(), addressOf(request))
	if err == nil && !ok {
		err = &api.Error{Code: api.RateLimited, Message: "too many requests from this address", RetryAfter: wait}
	}
	return err
}

// admitted counts the request, or says how long to wait.
func (c *Callers) admitted(ctx context.Context, address netip.Addr) (wait time.Duration, ok bool, err error) {
	if c.shared != nil {
		return c.shared.accept(ctx, address)
	}
	wait, ok = c.limiter.Accept(address)
	return wait, ok, nil
}

// Forget deletes the windows in the database in which nothing counts any more, of all callers.
func (c *Callers) Forget(ctx context.Context) error {
	if c.shared == nil {
		return nil
	}
	return c.shared.forget(ctx)
}

// addressOf is where a request comes from: the gateway, the one trusted hop before
// control, says it in the last place of X-Forwarded-For. Where that says nothing it is the
// connection's. Who reaches control's own listener, which is for gateways, could say what
// he likes. Requests from nowhere share one address.
func addressOf(r *http.Request) netip.Addr {
	hops := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
	if a, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1])); err == nil {
		return a
	}
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr()
}
