package gateway

import (
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
)

const forwardedFor = "X-Forwarded-For"

// originOf returns the address that a request comes from, as far as it can be trusted. Each
// proxy appends the address of its own client to X-Forwarded-For, so with n trusted proxies
// before this node the origin is the n-th address from the right. If there are fewer, or one of
// them can't be parsed, it is the last one before that: what a caller writes into the header
// stands further left.
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

// schemeOf returns the caller's scheme: https also if a trusted proxy says so.
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

// subnet is what limits of an address count by: itself, or the /64 of one of IPv6, which is one
// customer's.
func subnet(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap(); ip.Is6() {
		p, _ := ip.Prefix(64) // fails for bit counts out of range only
		ip = p.Addr()
	}
	return ip.String()
}
