// Package issue makes a receipt from an observation of a delivery: it decides, claims the
// Idempotency-Key, signs, and makes the event durable. It knows no HTTP: the sandbox and the
// replay of held rows call it as the gateway does.
//
// One delivery, whose answer is appended to dst:
//
//	issuer, err := issue.New(issue.Config{NodeID: id, Epoch: epoch, Rights: view, Log: log, Signer: node.Signer})
//	go issuer.Run(ctx)
//	by := issue.Caller{TenantID: key.TenantID, KeyID: key.ID, Sandbox: key.Sandbox}
//	answer, replayed, err := issuer.Issue(issuer.Deadline(time.Now()), dst, by, &issue.Delivery{Body: body, Rendered: time.Now()})
//
// A batch of rows, each with a result of its own:
//
//	results, err := issuer.IssueRows(ctx, by, &issue.Batch{Vendor: "acme", Rows: []issue.Row{{JSON: a}, {JSON: b}}})
//
// The promise: a receipt that a caller holds is never lost and never counted twice. Sign,
// make durable, answer; never another order. Whatever goes wrong before the log has
// acknowledged is a 503 that promises nothing.
//
// Order of a delivery, and the error when it stops there, an *api.Error unless it is a fault
// of ours: the body's JSON (400) and its fields (422), a known Idempotency-Key (the first
// answer again), a key to sign with (503), lease on rights (503), the caller's key (401),
// right (404), its state and window (409), constraint gate (412), sign, append, answer.
// Issue, entitled, prepare, decide and seal read in this order. A row of a batch has its
// identity in place of the key, then its play time (422) and the mapping of its vendor's id.
//
// Decisions:
//
//   - Text fields (rightId, spatialAnchorId, spatialPlacementId, correlationId) hold
//     at most 512 bytes, a person of dataSubjectId or dataSubjectIds, of which there are
//     at most 8, at most 256. dwellMs is at most
//     sealer.MaxDwellMs. rightId and persons must not be empty. A person who is named twice counts once.
//     Nesting above 32 is 400.
//   - A time of the caller's (renderedAt, issuedAt, playedAt) is 422: a play of last week
//     would be signed as of now.
//   - A name given twice anywhere in the body is 422 on its path, but a body that
//     is no JSON even apart from that is 400.
//   - Idempotency: concurrent deliveries with one key wait for the first of them, for
//     at most Config.IdempotencyWait, and then get its bytes, replayed. Only when the wait
//     runs out do they get 409 with retry-after. A first one that was refused or failed
//     frees the key, and the next in line tries for itself. Which body belongs to a key is
//     known from the log alone: the salted hash in the event's private part. Where that
//     part was erased, the key alone decides.
//   - Keys are remembered for 24 h or the newest Config.IdempotencyEntries, in this process's
//     memory; a start reads them back (Rebuild). See package idempotency.
//   - A log may lose what answers to retries are rendered from, not the promise (see
//     Log): the key is free then, and the retry's event a duplicate likewise.
//   - When an append fails, the record may still be in the log. The caller gets 503 and
//     the key is free; if the record is in the log after all, the retry's event is a duplicate
//     of it by its hash, and is metered zero.
//   - A batch is no transaction: each row succeeds or fails by itself. If the node can't sign or
//     make records durable, the whole batch gets 503, and rows that were durable by then are
//     duplicates when it is sent again. What fails for one row is the error of that row.
//   - A row's identity (row.go) is claimed as an Idempotency-Key is, in the same memory, and its
//     content is known from the event as a body is. A batch that waits for another's rows holds
//     no claims, so two batches can't wait for each other.
//   - Equal rows of a batch are one play: the first is judged, and the others are its duplicates,
//     also if it has no mapping and is to be held. A row of the same identity as one that is to
//     be held, but with other content, is judged by itself.
//   - The play of a row may be 30 days old (Config.MaxRowAge), and 5 minutes ahead of this node's
//     clock: then the receipt is rendered when it is issued, and the identity has the time as sent.
//   - seq counts the attempts to append: a number whose append failed may be missing.
//   - The sandbox's tenants are served by a key of their own, which signs for no other
//     tenant; a node that has none refuses them with 409 STATE_CONFLICT (ForSandbox: the gateway
//     forwards their deliveries, and the rows of their batches, to control).
//   - What the gate refused is counted, and the counts are written to the log once a minute
//     and at the end (Run). So are names in telemetry that are a field's but for case, "_", "-" or one
//     edit: the contract accepts them, and the gate never saw what they say. Of each minute a
//     tenant's first 32 names are counted as they were sent, any further ones by the field that they
//     stand for.
//
// Not here: who is calling (gateway/auth), how many at a time (the gateway's bounds), the
// rules (gate), the formats (sealer), the truth about rights (control).
package issue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/idempotency"
	"muniment.example/pipeline/trace"
)

