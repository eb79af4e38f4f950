package gateway

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gate"
	"muniment/gateway/api"
)

const (
	maxDeliveryBody = 64 << 10
	maxBody         = 1 << 20

	pathContract = "/v1"
	pathHealth   = "/v1/healthz"
	pathDelivery = "/v1/delivery"
)

// route is a bounded label: one of the paths served here, or all that control serves.
type route uint8

const (
	toControl route = iota
	toContract
	toHealth
	toDelivery
	routes
)

func (r route) String() string { return [routes]string{"control", "contract", "health", "delivery"}[r] }

// method is the one method of a route; empty is any.
func (r route) method() string {
	return [routes]string{"", fasthttp.MethodGet, fasthttp.MethodGet, fasthttp.MethodPost}[r]
}

func routeOf(path []byte) route {
	switch string(path) {
	case pathDelivery:
		return toDelivery
	case pathContract:
		return toContract
	case pathHealth:
		return toHealth
	}
	return toControl
}

// bodyLimit is the longest body that a route takes, in bytes.
func (r route) bodyLimit() int {
	if r == toDelivery {
		return maxDeliveryBody
	}
	return maxBody
}

var errOverloaded = api.Unavailable(api.Overloaded, "this node has too many requests in hand", time.Second)

// handle answers one request.
func (g *Gateway) handle(ctx *fasthttp.RequestCtx) {
	began := time.Now()
	r := routeOf(ctx.Path())
	defer func() {
		if p := recover(); p != nil {
			g.logger.Error("handler panicked", "route", r.String(), "panic", p, "stack", string(debug.Stack()))
			g.refuse(ctx, errors.New("panic"))
		}
		if g.phase.Load() >= leaving {
			ctx.SetConnectionClose()
		}
		g.metrics.observe(r, ctx.Response.StatusCode(), time.Since(began))
	}()
	nameRequest(ctx)
	body := g.bodies.Get().(*arrival)
	defer g.bodies.Put(body)
	if err := body.receive(ctx, r); err != nil {
		g.refuseRest(ctx, err)
		return
	}
	began = time.Now()
	// Only now: a body that trickles in must not take a place from others.
	if n := g.inFlight.Add(1); n > int64(g.cfg.MaxInFlight) {
		g.inFlight.Add(-1)
		g.refuse(ctx, errOverloaded)
		return
	}
	defer g.inFlight.Add(-1)
	if err := g.serve(ctx, r); err != nil {
		g.refuse(ctx, err)
	}
}

func (g *Gateway) serve(ctx *fasthttp.RequestCtx, r route) error {
	if m := r.method(); m != "" && string(ctx.Method()) != m && !(m == fasthttp.MethodGet && ctx.IsHead()) {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, m)
		return &api.Error{Code: api.BadRequest, HTTPStatus: fasthttp.StatusMethodNotAllowed, Message: "this path takes " + m + " only"}
	}
	if g.phase.Load() >= refusing {
		return errDraining
	}
	switch r {
	case toDelivery:
		return g.deliver(ctx)
	case toContract:
		return g.contract(ctx)
	case toHealth:
		return answer(ctx, map[string]string{"status": "ok"})
	default:
		return g.forward(ctx)
	}
}

// contract tells a client what it speaks to.
func (g *Gateway) contract(ctx *fasthttp.RequestCtx) error {
	return answer(ctx, struct {
		Service         string `json:"service"`
		ContractVersion string `json:"contractVersion"`
		GateVersion     string `json:"gateVersion"`
		Ruleset         string `json:"ruleset"`
	}{"muniment", api.ContractVersion, gate.Version, gate.RulesetHash()})
}
