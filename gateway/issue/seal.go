package issue

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"time"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/gateway/issue/idempotency"
	"muniment.example/gateway/snapshot"
	"muniment.example/sealer"
)

var (
	errNotYet    = api.Conflict("the right is not in effect yet")
	errNoLonger  = api.Conflict("the right is no longer in effect")
	errElsewhere = api.Conflict("deliveries of the sandbox's tenants are not taken by this node")
	errNoKey     = api.Unavailable(api.NoSigningKey, "this node has no key to sign with at the moment", time.Second)
	errLogAway   = api.Unavailable(api.LogUnavailable, "the delivery could not be made durable; nothing was promised", time.Second)
)

const (
	nonceBytes = 16
	saltBytes  = 16
	idBytes    = 10
)

// work is what one delivery holds until it is answered. It is pooled: its buffers are
// reused, and views of them, or of the caller's Delivery, are invalid once Issue returns.
//
// Hundreds wait for the log at once, so it is small; everything else is in a workspace.
type work struct {
	*workspace // nil once the delivery is sealed

	by     Caller
	claim  idempotency.Claim
	record sealer.Record
	reason gate.Reason

	ids    []byte // receipt id, event id, nonce, as text
	salted []byte // the salt, and behind it the private part
	event  []byte
}

// workspace is the scratch memory that a delivery is decided and sealed in. It is released
// before the wait for the log: a few workspaces, used again and again, stay in the
// processor's cache, where hundreds would evict each other.
type workspace struct {
	seen    *Observation // of row, or the caller's
	row     row          // of a single delivery it has the Observation alone
	isRow   bool
	named   bool   // by Delivery.Identity
	body    []byte // what must be the same under one Idempotency-Key or identity
	right   *snapshot.Right
	receipt sealer.Receipt
	sealed  sealer.Delivery
	private sealer.Private
	persons [1 + mostSubjects]sealer.DataSubject
	random  [idBytes + nonceBytes + saltBytes*(2+mostSubjects)]byte

	content    []byte // of a row
	day        []byte // of a row's identity, as text
	projection []byte
	commitment []byte // as text, as is
	sum        []byte // the request hash
	scratch    []byte // what is hashed
}

// begin takes the memory for a caller's delivery, without a workspace.
func (i *Issuer) begin(by Caller) *work {
	w := i.works.Get().(*work)
	w.by, w.claim = by, idempotency.Claim{}
	return w
}

func (i *Issuer) end(w *work) {
	i.leave(w)
	i.works.Put(w)
}

// enter gets the work a workspace.
func (i *Issuer) enter(w *work) { w.workspace = i.workspaces.Get().(*workspace) }

// leave releases the workspace; nothing in it may be used any more.
func (i *Issuer) leave(w *work) {
	if w.workspace != nil {
		i.workspaces.Put(w.workspace)
		w.workspace = nil
	}
}

// read reads the observation of a delivery.
func (w *workspace) read(d *Delivery) error {
	w.seen, w.body, w.isRow, w.named = d.Observation, d.Body, false, false
	if w.seen != nil {
		return nil
	}
	w.seen = &w.row.Observation
	return w.seen.Decode(d.Body)
}

// readRow reads a row, whose vendor is the given one if it names none.
func (w *workspace) readRow(text []byte, vendor string) error {
	w.seen, w.body, w.isRow, w.named = &w.row.Observation, nil, true, false
	return w.row.decode(text, vendor)
}

var errNoIdentity = api.InvalidField("identity", "is not a base64url SHA-256")

// identify returns the identity of the row that was read, before a mapping has its part in it.
func (w *work) identify(of *Row) (h idempotency.Hash, err error) {
	if given := of.Identity; given != nil {
		var ok bool
		if h, ok = idempotency.ParseHash(given.Hash); !ok {
			err = errNoIdentity
		}
		w.day = append(w.day[:0], given.Day...)
	} else {
		h, w.scratch = w.row.identity(w.scratch, w.by.TenantID)
		w.day = w.row.appendDay(w.day[:0])
	}
	w.content = w.row.appendContent(w.content[:0])
	w.body = w.content
	return h, err
}

