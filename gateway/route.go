package gateway

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/pipeline/trace"
)

const (
	maxDeliveryBody = 64 << 10
	maxBatchBody    = 8 << 20 // also when unpacked
	maxBody         = 1 << 20

	// mostStrangeBytes is how much of bodies above bodyStep a node has in memory whose callers have no valid key, in
	// bytes, and an eighth of it that of an address.
	mostStrangeBytes = 64 << 20

	pathContract = "/v1"
	pathHealth   = "/v1/healthz"
	pathDelivery = "/v1/delivery"
	pathBatch    = "/v1/delivery/ingest-batch"
	pathPlayer   = "/adapters/broadsign"

	// pathsOfSandbox begins the paths for visitors without a key: the sandbox, the playground, applications.
	pathsOfSandbox = "/api/"
	// pathOfConsole begins the paths of the console, and pathOfPayees those of payees' links.
	pathOfConsole = "/console"
	pathOfPayees  = "/payee"
	// pathsOfVerification begins the path of the key directory.
	pathsOfVerification = "/.well-known/"
)

// route is a bounded label: one of the paths served here, or all that control serves.
type route uint8

const (
	toControl route = iota
	toContract
	toHealth
	toDelivery
	toBatch
	toBeacon
	toPlayer
	routes
)

func (r route) String() string {
	return [routes]string{"control", "contract", "health", "delivery", "batch", "beacon", "player"}[r]
}

// method is the one method of a route; empty means any. A beacon is answered whatever its method.
func (r route) method() string {
	return [routes]string{"", fasthttp.MethodGet, fasthttp.MethodGet, fasthttp.MethodPost, fasthttp.MethodPost, "", fasthttp.MethodPost}[r]
}

func routeOf(path []byte) route {
	switch string(path) {
	case pathDelivery:
		return toDelivery
	case pathBatch:
		return toBatch
	case pathPlayer:
		return toPlayer
	case pathContract:
		return toContract
	case pathHealth:
		return toHealth
	}
	if bytes.HasPrefix(path, []byte(api.PathBeacon)) {
		return toBeacon
	}
	return toControl
}

// bodyLimit is the longest body that a route takes, in bytes.
func (r route) bodyLimit() int {
	switch r {
	case toDelivery:
		return maxDeliveryBody
	case toBatch, toPlayer:
		return maxBatchBody
	case toBeacon:
		return 0
	}
	return maxBody
}

var errBodies = &api.Error{Code: api.RateLimited, Message: "too many long bodies without a valid key are being read, or too many from this address", RetryAfter: time.Second}

var errOverloaded = api.Unavailable(api.Overloaded, "this node has too many requests in hand", time.Second)

// handle answers one request. The answer to a request above a bound is held back, so that
// callers who retry at once don't take the node's time from others. A request that is held
// back keeps nothing but its connection.
func (g *Gateway) handle(ctx *fasthttp.RequestCtx) {
	nameRequest(ctx)
	if err := g.take(ctx, routeOf(ctx.Path())); g.isHeldBack(err) {
		g.heldBack.Add(1)
		g.pause(spread(g.cfg.BusyPause))
		g.heldBack.Add(-1)
	}
	if g.phase.Load() >= leaving {
		ctx.SetConnectionClose()
	}
}

// isHeldBack says whether an error is that of a request above a bound.
func (g *Gateway) isHeldBack(err error) bool {
	switch err {
	case errTenantBusy, errOverloaded, errControlBusy, errTenantBatches, errBatchesFull, errBodies, errWrongKeys, errLookups:
		return true
	}
	return slices.ContainsFunc(g.control.kinds(), func(c *callers) bool { return err == error(c.busy) })
}

// pause waits, at most until the gateway drains.
func (g *Gateway) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.draining.Done():
	}
}

// spread draws a random pause around the given one, so that callers that were refused together
// don't come back together.
func spread(pause time.Duration) time.Duration { return pause/2 + rand.N(pause) }

