package gateway

import (
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
)

const forwardedFor = "X-Forwarded-For"

// originOf is the address that a request comes from, as far as it can be believed. Each
// proxy adds to X-Forwarded-For whom it was asked by, so with n trusted proxies before
// this node it is the n-th address from the right, the connection's own being none of
// them. Where there is no such address, or one that is none, it is the last hop that
// could be told: whatever a caller writes into the header stands left of that.
func originOf(ctx *fasthttp.RequestCtx, proxies int) string {
	origin := ctx.RemoteIP().String()
	if proxies == 0 {
		return origin
	}
	var hops []string
	for k, v := range ctx.Request.Header.All() {
		if strings.EqualFold(string(k), forwardedFor) {
			hops = append(hops, strings.Split(string(v), ",")...)
		}
	}
	for n := 1; n <= min(proxies, len(hops)); n++ {
		hop, ok := addressOf(strings.TrimSpace(hops[len(hops)-n]))
		if !ok {
			break
		}
		origin = hop
	}
	return origin
}

// schemeOf is how the caller has called: over TLS, be it that of a trusted proxy, which says so.
func schemeOf(ctx *fasthttp.RequestCtx, proxies int) string {
	if ctx.IsTLS() || proxies > 0 && string(ctx.Request.Header.Peek(api.HeaderForwardedProto)) == "https" {
		return "https"
	}
	return "http"
}

// addressOf reads an address, which some proxies write with a port.
func addressOf(text string) (string, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().String(), true
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return a.Unmap().String(), err == nil
}
