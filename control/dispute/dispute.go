// Package dispute owns disputes: objections of an organisation to deliveries that have receipts,
// raised before they are paid for.
//
// A dispute is about up to 1,000 receipts, or about a right and a window of renderedAt. The window
// covers every delivery on that right that was rendered in it, late ones included, but no delivery
// on derived rights. Receipts must be in the warehouse when the dispute is opened: a receipt that is
// not loaded yet is refused as unknown, and the caller retries. The right may be in any state.
//
// A dispute moves along the table of transitions below. Each move is one change of record, revision
// and audit event. It can be resolved from any state but RESOLVED, which is final. A caller that
// loses a race gets STATE_CONFLICT. Evidence is submitted when the dispute is opened and with a
// response; it never changes later.
//
// Settlement leaves out disputed deliveries while the dispute is unresolved, and permanently once it
// is UPHELD (Holding). If two disputes are about one receipt, Parts counts it once. Receipts, their
// events and their proofs are not changed. A dispute concerns the statements of the periods that meet
// its Rendered; to others it does not exist.
//
// A statement lists the disputes of its period, so their number is bounded: a caller that opens
// disputes in a loop must neither slow down every statement nor make an issued one too large to be
// corrected. A tenant has at most 1,000 unresolved disputes. UPHELD ones never go away: of the period
// of an issued statement, and of the time that the dispute itself is about, at most 1,000 with a window
// and disputes of 50,000 receipts become UPHELD. Resolving refuses a further one; disputing a right in
// a window, which counts once, covers any number of receipts.
//
// All organisations are in one tenant, and a key of the tenant may act for any. The event names, as
// actingOrgId, the organisation that raised the dispute or responded to it; for other moves the
// tenant's organisation. This is asserted by the tenant's organisation, which assertedBy names.
//
// In a database restored from an older copy, Replay brings the disputes to the log's state. Such a
// dispute may name a right that the database lacks.
//
// reason, resolution and evidence are the caller's texts and part of events that are never erased,
// so they must hold no personal data; the API says so.
package dispute

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
)

// Dispute is the record of a dispute.
type Dispute struct {
	DisputeSummary `db:"*"`
	Evidence       []Evidence `json:"evidence" db:"evidence,moves" doc:"The submitted evidence, oldest first."`
}

// DisputeSummary is the record without its evidence, which would make a page of a list too long.
type DisputeSummary struct {
	ID            string        `json:"id" db:"dispute_id"`
	TenantID      string        `json:"-" db:"tenant_id"`
	ReceiptIDs    []string      `json:"receiptIds" db:"receipt_ids" doc:"The disputed receipts; empty if the dispute is about a right and a window."`
	RightID       *string       `json:"rightId" db:"right_id" doc:"The right whose deliveries are disputed; null if the dispute is about receipts."`
	Window        Window        `json:"window" db:"*" doc:"When the deliveries were rendered; null if the dispute is about receipts."`
	Rendered      Rendered      `json:"-" db:"*"`
	RaisedByOrgID string        `json:"raisedByOrgId" db:"raised_by_org_id" doc:"The organisation that raised the dispute."`
	Reason        string        `json:"reason" db:"reason" doc:"The reason that it gave."`
	Outcome       *Outcome      `json:"outcome" db:"outcome,moves" enum:"UPHELD,REJECTED" nullable:"true" doc:"How it was resolved; null until it is. UPHELD excludes the deliveries from settlement permanently."`
	Resolution    *string       `json:"resolution" db:"resolution,moves" doc:"The text given with the resolution."`
	State         State         `json:"state" db:"state,moves" enum:"OPEN,INVESTIGATING,RESPONDED,RESOLVED"`
	CreatedAt     store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt     store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision      int64         `json:"revision" db:"revision,moves"`
}

// Window is an interval of renderedAt. The zero Window means none, and is null in JSON.
type Window struct {
	_    struct{}      `nullable:"true"`
	From store.Instant `json:"from" db:"window_from" doc:"Start of the window."`
	To   store.Instant `json:"to" db:"window_to" doc:"End of the window, exclusive."`
}

// Overlaps reports whether the two have a moment in common.
func (w Window) Overlaps(other Window) bool {
	return w.From.Before(other.To.Time) && other.From.Before(w.To.Time)
}

// SchemaName returns the schema name in the OpenAPI document.
func (Window) SchemaName() string { return "DisputeWindow" }

// MarshalJSON writes the window, or null.
func (w Window) MarshalJSON() ([]byte, error) {
	if w == (Window{}) {
		return []byte("null"), nil
	}
	type plain Window
	return json.Marshal(plain(w))
}

// Rendered is the time from the first to the last renderedAt of the disputed deliveries. Events have it,
// as their receipts alone do not show it.
type Rendered struct {
	First store.Instant `json:"firstRenderedAt" db:"first_rendered_at" doc:"The earliest renderedAt of the disputed deliveries."`
	Last  store.Instant `json:"lastRenderedAt" db:"last_rendered_at" doc:"The latest renderedAt of the disputed deliveries."`
}

// meets reports whether a delivery of the period may be disputed.
func (r Rendered) meets(period Window) bool {
	return r.First.Before(period.To.Time) && !r.Last.Before(period.From.Time)
}

// add extends it to a delivery.
func (r *Rendered) add(at store.Instant) {
	if r.First.IsZero() || at.Before(r.First.Time) {
		r.First = at
	}
	if r.Last.IsZero() || at.After(r.Last.Time) {
		r.Last = at
	}
}

// Evidence is one piece of submitted evidence.
type Evidence struct {
	At         store.Instant `json:"at" doc:"When it was submitted."`
	ByOrgID    string        `json:"byOrgId" doc:"The organisation that submitted it."`
	Text       string        `json:"text" doc:"The evidence."`
	References []string      `json:"references" doc:"Where to find more."`
}