// take answers a request. The error is one that was sent to the caller.
func (g *Gateway) take(ctx *fasthttp.RequestCtx, r route) (err error) {
	began := ctx.Time()
	var span *trace.Span
	defer func() { err = g.conclude(ctx, r, began, span, err, recover()) }()
	body := g.arrivals[r].Get().(*arrival)
	defer func() { body.forget(); g.arrivals[r].Put(body) }()
	if err := g.receive(ctx, r, body); err != nil {
		closeBehind(ctx)
		return err
	}
	began = time.Now()
	// Only now: a body that trickles in must not take a place from others.
	defer g.inFlight.Add(-1)
	if g.inFlight.Add(1) > int64(g.cfg.MaxInFlight) {
		return errOverloaded
	}
	span = g.trace(ctx, r, began)
	return g.serve(ctx, r, body, began, span)
}

// conclude answers a request that has failed or panicked, and counts and logs it. It returns the error
// that was sent to the caller.
func (g *Gateway) conclude(ctx *fasthttp.RequestCtx, r route, began time.Time, span *trace.Span, err error, panicked any) error {
	if panicked != nil {
		g.logger.Error("handler panicked", "route", r.String(), "panic", panicked, "stack", string(debug.Stack()))
		err = errors.New("panic")
	}
	switch {
	case err != nil && r == toBeacon:
		g.metrics.beacons[beaconUnavailable].Inc()
		answerPixel(ctx)
	case err != nil:
		g.refuse(ctx, err)
		g.countRefused(ctx, r, err)
	}
	took := time.Since(began)
	if err != nil || ctx.Response.StatusCode() >= fasthttp.StatusBadRequest {
		span = nil // what is refused has none
	}
	g.metrics.observe(r, ctx.Response.StatusCode(), took, span)
	endTrace(ctx, span)
	if err != nil || r != toControl { // what control has answered, it logs itself
		g.logRequest(ctx, r, took)
	}
	return err
}

// expect answers a request that waits for 100 Continue before it sends its body: 100, or an error if
// the key that the request needs is not valid. Control judges the keys of its requests again.
func (g *Gateway) expect(ctx *fasthttp.RequestCtx) (status int) {
	nameRequest(ctx)
	r, began := routeOf(ctx.Path()), time.Now()
	var err error
	defer func() {
		if p := recover(); err != nil || p != nil {
			closeBehind(ctx)
			_ = g.conclude(ctx, r, began, nil, err, p) // which is answered
			status = ctx.Response.StatusCode()
		}
	}()
	if err = g.mayContinue(ctx, r, began); err != nil {
		return 0
	}
	return fasthttp.StatusContinue
}

func (g *Gateway) mayContinue(ctx *fasthttp.RequestCtx, r route, began time.Time) error {
	switch {
	case r == toDelivery, r == toBatch:
		_, err := g.deliverer(ctx, g.now(), g.issuer.Deadline(began))
		return err
	case r == toControl && bytes.HasPrefix(ctx.Path(), []byte(pathContract+"/")):
		_, err := g.authenticate(ctx, g.now(), g.issuer.Deadline(began))
		if e := api.From(err); err != nil && e.GetStatus() == fasthttp.StatusUnauthorized {
			return e
		}
	}
	return nil
}

// receive reads a request's body. The body of a batch is large, and read only for callers who
// may deliver. Of all others but the players' no more than bodyStep is read before the body counts as somebody's.
func (g *Gateway) receive(ctx *fasthttp.RequestCtx, r route, body *arrival) error {
	if err := framing(ctx, r); err != nil {
		return err
	}
	if r == toBatch && ctx.Request.Header.ContentLength() > 0 {
		principal, err := g.deliverer(ctx, g.now(), g.issuer.Deadline(time.Now()))
		if err != nil {
			return err
		}
		body.allowance = allowance{node: &g.batches, tenant: g.tenants.of(principal.TenantID)}
	}
	if r == toPlayer {
		return g.receiveOfPlayer(ctx, body)
	}
	if r != toBatch && ctx.Request.Header.ContentLength() > bodyStep {
		body.opened = func(a *arrival, more int) (done bool, err error) {
			if a.room+more <= bodyStep {
				return false, nil
			}
			if a.allowance, err = g.allowanceOf(ctx, r); err == nil {
				err = a.take(a.room)
			}
			return true, err
		}
	}
	return body.receive(ctx, r.bodyLimit())
}

