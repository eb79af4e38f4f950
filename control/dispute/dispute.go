// Package dispute owns disputes: what an organisation says against deliveries that were
// receipted, before they are paid for.
//
// A dispute is about receipts, up to 1,000, or about a right and a window of renderedAt, which
// takes in every delivery on that right that was shown then, also one that arrives later; none on
// rights that are derived from it. Receipts must be in the warehouse when the dispute is opened:
// one that is not loaded yet is refused as unknown, and its caller tries again. The right may be
// in any state.
//
// It moves along the table of transitions below, each move being one change: record, revision
// and audit event, or nothing. It is resolved from any state but RESOLVED, which is final. A
// caller who loses a race gets STATE_CONFLICT. Evidence is given with the opening and with the
// response; it is not changed later.
//
// What a dispute is about is held out of settlement while it is unresolved, and for good once
// it is UPHELD (Holding). Two disputes may be about one receipt: Parts counts it once. The
// receipts, their events and their proofs stay as they are.
//
// A tenant has 1,000 unresolved disputes at most: each statement reads all of them at once, into
// memory, so a caller that opens disputes in a loop must not make every statement slower.
//
// All sides live in one tenant, and a key of the tenant may act for any: the event names who
// raised a dispute or answered it as actingOrgId, and otherwise the tenant's organisation. That
// is as asserted, and assertedBy names who asserts it: always the tenant's organisation.
//
// Replay brings the disputes of a restored older database to the state that the log has. One of them
// may be about a right that the database does not have any more.
//
// reason, resolution and evidence are the caller's texts and part of events that are never
// erased: they are no place for personal data, and the API says so.
package dispute

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Dispute is the record of a dispute.
type Dispute struct {
	DisputeSummary `db:"*"`
	Evidence       []Evidence `json:"evidence" db:"evidence,moves" doc:"What was put forward, oldest first."`
}

// DisputeSummary is the record without its evidence: with it a page of a list would be too long.
type DisputeSummary struct {
	ID            string        `json:"id" db:"dispute_id"`
	TenantID      string        `json:"-" db:"tenant_id"`
	ReceiptIDs    []string      `json:"receiptIds" db:"receipt_ids" doc:"The receipts that are disputed; empty where it is about a right and a window."`
	RightID       *string       `json:"rightId" db:"right_id" doc:"The right whose deliveries are disputed; null where it is about receipts."`
	Window        Window        `json:"window" db:"*" doc:"When they were shown; null where it is about receipts."`
	RaisedByOrgID string        `json:"raisedByOrgId" db:"raised_by_org_id" doc:"The organisation that disputes them."`
	Reason        string        `json:"reason" db:"reason" doc:"What it says."`
	Outcome       *Outcome      `json:"outcome" db:"outcome,moves" enum:"UPHELD,REJECTED" nullable:"true" doc:"How it was resolved; null until it is. UPHELD excludes the deliveries from settlement for good."`
	Resolution    *string       `json:"resolution" db:"resolution,moves" doc:"What was said when it was resolved."`
	State         State         `json:"state" db:"state,moves" enum:"OPEN,INVESTIGATING,RESPONDED,RESOLVED"`
	CreatedAt     store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt     store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision      int64         `json:"revision" db:"revision,moves"`
}

// Window is a stretch of renderedAt. The zero Window is none: null in JSON.
type Window struct {
	_    struct{}      `nullable:"true"`
	From store.Instant `json:"from" db:"window_from" doc:"At or after it."`
	To   store.Instant `json:"to" db:"window_to" doc:"Before it."`
}

// SchemaName is for the document.
func (Window) SchemaName() string { return "DisputeWindow" }

// MarshalJSON writes the window, or null.
func (w Window) MarshalJSON() ([]byte, error) {
	if w == (Window{}) {
		return []byte("null"), nil
	}
	type plain Window
	return json.Marshal(plain(w))
}

// Evidence is one thing that was put forward.
type Evidence struct {
	At         store.Instant `json:"at" doc:"When it was put forward."`
	ByOrgID    string        `json:"byOrgId" doc:"The organisation that did."`
	Text       string        `json:"text" doc:"What it says."`
	References []string      `json:"references" doc:"Where to find more."`
}

