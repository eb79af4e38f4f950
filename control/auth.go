package control

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// authenticator lets a request in, and returns the context for its handler, or
// says by an error why not.
type authenticator func(ctx huma.Context) (context.Context, error)

// admit is the middleware of an authenticator.
func (d *door) admit(let authenticator) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		inner, err := let(ctx)
		if err != nil {
			d.refuse(ctx, err)
			return
		}
		next(huma.WithContext(ctx, inner))
	}
}

func (d *door) refuse(ctx huma.Context, err error) {
	// A failure to write is huma's to report; the status comes from err.
	_ = huma.WriteErr(d.api, ctx, 500, "", err)
}

// Admit is what an operation has in Metadata["admit"] to let in its callers itself, in
// place of keys: it returns the context for the operation's handler.
type Admit = func(ctx huma.Context) (context.Context, error)

// byKey lets in API keys that hold the operation's scope.
func byKey(known auth.Keys, now func() time.Time) authenticator {
	return func(ctx huma.Context) (context.Context, error) {
		op := ctx.Operation()
		if op.Metadata["public"] == true {
			return ctx.Context(), nil
		}
		if let, own := op.Metadata["admit"].(Admit); own {
			return let(ctx)
		}
		caller, inside := ctx.Context().Value(inProcess{}).(auth.Principal)
		if !inside {
			var err error
			if caller, err = auth.Authenticate(ctx.Context(), ctx.Header("Authorization"), known, now()); err != nil {
				return nil, err
			}
		}
		if err := caller.Require(op.Metadata["scope"].(api.Scope)); err != nil {
			return nil, err
		}
		return auth.WithPrincipal(ctx.Context(), caller), nil
	}
}

// byToken lets in whoever holds the admin token.
func byToken(token string) authenticator {
	return func(ctx huma.Context) (context.Context, error) {
		return ctx.Context(), auth.AdminToken(ctx.Header("Authorization"), token)
	}
}

// keys reads API keys from the database: a revoked key is refused at once.
type keys struct{ db *store.DB }

func (k keys) Key(ctx context.Context, keyID string) (*api.Key, error) {
	return store.Newest(ctx, k.db, api.Keys, keyID)
}