// Issuer issues the receipts of one node. It is safe for concurrent use.
type Issuer struct {
	cfg         Config
	metrics     *metrics
	claims      *idempotency.Claims
	limits      deadlines
	refusals    refusals
	batchLimits batchLimits
	tooOld      error // refuses a row for its play time

	works      sync.Pool // of *work
	workspaces sync.Pool // of *workspace
	seq        atomic.Uint64
	ended      atomic.Bool // Run has

	logTrouble  Outage
	keyTrouble  Outage
	keepTrouble Outage // checkpoints
}

// New makes an issuer that issues from now on, until its Run ends.
func New(cfg Config) (*Issuer, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	i := &Issuer{cfg: cfg, limits: deadlines{after: cfg.Timeout}}
	i.claims = idempotency.New(idempotency.Config{
		Log: cfg.Log, Limit: cfg.IdempotencyEntries, Dir: cfg.CheckpointDir, Now: cfg.Now, Logger: cfg.Logger, Trouble: i.checkpointTrouble,
	})
	i.refusals.since = cfg.Now()
	i.batchLimits = newBatchLimits(cfg.BatchBytes, cfg.BatchSigners)
	i.tooOld = api.InvalidField(fieldPlayed, "is longer ago than "+inDays(cfg.MaxRowAge))
	i.works.New = func() any { return new(work) }
	i.workspaces.New = func() any { return new(workspace) }
	i.metrics = newMetrics(cfg.Registerer, i)
	return i, nil
}

// Rebuild reads the Idempotency-Keys and identities of the last 24 hours back: from the
// checkpoints, and what they don't cover from the log. It is called before the first Issue.
func (i *Issuer) Rebuild(ctx context.Context) error { return i.claims.Rebuild(ctx) }

// ForSandbox says whether this node has a key for the sandbox's tenants.
func (i *Issuer) ForSandbox() bool { return i.cfg.SandboxSigner != nil }

// checkpointEvery is how often the claims may write a checkpoint.
const checkpointEvery = time.Second

// Run writes the counts of refusals and the checkpoints now and then, and asks a log that has
// failed whether it is Writable again, until ctx is done, and
// then the last of them: the log must outlive it. Callers should have stopped issuing before: from
// then on every delivery is refused with 503 DRAINING.
func (i *Issuer) Run(ctx context.Context) error {
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	keep := time.NewTicker(checkpointEvery)
	defer keep.Stop()
	retry := time.NewTicker(retryLogEvery)
	defer retry.Stop()
	for {
		select {
		case <-t.C:
			i.writeRefusals(ctx)
		case <-keep.C:
			i.claims.Checkpoint(ctx)
		case <-retry.C:
			i.retryLog(ctx)
		case <-ctx.Done():
			i.ended.Store(true)
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.cfg.Timeout)
			defer cancel()
			i.writeRefusals(last)
			i.claims.CheckpointAll(last)
			return nil
		}
	}
}

// ErrEnded refuses what comes to a node that ends.
var ErrEnded = api.Unavailable(api.Draining, "this node is going away; send the request again on a new connection", time.Second)

// Caller is on whose behalf receipts are issued. It was authenticated, and its key may deliver;
// the issuer checks again that the key is the tenant's and is valid.
type Caller struct {
	TenantID string
	// KeyID is the API key, which the event names as its actor.
	KeyID string
	// Sandbox says whether the tenant is one of the sandbox, as its key does.
	Sandbox bool
}

