// Package gateway is the service's front door: a fasthttp server that decides
// POST /v1/delivery itself and hands every other route to control.
//
// The promise: a receipt that a caller holds is never lost and never counted
// twice. Sign, make durable, answer 200; never another order. Whatever goes wrong
// before the log has acknowledged is a 503 that promises nothing.
//
// Order of a delivery, and the answer when it stops there: framing and size (400,
// 413), key (401), scope (403), the tenant's share of this node (429), JSON (400)
// and its fields (422), a known Idempotency-Key (the first answer again), a key to
// sign with (503), lease on rights (503), right (404), its state and window (409),
// constraint gate (412), sign, append, answer. delivery.go reads in this order.
//
// Decisions:
//
//   - Text fields (rightId, spatialAnchorId, spatialPlacementId, correlationId) hold
//     at most 512 bytes, dataSubjectId at most 256. dwellMs is at most
//     sealer.MaxDwellMs. rightId and dataSubjectId must not be empty.
//     Nesting above 32 is 400.
//   - A time of the caller's (renderedAt, issuedAt, playedAt) is 422: a play of last week
//     would be signed as of now.
//   - A name given twice anywhere in the body is 422 on its path, but a body that
//     is no JSON even apart from that is 400.
//   - Idempotency: concurrent requests with one key wait for the first of them, for
//     at most Config.IdempotencyWait, and then get its bytes with
//     "Idempotent-Replayed: true". Only when the wait runs out do they get 409 with
//     retry-after. A first request that was refused or failed frees the key, and the
//     next in line tries for itself. Which body belongs to a key is known from the
//     log alone: the salted hash in the event's private part. Where that part was
//     erased, the key alone decides.
//   - Keys are remembered for 24 h or the newest Config.IdempotencyEntries, in
//     this process's memory, rebuilt from the log when the node starts. The
//     limit is shared out over 64 shards by hash.
//   - A log may lose what answers to retries are rendered from, not the promise (see
//     Log): the key is free then, and the retry's event a duplicate likewise.
//   - When an append fails, nobody knows whether the record is in the log. The caller
//     gets 503 and the key is free; should the record turn up after all, the
//     retry's event is a duplicate of it by its hash, and is metered zero.
//   - seq counts the attempts to append: a number whose append failed may be missing.
//   - Overload is refused before work is done: a bound on connections, on connections
//     of one address, on requests in flight (503 OVERLOADED), and on each tenant's
//     (429), so that one tenant can't crowd out the others. The answer to a request
//     above a bound is held back for about Config.BusyPause, or refusals alone would keep
//     the node busy. While others deliver, a tenant that presses against its bound is
//     served one delivery each Config.BusyTurn (see shares).
//   - A request takes a place once it has arrived whole, and its body the memory of
//     what has arrived, never of what was announced.
//   - Control's answers above 64 KiB are streamed at the client's pace; how many, and
//     how many to one address, is bounded apart from the requests in hand, so that slow
//     readers never take control away from others.
//   - fasthttp's unsafe defaults are closed: its own error texts become our envelope,
//     its log lines lose their arguments (they quote headers), a message with a
//     transfer coding, folded headers, a space in the name of one, or more than 100 headers
//     is refused unread.
//   - What control's server would refuse in plain text before a handler is reached (a
//     missing or odd Host, a path with a bad escape) is refused here, in the envelope; the
//     rest is control's to judge. Only a connection that can't be opened, read or written
//     is an outage of control.
//   - At debug each request that is answered here has a line, with its tenant, route and
//     status. Control logs those that are forwarded.
//   - A connection that is closed on unread input is closed in two steps, so that the
//     answer is not lost to a reset.
//   - TLS: a handshake has Config.ReadTimeout, like a request. One that fails is
//     counted, never logged; who speaks plain HTTP is told so. A connection above a
//     bound still gets its 503, if its handshake is quick.
//   - The sandbox's tenants are served by a key of their own, which signs for no other
//     tenant; a node that has none refuses them with 409 STATE_CONFLICT. A room of the
//     same process delivers for them without HTTP: see Gateway.Deliver.
//   - Draining: see Gateway.Run.
//
// What is down: without control, deliveries go on until the lease ends, all other
// routes are 503. Without the log, deliveries are 503.
//
// Not here: certificates (certs), the rules (gate), the formats (sealer), the
// truth about rights (control).
package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gateway/api"
	"muniment/gateway/snapshot"
)

// Gateway serves one node. Make it with New, run it with Run.
type Gateway struct {
	cfg     Config
	rights  *snapshot.View
	log     Log
	now     func() time.Time
	logger  *slog.Logger
	metrics *metrics
	random  io.Reader

	server   *fasthttp.Server
	listener *listener
	control  *fasthttp.HostClient
	claims   *claims
	limits   deadlines
	streams  *streams
	refusals refusals
	pool     sync.Pool // of *delivery
	desks    sync.Pool // of *desk
	bodies   sync.Pool // of *arrival
	seq      atomic.Uint64
	inFlight atomic.Int64
	heldBack atomic.Int64
	forwards atomic.Int64 // requests that control is answering
	shares   shares

	logTrouble     outage
	controlTrouble outage
	faults         faults // logged seldom
	keyTrouble     outage

	phase atomic.Int32
	// draining ends when answers that have no end of their own must end.
	draining context.Context
	drain    context.CancelFunc
}

// The phases of a gateway's life, in their order.
const (
	starting int32 = iota // rebuilds what the log knows; nothing is accepted yet
	serving               // accepts and answers
	leaving               // was told to stop: answers everything, but each answer closes its connection
	refusing              // the grace is over: 503 DRAINING
	gone                  // all connections are closed
)

