package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// visitor is the caller of an admitted request.
type visitor struct {
	address  string         // the caller's address, as secret.hash
	within   bool           // the caller is on this machine
	tenantID string         // that the cookie names; empty without one
	caller   auth.Principal // that acts for the visitor; of no key if the tenant is gone
}

type visitorKey struct{}

func visitorOf(ctx context.Context) visitor {
	v, _ := ctx.Value(visitorKey{}).(visitor)
	return v
}

// in is a context in which requests to /v1 are made for the visitor.
func (v visitor) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// lives says whether the visitor has a tenant.
func (v visitor) lives() bool { return v.caller.Key != nil }

// visitors recognises visitors, and keeps them within the limits of their addresses.
type visitors struct {
	*core
	limiter *Limiter
	shared  *shared // in place of limiter; nil unless Config.Shared
	sites   http.CrossOriginProtection
}

// anyone admits requests within the limits that don't come from a page of another site.
func (s *visitors) anyone(ctx huma.Context) (context.Context, error) {
	request, _ := humago.Unwrap(ctx)
	if err := s.Count(request); err != nil {
		return nil, err
	}
	if err := s.sites.Check(request); err != nil {
		return nil, foreignSite()
	}
	return ctx.Context(), nil
}

// Count counts a request, whether there is anything under its path or not. It refuses one
// that is beyond the limits of its address.
func (s *visitors) Count(request *http.Request) error {
	wait, ok, err := s.admitted(request.Context(), addressOf(request))
	if err == nil && !ok {
		err = &api.Error{Code: api.RateLimited, Message: "too many requests from this address", RetryAfter: wait}
	}
	return err
}

// admitted counts the request, or says how long to wait.
func (s *visitors) admitted(ctx context.Context, address netip.Addr) (wait time.Duration, ok bool, err error) {
	if s.shared != nil {
		return s.shared.accept(ctx, address)
	}
	wait, ok = s.limiter.Accept(address)
	return wait, ok, nil
}

// withOrWithout admits visitors with or without a tenant.
func (s *visitors) withOrWithout(ctx huma.Context) (context.Context, error) {
	inner, err := s.anyone(ctx)
	if err != nil {
		return nil, err
	}
	request, _ := humago.Unwrap(ctx)
	v, err := s.recognise(inner, request)
	return v.in(inner), err
}

// withTenant admits visitors with a tenant.
func (s *visitors) withTenant(ctx huma.Context) (context.Context, error) {
	inner, err := s.withOrWithout(ctx)
	if err != nil {
		return nil, err
	}
	switch v := visitorOf(inner); {
	case v.lives():
		return inner, nil
	case v.tenantID != "":
		return nil, evicted()
	}
	return nil, noTenant()
}

// recognise reads the cookie. One that this service did not sign is none.
func (s *visitors) recognise(ctx context.Context, request *http.Request) (visitor, error) {
	from := addressOf(request)
	v := visitor{within: withinMachine(request.Host, from)}
	secret, err := readSecret(ctx, s.db.Read())
	if err != nil {
		return v, err
	}
	v.address = secret.hash(from)
	c, err := request.Cookie(cookieName)
	if err != nil {
		return v, nil
	}
	id, ok := secret.check(c.Value)
	if !ok {
		return v, nil
	}
	v.tenantID = id
	l, err := findVisitorTenant(ctx, s.db.Read(), id)
	if err != nil || l == nil {
		return v, err
	}
	v.caller, err = s.callerOf(ctx, l.keyID)
	if err == nil && v.lives() {
		err = s.seen(ctx, *l)
	}
	return v, err
}

// callerOf is the principal of a tenant: the holder of its key. It has none if the tenant was
// dropped meanwhile, or an operator has revoked it, which is how to stop a visitor.
func (s *visitors) callerOf(ctx context.Context, keyID string) (auth.Principal, error) {
	key, err := store.Newest(ctx, s.db, api.Keys, keyID)
	if key != nil && !auth.Live(key, s.db.Now()) {
		key = nil
	}
	return auth.Principal{Key: key}, err
}

// touchEvery is how exactly it is known when a tenant was used last.
const touchEvery = time.Minute

func (s *visitors) seen(ctx context.Context, l visitorTenant) error {
	now := s.db.Now()
	if now.Sub(l.seenAt.Time) < touchEvery {
		return nil
	}
	return s.db.Change(ctx, func(tx *store.Tx) error { return touch(ctx, tx, l.tenantID, store.At(now)) })
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

// ask sends a request to /v1 for the visitor, and returns the data of the response.
func (s *core) ask(ctx context.Context, method, target string, body any) (json.RawMessage, error) {
	var text bytes.Buffer
	if body != nil {
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false) // what came in must not grow beyond what the door takes
		if err := enc.Encode(body); err != nil {
			return nil, err
		}
	}
	status, answer, err := s.cfg.Ask(ctx, visitorOf(ctx).caller, method, target, text.Bytes())
	if err != nil {
		return nil, err
	}
	return readAnswer(status, answer)
}

// read requests a record or a list of /v1.
func read[T any](ctx context.Context, c *core, target string) (answer T, err error) {
	text, err := c.ask(ctx, http.MethodGet, target, nil)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}
