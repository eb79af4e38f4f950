package gateway

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/gateway/issue"
	"muniment.example/pipeline/trace"
)

var errTenantBusy = &api.Error{Code: api.RateLimited, Message: "this tenant has too many deliveries in hand on this node", RetryAfter: time.Second}

// deliver answers POST /v1/delivery: it authenticates the caller, applies the tenant's limit,
// and has package issue decide.
func (g *Gateway) deliver(ctx *fasthttp.RequestCtx, began time.Time, span *trace.Span) error {
	arrived, deadline := g.now(), g.issuer.Deadline(began)
	principal, err := g.deliverer(ctx, arrived, deadline)
	if err != nil {
		return err
	}
	if err := plain(ctx); err != nil {
		return err
	}
	limit, ok := g.admit(principal.TenantID, arrived)
	defer limit.leave()
	if !ok {
		return errTenantBusy
	}
	if principal.Sandbox && !g.issuer.ForSandbox() {
		return g.control.forward(ctx, g.control.placeOf(principal), span) // to a node of control's that has a key for them
	}
	d := issue.Delivery{Body: ctx.PostBody(), Rendered: arrived, Span: span}
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
	span.Set(tenantSpan, principal.TenantID)
	span.SetBool("muniment.replayed", replayed)
	markJSON(ctx)
	return nil
}

// deliverer returns who sends a request; the error is 401, or 403 if they may not deliver.
func (g *Gateway) deliverer(ctx *fasthttp.RequestCtx, arrived time.Time, deadline context.Context) (auth.Principal, error) {
	principal, err := g.authenticate(ctx, arrived, deadline)
	if err != nil {
		return principal, err
	}
	if g.logsRequests() {
		ctx.SetUserValue(tenantOf{}, principal.TenantID)
	}
	g.rights.Uses().Used(principal.Key, arrived)
	return principal, principal.Require(api.DeliveryWrite)
}

// authenticated is the key of a request that holds what authenticate has found.
type authenticated struct{}

// caller is what authenticate has found.
type caller struct {
	auth.Principal
	err error
}

// authenticate returns who sends a request; the error is 401, or that of the look-up. Keys that the node knows never wait
// for others, of which only so many requests may be in hand: anybody can make up a key that has to be looked up.
// Several headers count as none.
func (g *Gateway) authenticate(ctx *fasthttp.RequestCtx, arrived time.Time, deadline context.Context) (auth.Principal, error) {
	if c, known := ctx.UserValue(authenticated{}).(caller); known {
		return c.Principal, c.err
	}
	var header string
	if all := ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization); len(all) == 1 {
		header = view(all[0])
	}
	principal, err := auth.Authenticate(deadline, header, g.known, arrived)
	if err != errUnknownKey {
		return principal, err
	}
	from := g.addressOf(ctx)
	if g.lookups.take(from, true) != admitted {
		return principal, errLookups
	}
	defer g.lookups.release(from)
	principal, err = auth.Authenticate(deadline, header, g.rights, arrived)
	ctx.SetUserValue(authenticated{}, caller{principal, err}) // who asks again costs no other look-up
	return principal, err
}

// knownKeys are the keys that the node knows; the error of another one is errUnknownKey.
type knownKeys struct{ auth.Keys }

var (
	errUnknownKey = errors.New("the node does not know the key")
	errLookups    = &api.Error{Code: api.RateLimited, Message: "too many requests with keys that this node has yet to look up are in hand, or too many from this address", RetryAfter: time.Second}
)

// Key implements auth.Keys.
func (k knownKeys) Key(ctx context.Context, keyID string) (*api.Key, error) {
	key, err := k.Keys.Key(ctx, keyID)
	if err == nil && key == nil {
		err = errUnknownKey
	}
	return key, err
}

// plain refuses a delivery with a query or with a content coding: neither would be heeded.
func plain(ctx *fasthttp.RequestCtx) error {
	if len(ctx.URI().QueryString()) > 0 {
		return unknownParameter(ctx)
	}
	return uncoded(ctx)
}

// uncoded refuses a body with a content coding.
func uncoded(ctx *fasthttp.RequestCtx) error {
	coding := ctx.Request.Header.Peek(fasthttp.HeaderContentEncoding)
	if len(coding) == 0 || bytes.EqualFold(coding, []byte("identity")) {
		return nil
	}
	ctx.Response.Header.Set(fasthttp.HeaderAcceptEncoding, "identity")
	return &api.Error{
		Code: api.BadRequest, HTTPStatus: fasthttp.StatusUnsupportedMediaType,
		Message: "the Content-Encoding " + strings.ToValidUTF8(string(coding[:min(len(coding), maxCodingName)]), "�") + " is not accepted: send a delivery uncompressed, or a batch",
	}
}

// maxCodingName is how much of a Content-Encoding an error repeats, in bytes.
const maxCodingName = 64

// admit counts a delivery of a tenant in, until limit.leave, and delays it if it must; ok is
// false above the tenant's cap.
func (g *Gateway) admit(tenantID string, arrived time.Time) (limit *tenantLimit, ok bool) {
	limit = g.tenants.of(tenantID)
	delay, ok := g.tenants.enter(limit, arrived)
	if !ok {
		g.limited.add(tenantID, limitDeliveries)
	}
	if ok && delay > 0 {
		g.metrics.delayed.Inc()
		g.limited.add(tenantID, limitDelay)
		g.pause(delay)
	}
	return limit, ok
}

// idempotencyKey returns the header's value; two headers give an empty key, which is refused. An
// empty header is given, too: a caller whose variable is empty must not deliver unprotected.
func idempotencyKey(ctx *fasthttp.RequestCtx) (key []byte, given bool) {
	keys := ctx.Request.Header.PeekAll(api.HeaderIdempotencyKey)
	if len(keys) == 1 {
		key = keys[0]
	}
	return key, len(keys) > 0
}

// view returns b as a string without a copy, valid until b is written to: within one request,
// for a request's memory.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