// SchemaName returns the schema name in the OpenAPI document.
func (Evidence) SchemaName() string { return "DisputeEvidence" }

// State is the state of a dispute.
type State string

// The states.
const (
	Open          State = "OPEN"
	Investigating State = "INVESTIGATING"
	Responded     State = "RESPONDED"
	Resolved      State = "RESOLVED"
)

// Outcome is the outcome of a resolved dispute.
type Outcome string

// The outcomes.
const (
	Upheld   Outcome = "UPHELD"
	Rejected Outcome = "REJECTED"
)

// Action moves a dispute from state to state.
type Action string

// The actions.
const (
	Investigate Action = "investigate"
	Respond     Action = "respond"
	Resolve     Action = "resolve"
)

// transitions lists every move. Any other is refused.
var transitions = store.Steps[Action, State]{
	Investigate: {From: store.From(Open), To: Investigating, Event: eventInvestigated},
	Respond:     {From: store.From(Investigating), To: Responded, Event: eventResponded},
	Resolve:     {From: store.From(Open, Investigating, Responded), To: Resolved, Event: eventResolved},
}

const (
	// maxReceipts bounds the receipts of a dispute, maxWindow its window.
	maxReceipts = 1000
	maxWindow   = 400 * 24 * time.Hour
	// maxEvidence and maxReferences bound lists; maxText and maxReference texts, in bytes.
	maxEvidence, maxReferences, maxText, maxReference = 20, 20, 4096, 256
	// maxWritten bounds a dispute's evidence as JSON, in which a control character has six bytes: so
	// its event fits in the log.
	maxWritten = 256 << 10
	// maxUnresolved bounds the unresolved disputes of a tenant.
	maxUnresolved = 1000
	// MaxUpheldWindows and MaxUpheldReceipts bound the disputes of a period that become UPHELD: those
	// with a window, and the receipts of the others.
	MaxUpheldWindows  = 1000
	MaxUpheldReceipts = 50_000
)

// open completes and checks a new dispute. The caller has set the requested fields, and Rendered of a
// dispute about receipts.
func open(d Dispute, now store.Instant) (Dispute, error) {
	if err := d.checkSubject(); err != nil {
		return Dispute{}, err
	}
	if d.RightID != nil {
		d.Rendered = Rendered{d.Window.From, store.At(d.Window.To.Add(-time.Millisecond))}
	}
	d.State, d.CreatedAt, d.UpdatedAt = Open, now, now
	return d, nil
}

// checkSubject checks receipts, right and window.
func (d *Dispute) checkSubject() error {
	byRight, windowed := d.RightID != nil, d.Window != Window{}
	switch {
	case len(d.ReceiptIDs) > 0 && (byRight || windowed):
		return api.InvalidField("receiptIds", "can't be combined with rightId and window")
	case len(d.ReceiptIDs) > maxReceipts:
		return api.InvalidField("receiptIds", fmt.Sprintf("has more than %d receipts: dispute a right and a window, or open several disputes", maxReceipts))
	case len(d.ReceiptIDs) > 0:
		seen := map[string]bool{}
		for i, id := range d.ReceiptIDs {
			if seen[id] {
				return api.InvalidField(fmt.Sprintf("receiptIds[%d]", i), "is given twice")
			}
			seen[id] = true
		}
		return nil
	case !byRight && !windowed:
		return api.InvalidField("receiptIds", "is required, unless rightId and window are given")
	case !byRight:
		return api.InvalidField("rightId", "is required with window")
	case d.Window.From.IsZero() || d.Window.To.IsZero():
		return api.InvalidField("window", "is required with rightId, from and to")
	case !d.Window.From.Before(d.Window.To.Time):
		return api.InvalidField("window.to", "must be later than from")
	case d.Window.To.Sub(d.Window.From.Time) > maxWindow:
		return api.InvalidField("window.to", "must be at most 400 days after from")
	}
	return nil
}

// append adds evidence. The existing evidence is not changed.
func (d *Dispute) append(more []Evidence) error {
	var faults []api.ValidationError
	fault := func(message, field string, at ...any) {
		faults = append(faults, api.ValidationError{Field: fmt.Sprintf(field, at...), Message: message})
	}
	for i, e := range more {
		if len(e.Text) > maxText {
			fault(fmt.Sprintf("must have at most %d bytes", maxText), "evidence[%d].text", i)
		}
		if len(e.References) > maxReferences {
			fault(fmt.Sprintf("must have at most %d references", maxReferences), "evidence[%d].references", i)
		}
		for n, reference := range e.References {
			if !isReference(reference) {
				fault(fmt.Sprintf("must have 1 to %d bytes without control characters", maxReference), "evidence[%d].references[%d]", i, n)
			}
		}
	}
	if len(faults) > 0 {
		return api.Invalid(faults...)
	}
	all := append(append([]Evidence{}, d.Evidence...), more...)
	if len(all) > maxEvidence {
		return api.InvalidField("evidence", fmt.Sprintf("a dispute has at most %d pieces of evidence, and this one has %d", maxEvidence, len(d.Evidence)))
	}
	written, err := canonical.JSON(all)
	if err != nil {
		return err
	}
	if len(written) > maxWritten {
		return api.InvalidField("evidence", fmt.Sprintf("all evidence of a dispute must have at most %d bytes as JSON: refer to longer documents instead", maxWritten))
	}
	d.Evidence = all
	return nil
}

func isReference(text string) bool {
	if text == "" || len(text) > maxReference {
		return false
	}
	for _, c := range text {
		if unicode.IsControl(c) {
			return false
		}
	}
	return true
}