// New wires a gateway; nothing runs yet.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	g := &Gateway{
		cfg: cfg, rights: cfg.Rights, log: cfg.Log, now: cfg.Now, logger: cfg.Logger, random: rand.Reader,
		claims: newClaims(cfg.IdempotencyEntries), limits: deadlines{after: cfg.AppendTimeout},
		shares: shares{cap: int64(cfg.MaxTenantInFlight), turn: cfg.BusyTurn, longest: cfg.BusyPause},
	}
	g.draining, g.drain = context.WithCancel(context.Background())
	g.pool.New = func() any { return new(delivery) }
	g.desks.New = func() any { return new(desk) }
	g.bodies.New = func() any { return new(arrival) }
	g.metrics = newMetrics(cfg.Registerer, g)
	g.listener = newListener(&g.cfg, g.metrics)
	g.streams = newStreams(cfg.MaxStreams)
	g.control = g.newControlClient()
	g.server = &fasthttp.Server{
		Handler:        g.handle,
		ErrorHandler:   g.refuseUnread,
		HeaderReceived: headerReceived,
		// Connections are bounded by our own listener, which answers in our envelope:
		// this bound must never be the first to be reached.
		Concurrency:                  2 * cfg.MaxConns,
		ReadBufferSize:               maxHeaderBytes,
		ReadTimeout:                  cfg.ReadTimeout,
		IdleTimeout:                  cfg.IdleTimeout,
		MaxIdleWorkerDuration:        time.Second, // what a crowd leaves behind is soon gone
		StreamRequestBody:            true,        // arrival reads the body and knows the limits
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
		Logger:                       serverLog{cfg.Logger},
	}
	return g, nil
}

// serverLog takes fasthttp's log lines. Their arguments may quote what a caller
// sent, an Authorization header included, so only the constant format is kept.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Printf(format string, _ ...any) {
	l.log.Debug("http server reports", "format", format)
}

// Run rebuilds what the log knows, then listens, and serves until ctx is done, then
// drains and returns nil. Any other return is a failure to start or of the listener. A
// gateway runs once.
//
// listen is called when nothing is left to be done but to serve: the kernel accepts
// connections from then on. It may wait for what else must be there, until ctx is
// done, and should call Listen. Run closes what it returns.
//
// Draining, in this order: the node is no longer ready (Ready). For
// Config.DrainDelay it serves on and still accepts, so that a balancer can take
// notice. Then everything in the accept queue is taken and the listener closes.
// Every answer now closes its connection, and requests on connections that were
// accepted are still served for Config.DrainGrace; a connection that says nothing
// for that long is closed. Later requests get 503 DRAINING. A connection is always
// closed in two steps, so none that was accepted is reset. What has not ended
// after Config.DrainTimeout is cut. Last, refusal counts are written to the log: the
// view of rights and the log must outlive Run.
func (g *Gateway) Run(ctx context.Context, listen func(context.Context) (net.Listener, error)) error {
	if g.cfg.Signer == nil || g.cfg.DialControl == nil {
		return errors.New("cannot listen: Signer or DialControl is missing")
	}
	if err := g.rebuild(ctx); err != nil {
		return fmt.Errorf("cannot rebuild the idempotency index: %w", err)
	}
	ln, err := listen(ctx)
	if err != nil {
		return err
	}
	defer ln.Close()
	g.listener.Listener = ln
	defer g.flushing(ctx)()
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(g.listener) }()
	g.phase.Store(serving)
	select {
	case err := <-served:
		return fmt.Errorf("cannot accept connections: %w", err)
	case <-ctx.Done():
	}
	defer g.phase.Store(gone)
	return g.leave(context.WithoutCancel(ctx), served)
}

// flushing counts refusals from now on, and writes the counts now and then until end is
// called, which writes the last.
func (g *Gateway) flushing(ctx context.Context) (end func()) {
	g.refusals.take(g.now())
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var flusher sync.WaitGroup
	flusher.Go(func() { g.flushRefusals(ctx) })
	return func() {
		stop()
		flusher.Wait()
	}
}

func (g *Gateway) leave(ctx context.Context, served <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.DrainDelay+g.cfg.DrainTimeout)
	defer cancel()
	g.phase.Store(leaving)
	g.logger.Info("gateway drains", "connections", g.listener.open())
	wait(ctx, g.cfg.DrainDelay)
	g.listener.stop()
	<-served

	grace := time.AfterFunc(g.cfg.DrainGrace, func() {
		g.phase.Store(refusing)
		g.drain()
	})
	defer grace.Stop()
	cut := g.listener.drain(ctx, g.cfg.DrainGrace)
	g.drain()
	g.control.CloseIdleConnections()
	if cut > 0 {
		g.logger.Warn("gateway cut connections that did not end in time", "connections", cut)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

var errNotServing = errors.New("not accepting requests")

// Ready is nil while the gateway accepts requests and may decide deliveries.
func (g *Gateway) Ready() error {
	if g.phase.Load() != serving {
		return errNotServing
	}
	return g.rights.Fresh()
}

var errDraining = api.Unavailable(api.Draining, "this node is going away; send the request again on a new connection", time.Second)

// outage tells the log when a part begins to fail and when it works again, instead
// of once for each request in between.
type outage struct{ failing atomic.Bool }

func (o *outage) begins(log *slog.Logger, what string, err error) {
	if o.failing.CompareAndSwap(false, true) {
		log.Error("cannot "+what, "err", err)
	}
}

func (o *outage) ends(log *slog.Logger, what string) {
	if o.failing.Load() && o.failing.CompareAndSwap(true, false) {
		log.Info("can " + what + " again")
	}
}