// acquire acquires a key to sign with, and says for which moment. release is called when
// what was signed is durable or given up.
func (i *Issuer) acquire(ctx context.Context, sandbox bool, rendered time.Time) (s *sealer.Signer, issued time.Time, release func(), err error) {
	// The moment of issue is read before key, lease and right are looked at: what
	// holds for them held at that moment.
	issued = i.cfg.Now()
	if issued.Before(rendered) {
		issued = rendered // the clock stepped back
	}
	acquire := i.cfg.Signer
	if sandbox {
		acquire = i.cfg.SandboxSigner
	}
	if acquire == nil {
		return nil, issued, nil, errElsewhere
	}
	s, release, err = acquire(ctx, issued)
	if err != nil {
		// A goroutine that stalled since may be too late for the key of that moment.
		if now := i.cfg.Now(); now.After(issued) {
			issued = now
			s, release, err = acquire(ctx, issued)
		}
	}
	if err != nil {
		i.keyTrouble.Begins(i.cfg.Logger, signDelivered, err)
		return nil, issued, nil, errNoKey
	}
	i.keyTrouble.Ends(i.cfg.Logger, signDelivered)
	return s, issued, release, nil
}

// prepare decides by w.right what was rendered at a moment, for a caller who is entitled, and
// seals it if it may be: then w.record is ready for the log.
func (i *Issuer) prepare(w *work, signer *sealer.Signer, rendered, issued time.Time) error {
	w.receipt.RenderedAt, w.receipt.IssuedAt = rendered, issued
	if err := i.decide(w); err != nil {
		return err
	}
	w.reason = w.sealed.Metering.Reason
	return i.seal(w, signer)
}

// entitled checks the lease, and the caller's key at the moment of issue.
func (i *Issuer) entitled(ctx context.Context, by Caller, issued time.Time) error {
	if err := i.cfg.Rights.Fresh(); err != nil {
		return err
	}
	// The key was authenticated before the moment of issue, and the delivery may have been
	// delayed since.
	switch key, err := i.cfg.Rights.Key(ctx, by.KeyID); {
	case err != nil:
		return err
	case key == nil || key.TenantID != by.TenantID || key.Sandbox != by.Sandbox || !auth.Live(key, issued):
		return auth.ErrInvalid
	}
	return nil
}

// decide checks the right's window and the gate, and counts names of telemetry that are misspelt. Its
// result is in w.sealed.
func (i *Issuer) decide(w *work) error {
	r, rendered := w.right, w.receipt.RenderedAt
	if rendered.Before(r.EffectiveFrom) {
		return errNotYet
	}
	if !r.EffectiveUntil.IsZero() && !rendered.Before(r.EffectiveUntil) {
		return errNoLonger
	}
	w.seen.unrecognised(func(name []byte, meant string) { i.refusals.misspelt(w.by.TenantID, name, meant) })
	verdict := gate.Evaluate(&r.Gate, &w.seen.Telemetry, w.seen.DwellMs)
	if verdict.Refused() {
		return i.refused(w, verdict)
	}
	w.sealed.Substrate = verdict.Substrate
	w.sealed.Metering = verdict.Meter(&w.seen.Telemetry, w.seen.DwellMs)
	return nil
}

// refused returns the 412 with every violation, and counts these for the tenant.
func (i *Issuer) refused(w *work, verdict gate.Verdict) error {
	violations := verdict.Violations(&w.right.Gate, &w.seen.Telemetry)
	text := []byte("[")
	for n := range violations {
		if n > 0 {
			text = append(text, ',')
		}
		text = violations[n].AppendJSON(text)
		i.metrics.refused(violations[n].Rule)
		i.refusals.add(w.by.TenantID, w.right.ID, violations[n].Rule)
	}
	return &api.Error{
		Code: api.PreconditionFailed, Message: gate.ConstraintMessage(verdict.Substrate, len(violations)),
		Substrate: verdict.Substrate.String(), Gate: gate.Version, Violations: append(text, ']'),
	}
}

// seal fills w.record with the signed event.
func (i *Issuer) seal(w *work, signer *sealer.Signer) error {
	if _, err := io.ReadFull(i.cfg.Random, w.random[:idBytes+nonceBytes+saltBytes*(1+len(w.seen.DataSubjectIDs))]); err != nil {
		return fmt.Errorf("cannot draw random bits: %w", err)
	}
	w.name()
	w.commit()
	r := &w.receipt
	w.seen.Describe(r)
	s := &w.sealed
	s.TenantID, s.Actor = w.by.TenantID, sealer.Ref{Kind: "key", ID: w.by.KeyID}
	s.RightID, s.RightRevision, s.BasisID = w.right.ID, w.right.Revision, w.right.BasisID
	s.Idempotency, s.Identity, s.Multiplier = "", sealer.RowIdentity{}, 0
	switch {
	case w.isRow:
		s.Identity, s.Multiplier = sealer.RowIdentity{Hash: w.claim.Text(), Day: view(w.day)}, w.row.multiplier
	case w.named:
		s.Identity = sealer.RowIdentity{Hash: w.claim.Text()}
	default:
		s.Idempotency = w.claim.Text()
	}

	var err error
	if w.event, err = signer.SealDelivery(w.event[:0], s, r); err != nil {
		return err
	}
	w.record.TenantID, w.record.Node, w.record.Epoch, w.record.Seq = w.by.TenantID, i.cfg.NodeID, i.cfg.Epoch, i.seq.Add(1)
	w.record.Event, w.record.Private = w.event, w.salted[saltBytes:]
	return nil
}

