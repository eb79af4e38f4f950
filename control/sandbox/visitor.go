package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// visitor is the caller of an admitted request.
type visitor struct {
	address  string         // the caller's address, as secret.hash
	within   bool           // the caller is on this machine
	tenantID string         // the tenant that the cookie names; empty without a cookie
	caller   auth.Principal // acts for the visitor; has no Key if there is no such tenant
}

type visitorKey struct{}

func visitorOf(ctx context.Context) visitor {
	v, _ := ctx.Value(visitorKey{}).(visitor)
	return v
}

// in returns a context in which call and read act for the visitor.
func (v visitor) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// hasTenant says whether the visitor has a tenant, whose key is in force.
func (v visitor) hasTenant() bool { return v.caller.Key != nil }

// visitors recognises visitors, and enforces the limits of their addresses.
type visitors struct {
	*core
	*Callers
}

// withOrWithout admits visitors with or without a tenant.
func (s *visitors) withOrWithout(ctx huma.Context) (context.Context, error) {
	inner, err := s.Anyone(ctx)
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
	case v.hasTenant():
		return inner, nil
	case v.tenantID != "":
		return nil, evicted()
	}
	return nil, noTenant()
}

// recognise reads the cookie, and ignores one that this service did not sign.
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
	if err == nil && v.hasTenant() {
		err = s.seen(ctx, *l)
	}
	return v, err
}

// callerOf returns the principal with a tenant's key. It has no Key if the tenant was dropped, or if
// an operator has revoked the key, which is how to stop a visitor.
func (s *visitors) callerOf(ctx context.Context, keyID string) (auth.Principal, error) {
	key, err := store.Newest(ctx, s.db, api.Keys, keyID)
	if key != nil && !auth.Live(key, s.db.Now()) {
		key = nil
	}
	return auth.Principal{Key: key}, err
}

// touchEvery is the precision of a tenant's recorded last use.
const touchEvery = time.Minute

func (s *visitors) seen(ctx context.Context, l visitorTenant) error {
	now := s.db.Now()
	if now.Sub(l.seenAt.Time) < touchEvery {
		return nil
	}
	return s.db.Change(ctx, func(tx *store.Tx) error { return touch(ctx, tx, l.tenantID, store.At(now)) })
}

// call sends a request to /v1 for the visitor, and returns the data of the response.
func (s *core) call(ctx context.Context, method, target string, body any) (json.RawMessage, error) {
	var text bytes.Buffer
	if body != nil {
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false) // a body must not grow beyond the longest that /v1 accepts
		if err := enc.Encode(body); err != nil {
			return nil, err
		}
	}
	status, response, err := s.cfg.Call(ctx, visitorOf(ctx).caller, method, target, text.Bytes())
	if err != nil {
		return nil, err
	}
	return readResponse(status, response)
}

// read requests a record or a list of /v1.
func read[T any](ctx context.Context, c *core, target string) (data T, err error) {
	text, err := c.call(ctx, http.MethodGet, target, nil)
	if err == nil {
		err = json.Unmarshal(text, &data)
	}
	return data, err
}
