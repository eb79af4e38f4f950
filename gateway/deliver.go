package gateway

import (
	"context"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/gateway/issue"
)

var errTenantBusy = &api.Error{Code: api.RateLimited, Message: "this tenant has too many deliveries in hand on this node", RetryAfter: time.Second}

// deliver answers POST /v1/delivery: who is calling, the tenant's share of the node, and
// then what package issue makes of it.
func (g *Gateway) deliver(ctx *fasthttp.RequestCtx, began time.Time) error {
	arrived, deadline := g.now(), g.issuer.Deadline(began)
	principal, err := g.deliverer(ctx, arrived, deadline)
	if err != nil {
		return err
	}
	share := g.shares.of(principal.TenantID)
	defer share.leave()
	switch turn, ok := g.shares.enter(share, arrived); {
	case !ok:
		return errTenantBusy
	case turn > 0:
		g.metrics.turns.Inc()
		g.rest(turn)
	}
	d := issue.Delivery{Body: ctx.PostBody(), Rendered: arrived}
	d.IdempotencyKey, d.HasKey = idempotencyKey(ctx)
	by := issue.Caller{TenantID: principal.TenantID, KeyID: principal.ID, Sandbox: principal.Sandbox}
	// The answer is written where fasthttp keeps it.
	answer, replayed, err := g.issuer.Issue(deadline, ctx.Response.SwapBody(nil)[:0], by, &d)
	ctx.Response.SwapBody(answer)
	if err != nil {
		return err
	}
	if replayed {
		ctx.Response.Header.Set(api.HeaderReplayed, "true")
	}
	ctx.SetContentType(contentJSON)
	return nil
}

// deliverer is who sends a request, if that is somebody who may deliver.
func (g *Gateway) deliverer(ctx *fasthttp.RequestCtx, arrived time.Time, deadline context.Context) (auth.Principal, error) {
	principal, err := auth.Authenticate(deadline, view(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)), g.rights, arrived)
	if err != nil {
		return principal, err
	}
	if g.logsRequests() {
		ctx.SetUserValue(tenantOf{}, principal.TenantID)
	}
	return principal, principal.Require(api.DeliveryWrite)
}

// idempotencyKey is the header's value; of two, none is a key. Peek can't tell an empty header
// from none: it would let a caller whose variable is empty deliver without protection.
func idempotencyKey(ctx *fasthttp.RequestCtx) (key []byte, given bool) {
	keys := ctx.Request.Header.PeekAll(api.HeaderIdempotencyKey)
	if len(keys) == 1 {
		key = keys[0]
	}
	return key, len(keys) > 0
}

// view is b as a string without a copy. It is true only as long as b is not
// written to: within one request, for a request's memory.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
