package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"muniment/gate"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/gateway/snapshot"
	"muniment/sealer"
)

var (
	errTenantBusy = &api.Error{Code: api.RateLimited, Message: "this tenant has too many deliveries in hand on this node", RetryAfter: time.Second}
	errNotYet     = api.Conflict("the right is not in effect yet")
	errNoLonger   = api.Conflict("the right is no longer in effect")
	errNoKey      = api.Unavailable(api.NoSigningKey, "this node has no key to sign with at the moment", time.Second)
	errLogAway    = api.Unavailable(api.LogUnavailable, "the delivery could not be made durable; nothing was promised", time.Second)
)

// What an outage is of.
const (
	appendToLog   = "append deliveries to the log"
	signDelivered = "sign deliveries"
)

const (
	nonceBytes = 16
	saltBytes  = 16
	idBytes    = 10
)

// delivery is what one POST /v1/delivery holds until it is answered. It is pooled:
// its buffers are reused, and whatever is borrowed from them, or from the request,
// is gone when the handler returns.
//
// Hundreds wait for the log at once, so it is small, and all else lies on a desk.
type delivery struct {
	*desk              // nil once the delivery is sealed
	deadline *deadline // shared with others

	tenant  string
	keyID   string
	sandbox bool // the tenant is one of the sandbox
	claim   claimed
	record  sealer.Record

	ids    []byte // receipt id, event id, nonce, as text
	salted []byte // the salt, and behind it the private part
	event  []byte
}

// desk is the memory that a delivery is decided and sealed in. It is given back
// before the wait for the log: a few desks, used again and again, stay in the
// processor's cache, where hundreds would push each other out.
type desk struct {
	observation
	right   *snapshot.Right
	receipt sealer.Receipt
	sealed  sealer.Delivery
	private sealer.Private
	random  [idBytes + nonceBytes + saltBytes]byte

	projection []byte
	commitment []byte // as text, as is
	sum        []byte // the request hash
	scratch    []byte // what is hashed
}

// begin takes a delivery, which has time from a moment on, and a desk.
func (g *Gateway) begin(now time.Time) *delivery {
	d := g.pool.Get().(*delivery)
	d.desk = g.desks.Get().(*desk)
	d.deadline = g.limits.begin(now)
	return d
}

// leaveDesk gives the desk back; nothing on it may be used any more.
func (g *Gateway) leaveDesk(d *delivery) {
	if d.desk != nil {
		g.desks.Put(d.desk)
		d.desk = nil
	}
}

func (g *Gateway) end(d *delivery) {
	g.leaveDesk(d)
	g.pool.Put(d)
}

// deliver answers POST /v1/delivery. It reads in the order of the package comment.
func (g *Gateway) deliver(ctx *fasthttp.RequestCtx, began time.Time) error {
	arrived := g.now()
	d := g.begin(began)
	defer g.end(d)

	principal, err := auth.Authenticate(d.deadline, view(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)), g.rights, arrived)
	if err != nil {
		return err
	}
	if g.logsRequests() {
		ctx.SetUserValue(tenantOf{}, principal.TenantID)
	}
	if err := principal.Require(api.DeliveryWrite); err != nil {
		return err
	}
	if d.sandbox = principal.Sandbox; d.sandbox && g.cfg.SandboxSigner == nil {
		return errElsewhere
	}
	d.tenant, d.keyID = principal.TenantID, principal.ID
	share := g.shares.of(d.tenant)
	defer share.leave()
	switch turn, ok := g.shares.enter(share, arrived); {
	case !ok:
		return errTenantBusy
	case turn > 0:
		g.metrics.turns.Inc()
		g.rest(turn)
	}
	if err := d.decode(ctx.PostBody()); err != nil {
		return err
	}
	// Peek can't tell an empty header from none: it would let a caller whose variable
	// is empty deliver without protection.
	switch keys := ctx.Request.Header.PeekAll(api.HeaderIdempotencyKey); len(keys) {
	case 0:
		d.claim = claimed{}
		return g.issue(ctx, d, arrived)
	case 1:
		return g.once(ctx, d, keys[0], arrived)
	default:
		return api.ErrIdempotencyKey
	}
}

