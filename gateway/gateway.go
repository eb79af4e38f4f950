// Package gateway is the service's front door: a fasthttp server that answers
// POST /v1/delivery, POST /v1/delivery/ingest-batch, beacons and players that post by themselves, and hands
// every other route to control.
//
// A delivery passes framing and size (400, 413), key (401), scope (403), the tenant's
// limit on this node (429), and then package issue, which makes the receipt and documents its
// order and its promise. This package does HTTP, and limits how much of the node each caller
// takes.
//
// Decisions:
//
//   - Overload is refused before work is done: a bound on connections, on requests in
//     flight (503 OVERLOADED), and on each tenant's deliveries (429), so that one tenant
//     can't crowd out the others. The answer to a request above a bound is held back for
//     about Config.BusyPause, or refusals alone would keep the node busy. While others deliver, a tenant that was refused a moment ago is
//     served one delivery each Config.BusyInterval (see tenantLimits).
//   - A request counts as in hand once it has arrived whole. Its body takes the memory of
//     what has arrived, never of what was announced. The body of a batch, up to 8 MiB, is read
//     only for callers whose key may deliver, and all such bodies together have a bound. All others are read beyond their first 8 KiB only within
//     the bound of a tenant or, without a valid key, of an address and of all strangers (route.go). A body that holds its
//     own key, as players send it, is a stranger's until that has come, at most 1 MiB of it (player.go).
//   - Batches have a limited number of slots, of which one tenant may use half. The rows of a
//     tenant's batches take at most half of its cap, and all batches at most half of the log's
//     queue, so that single deliveries are always served (batches.go). Rows are not delayed by
//     Config.BusyInterval, as there are few of them at a time.
//   - The body of a batch that is not JSON, or has a line that is not JSON, is refused as a
//     whole (400): it was cut off or is of another format. JSON is judged row by row.
//   - A request has a place at control from before it is forwarded until its answer is in the gateway's memory
//     or, above 64 KiB, was read by the client, at its pace (places.go). So a request is refused before
//     control has done anything, and what control has answered is always relayed. Tenants, callers without a key, and
//     the sandbox have places of their own, of which one tenant, or one address, has a part: slow
//     readers never take control away from others. A client that takes a long answer at less than Config.LeastRate is cut off.
//   - fasthttp's unsafe defaults are closed: its own error texts become our envelope,
//     its log lines lose their arguments (they quote headers), a message with folded headers,
//     a space in the name of one, or more than 100 headers is refused unread.
//   - A body has one Content-Length or, in HTTP/1.1, exactly one Transfer-Encoding: chunked;
//     any other framing is refused unread. The chunked coding is read strictly (chunked.go):
//     what two servers may read differently ends the connection. Chunk extensions are refused,
//     trailers dropped, and control gets the body with a Content-Length.
//   - What control's server would refuse in plain text before a handler is reached (a
//     missing or odd Host, a path with a bad escape) is refused here, in the envelope;
//     everything else is for control to judge. Only a connection that can't be opened, read
//     or written is an outage of control.
//   - At debug each request that is answered here has a line, with its tenant, route and
//     status. Control logs those that are forwarded.
//   - A connection that is closed on unread input is closed in two steps, so that the
//     answer is not lost to a reset.
//   - TLS: a handshake has Config.ReadTimeout, like a request. One that fails is
//     counted, never logged; plain HTTP gets a 400 that says so. A connection above a
//     bound still gets its 503, if its handshake is quick.
//   - Draining: see Gateway.Run.
//
// Readiness: a node whose every delivery would be 503 is not ready, and names the part. Each check
// asks what a delivery asks (Gateway.Checks).
//
// What is down: without control, deliveries go on until the lease ends, rows whose vendor's id
// is not known here are rejected one by one, all other routes are 503. Without the log, deliveries are 503.
//
// Not here: receipts (issue), certificates (certs), the rules (gate), the formats (sealer),
// the truth about rights (control).
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/snapshot"
)

// Gateway serves one node. Make it with New, run it with Run.
type Gateway struct {
	cfg     Config
	rights  *snapshot.View
	issuer  *issue.Issuer
	now     func() time.Time
	logger  *slog.Logger
	metrics *metrics

	server   *fasthttp.Server
	listener *listener
	control  *proxy
	arrivals [routes]sync.Pool // of *arrival
	inFlight atomic.Int64
	heldBack atomic.Int64
	tenants  tenantLimits
	batches  batches
	// strangeBytes are the bytes of long bodies of callers without a valid key.
	strangeBytes *places
	known        auth.Keys // without asking control
	lookups      *places   // of requests whose keys are looked up
	limited      *limited

	beaconRates rates
	wrongKeys   rates              // of players, by address
	unopened    *places            // bodies of players whose key is still looked for
	unpacker    [codings]sync.Pool // of unpacker

	faults  faults // logged seldom
	backoff api.Backoff

	phase atomic.Int32
	// draining ends when answers that have no end of their own must end.
	draining context.Context
	drain    context.CancelFunc
}

// The phases of a gateway's life, in their order.
const (
	starting int32 = iota // rebuilds what the log knows; nothing is accepted yet
	serving               // accepts and answers
	leaving               // is stopping: answers everything, but each answer closes its connection
	refusing              // the grace is over: 503 DRAINING
	gone                  // all connections are closed
)