// name writes receipt id, event id and nonce from the random bits.
func (w *work) name() {
	at, entropy := w.receipt.IssuedAt, [idBytes]byte(w.random[:idBytes])
	b := api.AppendID(w.ids[:0], api.PrefixReceipt, at, entropy)
	receipt := len(b)
	b = api.AppendID(b, api.PrefixEvent, at, entropy)
	event := len(b)
	b = base64.RawURLEncoding.AppendEncode(b, w.random[idBytes:idBytes+nonceBytes])
	w.ids = b
	w.receipt.ReceiptID, w.record.EventID, w.receipt.Nonce = view(b[:receipt]), view(b[receipt:event]), view(b[event:])
}

// commit writes the private part and the commitment to it.
func (w *work) commit() {
	p := &w.private
	salts := w.random[idBytes+nonceBytes:]
	p.Salt = [saltBytes]byte(salts)
	p.DataSubjects = w.persons[:len(w.seen.DataSubjectIDs)]
	for i, who := range w.seen.DataSubjectIDs {
		p.DataSubjects[i] = sealer.DataSubject{Reference: who, Salt: [saltBytes]byte(salts[saltBytes*(1+i):])}
	}
	p.AttentionMs = w.sealed.Metering.AttentionMs
	p.Telemetry = nil
	if w.projection = w.seen.Telemetry.AppendProjection(w.projection[:0]); len(w.projection) > len("{}") {
		p.Telemetry = w.projection
	}
	p.RequestHash = ""
	if w.claim.Held() {
		p.RequestHash = w.requestHash(p, w.body)
	}
	w.salted = sealer.AppendPrivate(append(w.salted[:0], p.Salt[:]...), p)
	committed := w.salted
	if len(p.DataSubjects) > 0 {
		w.scratch = sealer.AppendCommitted(append(w.scratch[:0], p.Salt[:]...), p)
		committed = w.scratch
	}
	w.commitment = sealer.AppendCommitment(w.commitment[:0], committed)
	w.sealed.PrivateCommitment = view(w.commitment)
}

// requestHash is base64url SHA-256(salts ‖ body). It is valid until the next call.
func (w *workspace) requestHash(p *sealer.Private, body []byte) string {
	w.scratch = append(p.AppendRequestSalt(w.scratch[:0]), body...)
	sum := sha256.Sum256(w.scratch)
	w.sum = base64.RawURLEncoding.AppendEncode(w.sum[:0], sum[:])
	return view(w.sum)
}

// settle ends an append: the event at a position is remembered for its key, or the error is
// what the caller gets. w.claim is to be freed in either case.
func (i *Issuer) settle(w *work, at sealer.Position, issued time.Time, err error) error {
	if err != nil {
		i.metrics.appendErrors.Inc()
		i.logTrouble.Begins(i.cfg.Logger, appendToLog, err)
		return errLogAway
	}
	i.logTrouble.Ends(i.cfg.Logger, appendToLog)
	w.claim.Keep(at, issued)
	i.metrics.recorded(w.reason)
	return nil
}

// appendAnswer renders the answer from the event's text: a first answer and its replay
// have the same bytes because they come from here. It extends nothing on an error.
func appendAnswer(dst, event []byte) ([]byte, error) {
	p, err := sealer.SplitDelivery(event)
	if err != nil {
		return dst, err
	}
	dst = append(dst, `{"ok":true,"data":{"receipt":`...)
	dst = append(dst, p.Receipt...)
	dst = append(dst, `,"substrate":`...)
	dst = append(dst, p.Substrate...)
	dst = append(dst, `,"signature":`...)
	dst = append(dst, p.Signature...)
	dst = append(dst, `,"metering":`...)
	dst = append(dst, p.Metering...)
	return append(dst, `},"contractVersion":"`+api.ContractVersion+`"}`...), nil
}