// issue decides the delivery, signs and appends it, and answers.
func (g *Gateway) issue(ctx *fasthttp.RequestCtx, d *delivery, arrived time.Time) error {
	// The moment of issue is read before key, lease and right are looked at: what
	// holds for them held at that moment.
	issued := g.now()
	if issued.Before(arrived) {
		issued = arrived // the clock stepped back
	}
	d.receipt.RenderedAt, d.receipt.IssuedAt = arrived, issued
	lend := g.cfg.Signer
	if d.sandbox {
		lend = g.cfg.SandboxSigner
	}
	signer, done, err := lend(d.deadline, issued)
	if err != nil {
		// Whoever stood still since may have come too late for the key of that moment.
		if now := g.now(); now.After(issued) {
			d.receipt.IssuedAt, issued = now, now
			signer, done, err = lend(d.deadline, issued)
		}
	}
	if err != nil {
		g.keyTrouble.begins(g.logger, signDelivered, err)
		return errNoKey
	}
	defer done()
	g.keyTrouble.ends(g.logger, signDelivered)
	if err := g.decide(d, arrived); err != nil {
		return err
	}
	if err := g.seal(d, signer); err != nil {
		return err
	}
	reason := d.sealed.Metering.Reason
	g.leaveDesk(d)
	// Written now, while the event is at hand; sent when it is durable. Every error
	// takes the answer's place.
	if err := respond(ctx, d.event); err != nil {
		return err
	}
	at, err := g.log.Append(d.deadline, &d.record)
	if err != nil {
		g.metrics.appendErrors.Inc()
		g.logTrouble.begins(g.logger, appendToLog, err)
		return errLogAway
	}
	g.logTrouble.ends(g.logger, appendToLog)
	d.claim.keep(at, issued)
	g.metrics.recorded(reason)
	return nil
}

// decide asks key, right and gate. What passes is in d.right and d.sealed.
func (g *Gateway) decide(d *delivery, arrived time.Time) (err error) {
	if err := g.rights.Fresh(); err != nil {
		return err
	}
	// Once more, where it was authenticated: that was before the moment of issue, and
	// there may have been a turn to wait for.
	switch key, err := g.rights.Key(d.deadline, d.keyID); {
	case err != nil:
		return err
	case key == nil || key.TenantID != d.tenant || !auth.Live(key, arrived):
		return auth.ErrInvalid
	}
	if d.right, err = g.rights.Right(d.deadline, d.tenant, d.rightID); err != nil {
		return err
	}
	r := d.right
	if arrived.Before(r.EffectiveFrom) {
		return errNotYet
	}
	if !r.EffectiveUntil.IsZero() && !arrived.Before(r.EffectiveUntil) {
		return errNoLonger
	}
	verdict := gate.Evaluate(&r.Gate, &d.telemetry, d.dwellMs)
	if verdict.Refused() {
		return g.refused(d, verdict)
	}
	d.sealed.Substrate = verdict.Substrate
	d.sealed.Metering = verdict.Meter(&d.telemetry, d.dwellMs)
	return nil
}

// refused is the 412, with every violation; it is counted for the tenant.
func (g *Gateway) refused(d *delivery, verdict gate.Verdict) error {
	violations := verdict.Violations(&d.right.Gate, &d.telemetry)
	text := []byte("[")
	for i := range violations {
		if i > 0 {
			text = append(text, ',')
		}
		text = violations[i].AppendJSON(text)
		g.metrics.refused(violations[i].Rule)
		g.refusals.add(d.tenant, d.right.ID, violations[i].Rule)
	}
	return &api.Error{
		Code: api.PreconditionFailed, Message: gate.ConstraintMessage(verdict.Substrate, len(violations)),
		Substrate: verdict.Substrate.String(), Gate: gate.Version, Violations: append(text, ']'),
	}
}

