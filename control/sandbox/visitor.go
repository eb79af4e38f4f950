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

// visitor is who asks, once the door has let it in.
type visitor struct {
	address  string         // where it asks from, as secret.hash
	within   bool           // it asks from this very machine
	tenantID string         // that the cookie names; empty without one
	caller   auth.Principal // that acts for the visitor; of no key if the tenant is gone
}

type visitorKey struct{}

func visitorOf(ctx context.Context) visitor {
	v, _ := ctx.Value(visitorKey{}).(visitor)
	return v
}

// in is a context in which what is asked of /v1 is asked for the visitor.
func (v visitor) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// lives says whether the visitor has a tenant.
func (v visitor) lives() bool { return v.caller.Key != nil }

// anyone lets in who keeps to the limits, and is not sent by a page of another site.
func (r *Room) anyone(ctx huma.Context) (context.Context, error) {
	request, _ := humago.Unwrap(ctx)
	if err := r.Count(request); err != nil {
		return nil, err
	}
	if err := r.sites.Check(request); err != nil {
		return nil, foreignSite()
	}
	return ctx.Context(), nil
}

// Count counts a request, whether there is anything under its path or not. It refuses one
// that is beyond the limits of its address.
func (r *Room) Count(request *http.Request) error {
	wait, ok, err := r.admitted(request.Context(), addressOf(request))
	if err == nil && !ok {
		err = &api.Error{Code: api.RateLimited, Message: "too many requests from this address", RetryAfter: wait}
	}
	return err
}

// admitted counts the request, or says how long to wait.
func (r *Room) admitted(ctx context.Context, address netip.Addr) (wait time.Duration, ok bool, err error) {
	if r.shared != nil {
		return r.shared.accept(ctx, address)
	}
	wait, ok = r.limiter.Accept(address)
	return wait, ok, nil
}

// withOrWithout lets in who may have a tenant.
func (r *Room) withOrWithout(ctx huma.Context) (context.Context, error) {
	inner, err := r.anyone(ctx)
	if err != nil {
		return nil, err
	}
	request, _ := humago.Unwrap(ctx)
	v, err := r.recognise(inner, request)
	return v.in(inner), err
}

// lodgers lets in who has a tenant.
func (r *Room) lodgers(ctx huma.Context) (context.Context, error) {
	inner, err := r.withOrWithout(ctx)
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
func (r *Room) recognise(ctx context.Context, request *http.Request) (visitor, error) {
	from := addressOf(request)
	v := visitor{within: withinMachine(request.Host, from)}
	s, err := readSecret(ctx, r.db.Read())
	if err != nil {
		return v, err
	}
	v.address = s.hash(from)
	c, err := request.Cookie(cookieName)
	if err != nil {
		return v, nil
	}
	id, ok := s.check(c.Value)
	if !ok {
		return v, nil
	}
	v.tenantID = id
	l, err := findLodger(ctx, r.db.Read(), id)
	if err != nil || l == nil {
		return v, err
	}
	v.caller, err = r.callerOf(ctx, l.keyID)
	if err == nil && v.lives() {
		err = r.seen(ctx, *l)
	}
	return v, err
}

// callerOf is who asks for a tenant: the holder of its key. It has none if the tenant was
// dropped meanwhile, or an operator has revoked it, which is how to stop a visitor.
func (r *Room) callerOf(ctx context.Context, keyID string) (auth.Principal, error) {
	key, err := store.Newest(ctx, r.db, api.Keys, keyID)
	if key != nil && !auth.Live(key, r.db.Now()) {
		key = nil
	}
	return auth.Principal{Key: key}, err
}

// touchEvery is how exactly it is known when a tenant was used last.
const touchEvery = time.Minute

func (r *Room) seen(ctx context.Context, l lodger) error {
	now := r.db.Now()
	if now.Sub(l.seenAt.Time) < touchEvery {
		return nil
	}
	return r.db.Change(ctx, func(tx *store.Tx) error { return touch(ctx, tx, l.tenantID, store.At(now)) })
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

// ask asks /v1 for the visitor, and returns the data of the answer.
func (r *Room) ask(ctx context.Context, method, target string, body any) (json.RawMessage, error) {
	var text bytes.Buffer
	if body != nil {
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false) // what came in must not grow beyond what the door takes
		if err := enc.Encode(body); err != nil {
			return nil, err
		}
	}
	status, answer, err := r.cfg.Ask(ctx, visitorOf(ctx).caller, method, target, text.Bytes())
	if err != nil {
		return nil, err
	}
	return heard(status, answer)
}

// read asks for a record or a list, and reads it.
func read[T any](ctx context.Context, r *Room, target string) (answer T, err error) {
	text, err := r.ask(ctx, http.MethodGet, target, nil)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}