// allowanceOf says as whose a long body counts: as the tenant's whose key the request has, or else as that of an address. The
// error is that of a delivery whose caller may not deliver. Who has a tenant of the sandbox is a stranger.
func (g *Gateway) allowanceOf(ctx *fasthttp.RequestCtx, r route) (allowance, error) {
	principal, err := g.authenticate(ctx, g.now(), g.issuer.Deadline(time.Now()))
	switch {
	case err == nil && !principal.Sandbox:
		return allowance{node: &g.batches, tenant: g.tenants.of(principal.TenantID)}, nil
	case err != nil && r == toDelivery:
		return allowance{}, err
	}
	return allowance{strangers: g.strangeBytes, from: g.addressOf(ctx)}, nil
}

// serve answers a request whose body had arrived when it began.
func (g *Gateway) serve(ctx *fasthttp.RequestCtx, r route, body *arrival, began time.Time, span *trace.Span) error {
	if m := r.method(); m != "" && string(ctx.Method()) != m && !(m == fasthttp.MethodGet && ctx.IsHead()) {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, m)
		return &api.Error{Code: api.BadRequest, HTTPStatus: fasthttp.StatusMethodNotAllowed, Message: "this path takes " + m + " only"}
	}
	if g.phase.Load() >= refusing {
		return issue.ErrEnded
	}
	switch r {
	case toDelivery:
		return g.deliver(ctx, began, span)
	case toBatch:
		return g.ingest(ctx, body, span)
	case toPlayer:
		return g.player(ctx, span)
	case toBeacon:
		g.beacon(ctx, began)
		return nil
	case toContract:
		return g.contract(ctx)
	case toHealth:
		return answer(ctx, api.Health{Status: "ok"})
	default:
		at, err := g.placeOf(ctx, began)
		if err != nil {
			return err
		}
		return g.control.forward(ctx, at, span)
	}
}

// placeOf says whose place a request to control takes: that of the tenant whose key, or session, it has. Who has none, or
// one that is not valid, has the place of an address. The error is that of a key that can't be looked up now.
func (g *Gateway) placeOf(ctx *fasthttp.RequestCtx, began time.Time) (place, error) {
	begins := func(with string) bool { return bytes.HasPrefix(ctx.Path(), []byte(with)) }
	switch {
	case begins(pathsOfSandbox):
		return place{callers: g.control.visitors, of: g.addressOf(ctx)}, nil
	case begins(pathOfConsole):
		if tenant := g.control.sessions.tenant(&ctx.Request.Header); tenant != "" {
			return place{g.control.tenants, tenant, tenant}, nil
		}
		return place{callers: g.control.console, of: g.addressOf(ctx)}, nil
	case begins(api.PathDownloads), begins(pathOfPayees):
		return place{callers: g.control.downloads, of: g.addressOf(ctx)}, nil
	}
	principal, err := g.authenticate(ctx, g.now(), g.issuer.Deadline(began))
	switch {
	case err == nil:
		return g.control.placeOf(principal), nil
	case err == errLookups:
		return place{}, err
	case begins(pathContract + "/"), begins(pathsOfVerification):
		return place{callers: g.control.strangers, of: g.addressOf(ctx)}, nil
	}
	return place{callers: g.control.pages, of: g.addressOf(ctx)}, nil
}

// addressOf is what limits of a caller without a key count by.
func (g *Gateway) addressOf(ctx *fasthttp.RequestCtx) string {
	return subnet(originOf(ctx, g.cfg.TrustedProxies))
}

// unknownParameter refuses a query, for a route that takes none.
func unknownParameter(ctx *fasthttp.RequestCtx) error {
	for name := range ctx.QueryArgs().All() {
		return api.InvalidField(strings.ToValidUTF8(string(name), "�"), "is an unknown parameter: this operation takes none")
	}
	return &api.Error{Code: api.BadRequest, Message: "the query can't be read"}
}

// contract answers which versions of service, contract and gate this is.
func (g *Gateway) contract(ctx *fasthttp.RequestCtx) error {
	return answer(ctx, api.Contract{
		Service: "muniment", Version: g.cfg.Version, ContractVersion: api.ContractVersion, GateVersion: gate.Version, Ruleset: gate.RulesetHash(),
	})
}