// seal fills d.record with the signed event.
func (g *Gateway) seal(d *delivery, signer *sealer.Signer) error {
	if _, err := io.ReadFull(g.random, d.random[:]); err != nil {
		return fmt.Errorf("cannot draw random bits: %w", err)
	}
	d.name()
	d.commit()
	r := &d.receipt
	d.describe(r)
	s := &d.sealed
	s.TenantID, s.Actor = d.tenant, sealer.Ref{Kind: "key", ID: d.keyID}
	s.RightID, s.RightRevision, s.BasisID = d.right.ID, d.right.Revision, d.right.BasisID
	s.Idempotency = d.claim.text()

	var err error
	if d.event, err = signer.SealDelivery(d.event[:0], s, r); err != nil {
		return err
	}
	d.record.TenantID, d.record.Node, d.record.Epoch, d.record.Seq = d.tenant, g.cfg.NodeID, g.cfg.Epoch, g.seq.Add(1)
	d.record.Event, d.record.Private = d.event, d.salted[saltBytes:]
	return nil
}

// name writes receipt id, event id and nonce from the random bits.
func (d *delivery) name() {
	at, entropy := d.receipt.IssuedAt, [idBytes]byte(d.random[:idBytes])
	b := api.AppendID(d.ids[:0], api.PrefixReceipt, at, entropy)
	receipt := len(b)
	b = api.AppendID(b, api.PrefixEvent, at, entropy)
	event := len(b)
	b = base64.RawURLEncoding.AppendEncode(b, d.random[idBytes:idBytes+nonceBytes])
	d.ids = b
	d.receipt.ReceiptID, d.record.EventID, d.receipt.Nonce = view(b[:receipt]), view(b[receipt:event]), view(b[event:])
}

// commit writes the private part and the commitment to it.
func (d *delivery) commit() {
	p := &d.private
	p.Salt = [saltBytes]byte(d.random[idBytes+nonceBytes:])
	p.DataSubject = d.dataSubjectID
	p.AttentionMs = d.sealed.Metering.AttentionMs
	p.Telemetry = nil
	if d.projection = d.telemetry.AppendProjection(d.projection[:0]); len(d.projection) > len("{}") {
		p.Telemetry = d.projection
	}
	p.RequestHash = ""
	if d.claim.held() {
		p.RequestHash = d.requestHash(p.Salt, d.body)
	}
	d.salted = sealer.AppendPrivate(append(d.salted[:0], p.Salt[:]...), p)
	d.commitment = sealer.AppendCommitment(d.commitment[:0], d.salted)
	d.sealed.PrivateCommitment = view(d.commitment)
}

// requestHash is base64url SHA-256(salt ‖ body). It is valid until the next call.
func (d *delivery) requestHash(salt [saltBytes]byte, body []byte) string {
	d.scratch = append(append(d.scratch[:0], salt[:]...), body...)
	sum := sha256.Sum256(d.scratch)
	d.sum = base64.RawURLEncoding.AppendEncode(d.sum[:0], sum[:])
	return view(d.sum)
}

// respond renders the answer from the event's text: a first answer and its replay
// have the same bytes because they come from here.
func respond(ctx *fasthttp.RequestCtx, event []byte) error {
	parts, err := sealer.SplitDelivery(event)
	if err != nil {
		return err
	}
	ctx.SetContentType(contentJSON)
	writeAnswer(&ctx.Response, &parts)
	return nil
}

func writeAnswer(r *fasthttp.Response, p *sealer.DeliveryParts) {
	r.AppendBodyString(`{"ok":true,"data":{"receipt":`)
	r.AppendBody(p.Receipt)
	r.AppendBodyString(`,"substrate":`)
	r.AppendBody(p.Substrate)
	r.AppendBodyString(`,"signature":`)
	r.AppendBody(p.Signature)
	r.AppendBodyString(`,"metering":`)
	r.AppendBody(p.Metering)
	r.AppendBodyString(`},"contractVersion":"` + api.ContractVersion + `"}`)
}