// New wires a gateway; nothing runs yet.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	g := &Gateway{
		cfg: cfg, rights: cfg.Rights, issuer: cfg.Issuer, now: cfg.Now, logger: cfg.Logger,
		tenants: tenantLimits{cap: int64(cfg.MaxTenantInFlight), interval: cfg.BusyInterval, longest: cfg.BusyPause},
	}
	g.draining, g.drain = context.WithCancel(context.Background())
	for r := range g.arrivals {
		g.arrivals[r].New = func() any { return &arrival{keep: keepBody} }
	}
	for _, r := range [...]route{toBatch, toPlayer} {
		g.arrivals[r].New = func() any { return &arrival{keep: keepBatch} }
	}
	g.strangeBytes = newPlaces(mostStrangeBytes, mostStrangeBytes/8)
	g.known = knownKeys{g.rights.Known()}
	g.lookups = newPlaces(max(1, cfg.MaxInFlight/4), cfg.MaxInFlight/8)
	g.unopened = newPlaces(mostUnopened, mostUnopened/16)
	for c := range g.unpacker {
		g.unpacker[c].New = coding(c).newUnpacker
	}
	g.limited = newLimited(cfg.Now)
	g.batches = newBatches(&cfg, g.limited)
	g.tenants.slots = max(1, cap(g.batches.slots)/2)
	g.control = newProxy(&g.cfg, g.draining, g.limited)
	g.metrics = newMetrics(cfg.Registerer, g)
	g.listener = newListener(&g.cfg, g.metrics)
	g.server = &fasthttp.Server{
		Handler:        g.handle,
		ErrorHandler:   g.refuseUnread,
		HeaderReceived: headerReceived,
		ExpectHandler:  g.expect,
		// Connections are bounded by our own listener, which answers in our envelope:
		// this bound must never be the first to be reached.
		Concurrency:                  2 * cfg.MaxConns,
		ReadBufferSize:               maxHeaderBytes,
		ReadTimeout:                  cfg.ReadTimeout,
		IdleTimeout:                  cfg.IdleTimeout,
		MaxIdleWorkerDuration:        time.Second, // workers of a burst end soon
		StreamRequestBody:            true,        // arrival reads the body and knows the limits
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        false, // only unreadRoute reads what they quote
		Logger:                       serverLog{cfg.Logger},
	}
	return g, nil
}

// serverLog receives fasthttp's log lines. Their arguments may quote what a caller
// sent, an Authorization header included, so only the constant format is kept.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Printf(format string, _ ...any) {
	l.log.Debug("http server reports", "format", format)
}

// Run rebuilds the index of Idempotency-Keys from the log, listens, serves until ctx is done, then
// drains and returns nil. Any other return is a failure to start or of the listener. A
// gateway runs once.
//
// listen is called when nothing is left to be done but to serve: the kernel accepts
// connections from then on. It may wait for what else must be there, until ctx is
// done. Run closes what it returns.
//
// Draining, in this order: the node is no longer ready (Ready). For
// Config.DrainDelay it serves on and still accepts, so that a balancer can take
// notice. Then the listener closes: a connection that the kernel holds and the gateway
// has not accepted is reset, and its client connects to another node. Every answer now
// closes its connection, and requests on connections that were accepted are still served
// for Config.DrainGrace; a connection on which nothing arrives for that long is closed.
// Later requests get 503 DRAINING. A connection is always closed in two steps, so none
// that was accepted is reset. What has not ended after Config.DrainTimeout is cut. The view of rights and the issuer must outlive Run.
func (g *Gateway) Run(ctx context.Context, listen func(context.Context) (net.Listener, error)) error {
	if err := g.issuer.Rebuild(ctx); err != nil {
		return fmt.Errorf("cannot rebuild the idempotency index: %w", err)
	}
	ln, err := listen(ctx)
	if err != nil {
		return err
	}
	defer ln.Close()
	g.listener.Listener = ln
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
	for _, c := range g.control.clients {
		c.CloseIdleConnections()
	}
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

// pools are the places of each kind of caller, by the value of the label that metrics have for it.
func (g *Gateway) pools() map[string]*places {
	return map[string]*places{
		"tenants": g.control.tenants.places, "sandbox": g.control.visitors.places, "strangers": g.control.strangers.places,
		"pages": g.control.pages.places, "console": g.control.console.places, "downloads": g.control.downloads.places, "players": g.unopened, "bodies": g.strangeBytes, "lookups": g.lookups,
	}
}

var errNotServing = errors.New("not accepting requests")

// Checks are the parts without which this node would answer every delivery with 503. Each asks what a
// delivery asks, so that /readyz and the answers can't differ. What refuses one right, one tenant
// or the load of a moment is no part: another node would refuse it too, or get the load besides.
func (g *Gateway) Checks() []Check {
	return []Check{
		{"gateway", func(context.Context) error {
			if g.phase.Load() != serving {
				return errNotServing
			}
			return nil
		}},
		{"signing key", g.issuer.CanSign},
		{"rights", func(context.Context) error { return g.rights.Fresh() }},
		{"log", func(context.Context) error { return g.issuer.CanRecord() }},
	}
}

// Ready is nil while the gateway accepts requests and may decide deliveries, else the error of the
// first of its Checks.
func (g *Gateway) Ready(ctx context.Context) error {
	for _, part := range g.Checks() {
		if err := part.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}
