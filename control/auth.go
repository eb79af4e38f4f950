package control

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// admission authenticates a request, and returns the context for its handler, or the error of the
// refusal.
type admission = func(huma.Context) (context.Context, error)

// authenticator returns the admission for an operation's access; nil for an access that the handler
// does not serve.
type authenticator func(route.Access) admission

// admit is the middleware of an authenticator.
func (d *handler) admit(ctx huma.Context, next func(huma.Context)) {
	op := route.Of(ctx.Operation())
	inner, err := d.authenticate(op.Access)(ctx)
	if _, scoped := op.Access.(route.Scope); err == nil && scoped {
		caller := auth.PrincipalFrom(inner)
		if err = op.RequireEffects(caller); err == nil && op.Confirms && caller.Unconfirmed {
			err = auth.ErrUnconfirmed
		}
	}
	if err != nil {
		d.refuse(ctx, err)
		return
	}
	next(huma.WithContext(ctx, inner))
}

func (d *handler) refuse(ctx huma.Context, err error) {
	// A failure to write is huma's to report; the status comes from err.
	_ = huma.WriteErr(d.api, ctx, 500, "", err)
}

func authorization(ctx huma.Context) string {
	r, _ := humago.Unwrap(ctx)
	return auth.Header(r.Header)
}

func anyone(ctx huma.Context) (context.Context, error) { return ctx.Context(), nil }

// byKey admits API keys that hold the operation's scope, and ends responses that are still written when they don't any more: held
// returns the scopes of a key or a member now.
func byKey(known auth.Keys, held func(ctx context.Context, id string) (api.Scopes, error), now func() time.Time) authenticator {
	return func(access route.Access) admission {
		switch access := access.(type) {
		case route.Public:
			return anyone
		case route.Own:
			return access.Let // control does not start if it is nil
		case route.Scope:
			return func(ctx huma.Context) (context.Context, error) {
				caller, inside := ctx.Context().Value(inProcess{}).(auth.Principal)
				if !inside {
					var err error
					caller, err = auth.Authenticate(ctx.Context(), authorization(ctx), known, now())
					if x, ok := exchangeOf(ctx.Context()); ok {
						x.key, x.dead = caller.Key, errors.Is(err, auth.ErrRevoked) || errors.Is(err, auth.ErrExpired)
					}
					if err != nil {
						return nil, err
					}
				}
				if err := caller.Require(api.Scope(access)); err != nil {
					return nil, err
				}
				return route.Guarded(auth.WithPrincipal(ctx.Context(), caller), now, func(ctx context.Context) error {
					scopes, err := held(ctx, caller.ID)
					if err == nil && !scopes.Allows(api.Scope(access)) {
						err = auth.ErrInvalid
					}
					return err
				}), nil
			}
		}
		return nil
	}
}

// byToken admits holders of the admin token, and those whom the operators' page admits to its own operations.
func byToken(token string) authenticator {
	return func(access route.Access) admission {
		switch access := access.(type) {
		case route.Operator:
			return func(ctx huma.Context) (context.Context, error) {
				return ctx.Context(), auth.AdminToken(authorization(ctx), token)
			}
		case route.Public:
			return anyone
		case route.Own:
			return access.Let
		}
		return nil
	}
}

// keys reads API keys from the database: a revoked key is refused at once.
type keys struct{ db *store.DB }

func (k keys) Key(ctx context.Context, keyID string) (*api.Key, error) {
	return store.Newest(ctx, k.db, api.Keys, keyID)
}