// Delivery is one delivery to be issued. The issuer keeps none of it once Issue returns.
type Delivery struct {
	// Observation; nil: it is decoded from Body.
	Observation *Observation
	// Body is the request's. With an Idempotency-Key it must be the same each time.
	Body []byte
	// Rendered is the moment of the delivery by the clock of Config.Now: it is in the receipt,
	// and the right's window must hold it. The caller makes sure that it has passed: nothing is
	// issued before it was rendered.
	Rendered time.Time
	// IdempotencyKey is looked at if HasKey is true: an empty one is refused.
	IdempotencyKey []byte
	HasKey         bool
	// Identity, if not empty, are the fields that identify the delivery, in place of an
	// Idempotency-Key: of two deliveries with the same fields the first counts, however far apart
	// they are, and whatever else the second says. See row.go.
	Identity []string
	// Span is the request's; nil: it is not traced.
	Span *trace.Span
}

// Deadline returns a context for a delivery that began at a moment, which the caller has just
// read from the clock: it ends Config.Timeout later, or up to a sixteenth of that. Deliveries
// that begin close to each other get the same context, which costs next to nothing.
func (i *Issuer) Deadline(began time.Time) context.Context { return i.limits.begin(began) }

// Issue issues the receipt of a delivery and appends its answer to dst: the success
// envelope of POST /v1/delivery. When err is nil the receipt is durable; otherwise nothing
// was promised, and answer is dst as it was.
//
// replayed says that the answer is that of an earlier delivery with the same Idempotency-Key
// or identity.
// ctx bounds the whole, but the wait for one that is being issued: then there is a Deadline
// anew.
func (i *Issuer) Issue(ctx context.Context, dst []byte, by Caller, d *Delivery) (answer []byte, replayed bool, err error) {
	if i.ended.Load() {
		return dst, false, ErrEnded
	}
	i.cfg.Admit(ctx, 1)
	w := i.begin(by)
	defer i.end(w)
	i.enter(w)
	if err := w.read(d); err != nil {
		return dst, false, err
	}
	switch {
	case len(d.Identity) > 0:
		return i.once(ctx, dst, w, w.nameBy(d.Identity), d)
	case d.HasKey:
		h, err := w.keyHash(d.IdempotencyKey)
		if err != nil {
			return dst, false, err
		}
		return i.once(ctx, dst, w, h, d)
	}
	answer, err = i.first(ctx, dst, w, d)
	return answer, false, err
}

// appendSpan is the span from a record's append until it is durable. The record carries it to the loader.
const appendSpan = "append to the log"

// first issues for a delivery whose key is free, or that has none.
func (i *Issuer) first(ctx context.Context, dst []byte, w *work, d *Delivery) ([]byte, error) {
	defer w.claim.Free()
	signer, issued, release, err := i.acquire(ctx, w.by.Sandbox, d.Rendered)
	if err != nil {
		return dst, err
	}
	defer release()
	if err := i.entitled(ctx, w.by, issued); err != nil {
		return dst, err
	}
	if w.right, err = i.cfg.Rights.Right(ctx, w.by.TenantID, w.seen.RightID); err != nil {
		return dst, err
	}
	// Where the right is ACTIVE again, its suspension is over, whatever this node's clock shows.
	rendered, err := i.cfg.Rights.NotBefore(w.right, d.Rendered)
	if err != nil {
		return dst, err
	}
	if issued.Before(rendered) {
		issued = rendered
	}
	if err := i.prepare(w, signer, rendered, issued); err != nil {
		return dst, err
	}
	d.Span.Set("muniment.right.id", w.right.ID)
	i.leave(w)
	// Written now, while the event is at hand; handed out when it is durable.
	answer, err := appendAnswer(dst, w.event)
	if err != nil {
		return dst, err
	}
	appended := d.Span.Child(trace.Producer, appendSpan)
	w.record.Traceparent = appended.Traceparent()
	at, err := i.cfg.Log.Append(ctx, &w.record)
	if err := i.settle(w, at, issued, err); err != nil {
		return dst, err
	}
	if appended != nil {
		appended.Set("muniment.event.id", w.record.EventID)
		appended.End()
		d.Span.Set("muniment.metering.reason", w.reason.String())
	}
	return answer, nil
}