// SchemaName is for the document.
func (Evidence) SchemaName() string { return "DisputeEvidence" }

// State is how far a dispute is.
type State string

// The states.
const (
	Open          State = "OPEN"
	Investigating State = "INVESTIGATING"
	Responded     State = "RESPONDED"
	Resolved      State = "RESOLVED"
)

// Outcome is how a dispute was resolved.
type Outcome string

// The outcomes.
const (
	Upheld   Outcome = "UPHELD"
	Rejected Outcome = "REJECTED"
)

// Action moves a dispute on.
type Action string

// The actions.
const (
	Investigate Action = "investigate"
	Respond     Action = "respond"
	Resolve     Action = "resolve"
)

// transitions are all that there are.
var transitions = store.Steps[Action, State]{
	Investigate: {From: store.From(Open), To: Investigating, Event: "dispute.investigation_started"},
	Respond:     {From: store.From(Investigating), To: Responded, Event: "dispute.responded"},
	Resolve:     {From: store.From(Open, Investigating, Responded), To: Resolved, Event: "dispute.resolved"},
}

const (
	// maxReceipts bounds the receipts of a dispute, maxWindow its window.
	maxReceipts = 1000
	maxWindow   = 400 * 24 * time.Hour
	// maxEvidence and maxReferences bound lists; maxText and maxReference texts, in bytes.
	maxEvidence, maxReferences, maxText, maxReference = 20, 20, 4096, 256
	// maxWritten bounds all evidence as it is written, so that the event of a text of control
	// characters, each of which is six bytes there, is not too long for the log.
	maxWritten = 256 << 10
	// maxUnresolved bounds the unresolved disputes of a tenant.
	maxUnresolved = 1000
)

// open settles a new dispute, of which the caller has filled in what was asked for.
func open(d Dispute, now store.Instant) (Dispute, error) {
	if err := d.checkSubject(); err != nil {
		return Dispute{}, err
	}
	d.State, d.CreatedAt, d.UpdatedAt = Open, now, now
	return d, nil
}

// checkSubject says what is wrong with what the dispute is about.
func (d *Dispute) checkSubject() error {
	byRight, windowed := d.RightID != nil, d.Window != Window{}
	switch {
	case len(d.ReceiptIDs) > 0 && (byRight || windowed):
		return api.InvalidField("receiptIds", "excludes rightId and window: a dispute is about either")
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
		return api.InvalidField("receiptIds", "is required, or rightId with window")
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

// append adds evidence to what there is, which is left as it is.
func (d *Dispute) append(more []Evidence) error {
	var faults []api.ValidationError
	fault := func(message, field string, at ...any) {
		faults = append(faults, api.ValidationError{Field: fmt.Sprintf(field, at...), Message: message})
	}
	for i, e := range more {
		if len(e.Text) > maxText {
			fault(fmt.Sprintf("must be of at most %d bytes", maxText), "evidence[%d].text", i)
		}
		if len(e.References) > maxReferences {
			fault(fmt.Sprintf("must have at most %d references", maxReferences), "evidence[%d].references", i)
		}
		for n, reference := range e.References {
			if !isReference(reference) {
				fault(fmt.Sprintf("must be of 1 to %d bytes without control characters", maxReference), "evidence[%d].references[%d]", i, n)
			}
		}
	}
	if len(faults) > 0 {
		return api.Invalid(faults...)
	}
	all := append(append([]Evidence{}, d.Evidence...), more...)
	if len(all) > maxEvidence {
		return api.InvalidField("evidence", fmt.Sprintf("a dispute has at most %d, and this one has %d", maxEvidence, len(d.Evidence)))
	}
	written, err := sealer.Canonical(all)
	if err != nil {
		return err
	}
	if len(written) > maxWritten {
		return api.InvalidField("evidence", fmt.Sprintf("all of a dispute's must be of at most %d bytes as JSON: refer to what is longer", maxWritten))
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
