package gateway

import (
	"bytes"
	"errors"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gate"
	"muniment/gateway/api"
)

const (
	maxHeaderBytes  = 8 << 10
	maxHeaders      = 100
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

// headerReceived sets the limit of the body before it is read. A message that will
// be refused for its framing is read no further.
func headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	path, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	limit := maxBody
	if routeOf(path) == toDelivery {
		limit = maxDeliveryBody
	}
	if framingFault(h) != nil {
		// handle meets the fault again: it looks at the raw headers.
		h.Del(fasthttp.HeaderTransferEncoding)
		h.Del(fasthttp.HeaderExpect)
		h.SetContentLength(0)
	}
	if h.ContentLength() > limit {
		h.Del(fasthttp.HeaderExpect) // or fasthttp would ask for the body first
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: limit}
}

var (
	errProtocol = &api.Error{Code: api.BadRequest, Message: "the protocol must be HTTP/1.0 or HTTP/1.1"}
	errCoding   = &api.Error{Code: api.BadRequest, Message: "a transfer coding is not accepted; send one Content-Length"}
	errFolded   = &api.Error{Code: api.BadRequest, Message: "folded headers are not accepted"}
	errHeaders  = &api.Error{Code: api.BadRequest, Message: "more than 100 headers"}

	transferEncoding = []byte(fasthttp.HeaderTransferEncoding + ":")
)

// framingFault refuses what fasthttp lets pass although two servers may read it
// differently. It looks at the headers as they came.
func framingFault(h *fasthttp.RequestHeader) *api.Error {
	raw := h.RawHeaders()
	switch {
	case string(h.Protocol()) != "HTTP/1.1" && string(h.Protocol()) != "HTTP/1.0":
		return errProtocol
	case hasHeader(raw, transferEncoding):
		return errCoding
	case bytes.Contains(raw, []byte("\n ")) || bytes.Contains(raw, []byte("\n\t")):
		return errFolded
	case bytes.Count(raw, []byte{'\n'}) > maxHeaders+1: // the blank line is one more
		return errHeaders
	}
	return nil
}

// hasHeader says whether a line begins with the name, in any case. Names are short
// and lines few: it looks at the first letter of each line.
func hasHeader(raw, name []byte) bool {
	for len(raw) > 0 {
		if raw[0]|0x20 == name[0]|0x20 && len(raw) >= len(name) && bytes.EqualFold(raw[:len(name)], name) {
			return true
		}
		end := bytes.IndexByte(raw, '\n')
		if end < 0 {
			return false
		}
		raw = raw[end+1:]
	}
	return false
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
	if fault := framingFault(&ctx.Request.Header); fault != nil {
		lingerOn(ctx)
		ctx.SetConnectionClose()
		return fault
	}
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
