package gateway

import (
	"time"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/issue"
	"muniment.example/pipeline/trace"
)

// spanNames are the names of routes' spans. A route without one is not traced: beacons, as they are calls of
// browsers, each answered alike, and what says no more than that the process answers.
var spanNames = [routes]string{
	toControl: "forward to control", toDelivery: "POST " + pathDelivery, toBatch: "POST " + pathBatch, toPlayer: "POST " + pathPlayer,
}

const tenantSpan = "muniment.tenant.id"

// trace begins the span of a request that has arrived, if it is sampled. Only callers with a key decide that theirs are:
// others could use up what is allowed to callers.
func (g *Gateway) trace(ctx *fasthttp.RequestCtx, r route, arrived time.Time) *trace.Span {
	if g.cfg.Tracer == nil || spanNames[r] == "" {
		return nil
	}
	id := callerTrace(ctx)
	if id.Sampled && r != toPlayer { // which has shown its key already
		principal, err := g.authenticate(ctx, g.now(), g.issuer.Deadline(arrived))
		ctx.SetUserValue(authenticated{}, caller{principal, err}) // for who answers the request
		if err != nil {
			id = trace.NotSampled(id)
		}
	}
	return g.cfg.Tracer.Start(id, trace.Server, spanNames[r], arrived)
}

// callerTrace is the ID that the caller names. Several headers count as none.
func callerTrace(ctx *fasthttp.RequestCtx) trace.ID {
	if all := ctx.Request.Header.PeekAll(trace.Header); len(all) == 1 {
		return trace.Parse(view(all[0]))
	}
	return trace.ID{}
}

// passTrace sends on what was decided on a request that is forwarded, in place of what the caller says.
func passTrace(ctx *fasthttp.RequestCtx, req *fasthttp.Request, span *trace.Span) {
	id := span.ID()
	if span == nil {
		id = trace.NotSampled(callerTrace(ctx))
	}
	req.Header.Del("Traceparent") // as the server spells the caller's
	req.Header.Set(trace.Header, id.String())
}

// traceRows says what became of the rows of a batch.
func traceRows(span *trace.Span, tenantID string, results []issue.RowResult) {
	if span == nil {
		return
	}
	accepted := int64(0)
	for n := range results {
		if results[n].Status == issue.Accepted {
			accepted++
		}
	}
	span.Set(tenantSpan, tenantID)
	span.SetInt("muniment.batch.rows", int64(len(results)))
	span.SetInt("muniment.batch.accepted", accepted)
}

// endTrace ends the span of a request that was answered.
func endTrace(ctx *fasthttp.RequestCtx, span *trace.Span) {
	if span != nil {
		span.Set("http.request.method", methodOf(ctx))
		span.SetInt("http.response.status_code", int64(ctx.Response.StatusCode()))
		span.End()
	}
}
