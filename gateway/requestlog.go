package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
)

// tenantOf is the user value of a request that holds its tenant, while requests are logged.
type tenantOf struct{}

// logsRequests says whether requests are logged. While they are not, they cost nothing.
func (g *Gateway) logsRequests() bool {
	return g.logger.Enabled(context.Background(), slog.LevelDebug)
}

// logRequest writes the debug line of a request that was answered here.
func (g *Gateway) logRequest(ctx *fasthttp.RequestCtx, r route, took time.Duration) {
	if !g.logsRequests() {
		return
	}
	attrs := []slog.Attr{
		slog.String("requestId", string(ctx.Response.Header.Peek(api.HeaderRequestID))),
		slog.String("method", methodOf(ctx)),
		slog.String("route", r.String()),
		slog.Int("status", ctx.Response.StatusCode()),
	}
	if tenantID, ok := ctx.UserValue(tenantOf{}).(string); ok {
		attrs = append(attrs, slog.String("tenantId", tenantID))
	}
	g.logger.LogAttrs(context.Background(), slog.LevelDebug, "request", append(attrs, slog.Duration("duration", took))...)
}

// methodOf returns the request's method, if it is one of HTTP's: any other is text of the
// caller's.
func methodOf(ctx *fasthttp.RequestCtx) string {
	switch m := string(ctx.Method()); m {
	case fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodPost, fasthttp.MethodPut, fasthttp.MethodPatch,
		fasthttp.MethodDelete, fasthttp.MethodOptions, fasthttp.MethodConnect, fasthttp.MethodTrace:
		return m
	}
	return "other"
}
