package gateway

import (
	"context"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// shownBy is the key of a player's request that holds the API key that its body has shown.
type shownBy struct{}

// operation is how refused requests of a route are counted.
func (r route) operation() string {
	return [routes]string{
		toControl: api.OperationForwarded, toContract: "get-contract", toHealth: "get-health", toDelivery: api.OperationDelivery, toBatch: api.OperationBatch, toPlayer: api.OperationPlayer,
	}[r]
}

// countRefused counts a request that was refused here under the key that it has shown, if the node knows that: control
// is not asked, as that would cost more than the refusal.
func (g *Gateway) countRefused(ctx *fasthttp.RequestCtx, r route, err error) {
	key, _ := ctx.UserValue(shownBy{}).(*api.Key)
	if all := ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization); key == nil && len(all) == 1 {
		key = auth.Shown(context.Background(), view(all[0]), g.rights.Known())
	}
	if key != nil {
		g.rights.Uses().Refused(key, r.operation(), api.From(err), view(ctx.Response.Header.Peek(api.HeaderRequestID)), g.now())
	}
}
