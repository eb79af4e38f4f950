package control

import (
	"net/http"
	"time"

	"muniment.example/gateway/auth"
	"muniment.example/pipeline/trace"
)

// beginSpan begins the span of a request, if it is sampled: the gateway says so. Control decides of requests that
// do not name a trace. A request of this process is part of the one that makes it.
func (d *handler) beginSpan(r *http.Request) *trace.Span {
	if d.tracer == nil {
		return nil
	}
	var caller trace.ID
	if all := r.Header.Values(trace.Header); len(all) == 1 {
		caller = trace.Parse(all[0])
	}
	_, inside := r.Context().Value(inProcess{}).(auth.Principal)
	if inside || caller != (trace.ID{}) && !caller.Sampled {
		return nil
	}
	return d.tracer.Start(caller, trace.Server, unmatched, time.Now())
}

// endSpan ends the span of a request, unless it was refused.
func (x *exchange) endSpan(r *http.Request, operation string, status int) {
	if x.span == nil || status >= http.StatusBadRequest {
		return
	}
	x.span.Rename(operation)
	x.span.Set("http.request.method", r.Method)
	x.span.SetInt("http.response.status_code", int64(status))
	if x.tenantID != "" {
		x.span.Set("muniment.tenant.id", x.tenantID)
	}
	x.span.End()
}
