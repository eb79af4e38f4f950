package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
)

// errElsewhere refuses a tenant of the sandbox.
var errElsewhere = api.Conflict("deliveries of the sandbox's tenants are not taken by this node")

// ErrNoSandbox says that a tenant is not one of the sandbox, or not any more.
var ErrNoSandbox = errors.New("the tenant is none of the sandbox")

// Deliver answers as POST /v1/delivery does to a body without an Idempotency-Key, for a
// tenant of the sandbox and for a room of this process: without HTTP, and without a
// secret, but keyID is the tenant's key on whose behalf it is, as the event tells; from
// its revocation on the answer is 401. answer is the envelope, be it of an error; it is
// the caller's. When status is 200 the receipt is durable; with any other nothing was
// promised.
//
// An error is that the tenant is none of the sandbox (ErrNoSandbox), that this could not
// be found out, or that ctx was done before anything happened. Then there is no answer.
// Safe for concurrent use; body is not kept.
func (g *Gateway) Deliver(ctx context.Context, tenantID, keyID string, body []byte) (status int, answer []byte, err error) {
	began := time.Now()
	if err := g.sandboxed(ctx, tenantID); err != nil {
		return 0, nil, fmt.Errorf("cannot deliver for the tenant %s: %w", tenantID, err)
	}
	var at fasthttp.RequestCtx // an answer, and nothing else of it
	nameRequest(&at)
	if err := g.inside(&at, tenantID, keyID, body, began); err != nil {
		g.refuse(&at, err)
	}
	status = at.Response.StatusCode()
	g.metrics.observe(toDelivery, status, time.Since(began))
	return status, bytes.Clone(at.Response.Body()), nil
}

func (g *Gateway) sandboxed(ctx context.Context, tenantID string) error {
	if g.cfg.IsSandbox == nil {
		return ErrNoSandbox
	}
	is, err := g.cfg.IsSandbox(ctx, tenantID)
	switch {
	case err != nil:
		return err
	case !is:
		return ErrNoSandbox
	}
	return ctx.Err()
}

// inside is take and deliver for Deliver.
func (g *Gateway) inside(at *fasthttp.RequestCtx, tenantID, keyID string, body []byte, began time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			g.logger.Error("a delivery panicked", "route", "inside", "panic", p, "stack", string(debug.Stack()))
			err = errors.New("panic")
		}
	}()
	defer g.inFlight.Add(-1)
	switch {
	case g.inFlight.Add(1) > int64(g.cfg.MaxInFlight):
		return errOverloaded
	case g.phase.Load() >= refusing:
		return errDraining
	case len(body) > maxDeliveryBody:
		return errTooLarge
	}
	arrived := g.now()
	d := g.begin(began)
	defer g.end(d)
	d.tenant, d.keyID, d.sandbox, d.claim = tenantID, keyID, true, claimed{}
	if err := d.decode(body); err != nil {
		return err
	}
	return g.issue(at, d, arrived)
}

// RunInside is Run for a gateway that serves Deliver alone: it listens nowhere. Whoever
// calls Deliver should have ended before ctx is done; later calls are answered 503.
func (g *Gateway) RunInside(ctx context.Context) error {
	defer g.flushing(ctx)()
	g.phase.Store(serving)
	<-ctx.Done()
	g.drain()
	g.phase.Store(gone)
	return nil
}
