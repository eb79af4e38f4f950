package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Disputes contest receipts.
type Disputes struct{ c *Client }

// Disputes contest receipts.
func (c *Client) Disputes() Disputes { return Disputes{c} }

// Open opens a dispute.
func (d Disputes) Open(ctx context.Context, dispute NewDispute) (*DisputeRecord, error) {
	return record[DisputeRecord](ctx, d.c, http.MethodPost, "/v1/disputes", "dispute", dispute)
}

// DisputeFilter selects disputes; its zero value is all.
type DisputeFilter struct {
	RightID   string `json:"rightId"`
	ReceiptID string `json:"receiptId"`
	State     string `json:"state"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the disputes, newest first.
func (d Disputes) List(ctx context.Context, f DisputeFilter) iter.Seq2[Dispute, error] {
	return list[Dispute](ctx, d.c, "/v1/disputes", "disputes", values(f))
}

// Get returns a dispute, and what it holds out of settlement.
func (d Disputes) Get(ctx context.Context, disputeID string) (*PricedDispute, error) {
	return record[PricedDispute](ctx, d.c, http.MethodGet, at("/v1/disputes", disputeID), "dispute", nil)
}

// Investigate notes that a dispute is looked into.
func (d Disputes) Investigate(ctx context.Context, disputeID string) (*DisputeRecord, error) {
	return d.move(ctx, disputeID, "investigate", nil)
}

// Respond answers a dispute.
func (d Disputes) Respond(ctx context.Context, disputeID string, answer DisputeAnswer) (*DisputeRecord, error) {
	return d.move(ctx, disputeID, "respond", answer)
}

// Resolve decides a dispute.
func (d Disputes) Resolve(ctx context.Context, disputeID string, how DisputeResolution) (*DisputeRecord, error) {
	return d.move(ctx, disputeID, "resolve", how)
}

func (d Disputes) move(ctx context.Context, disputeID, move string, body any) (*DisputeRecord, error) {
	return record[DisputeRecord](ctx, d.c, http.MethodPost, at("/v1/disputes", disputeID, move), "dispute", body)
}

// DisputeRecord is a dispute with what its sides have brought forward.
type DisputeRecord struct {
	Dispute
	Evidence []Evidence `json:"evidence"`
}

// PricedDispute is a dispute with what it holds out of settlement.
type PricedDispute struct {
	DisputeRecord
	// HeldAmount is empty, too, while it is not known.
	HeldAmount []DisputedAmount `json:"heldAmount"`
}

// Dispute contests receipts. They are held out of settlement until it is resolved.
type Dispute struct {
	Record
	// How it was resolved; null until it is. UPHELD excludes the deliveries from settlement for good.
	// One of UPHELD, REJECTED.
	Outcome string `json:"outcome"`
	// The organisation that disputes them.
	RaisedByOrgID string `json:"raisedByOrgId"`
	// What it says.
	Reason string `json:"reason"`
	// The receipts that are disputed; empty where it is about a right and a window.
	ReceiptIDs []string `json:"receiptIds"`
	// What was said when it was resolved.
	Resolution string `json:"resolution"`
	// The right whose deliveries are disputed; null where it is about receipts.
	RightID string `json:"rightId"`
	// One of OPEN, INVESTIGATING, RESPONDED, RESOLVED.
	State string `json:"state"`
	// When they were shown; null where it is about receipts.
	Window *DisputeWindow `json:"window"`
}

// NewDispute opens a dispute.
type NewDispute struct {
	// What is put forward with it.
	Evidence []NewEvidence `json:"evidence,omitempty"`
	// The organisation that disputes them. Default: the tenant's.
	RaisedByOrgID string `json:"raisedByOrgId,omitempty"`
	// Kept in the audit log for good: no place for personal data.
	Reason string `json:"reason"`
	// The receipts to dispute, each once. Excludes rightId and window.
	ReceiptIDs []string `json:"receiptIds,omitempty"`
	// The right whose deliveries are disputed, not those of rights derived from it; requires window.
	RightID string `json:"rightId,omitempty"`
	// When they were shown, 400 days at most; requires rightId.
	Window *DisputeWindow `json:"window,omitempty"`
}

// DisputeWindow is a stretch of time.
type DisputeWindow struct {
	// At or after it.
	From time.Time `json:"from"`
	// Before it.
	To time.Time `json:"to"`
}

// Evidence is what a side has brought forward.
type Evidence struct {
	// When it was put forward.
	At time.Time `json:"at"`
	// The organisation that did.
	ByOrgID string `json:"byOrgId"`
	// Where to find more.
	References []string `json:"references"`
	// What it says.
	Text string `json:"text"`
}

// NewEvidence is what a side brings forward.
type NewEvidence struct {
	// Where to find more: URLs, or names of documents, of up to 256 bytes. Kept in the audit log for
	// good: no place for personal data.
	References []string `json:"references,omitempty"`
	// What it says, of up to 4096 bytes. Kept in the audit log for good: no place for personal data.
	Text string `json:"text"`
}

// DisputedAmount is what is held.
type DisputedAmount struct {
	// Decimal.
	Amount string `json:"amount"`
	// A code of ISO 4217.
	Currency string `json:"currency"`
}

// DisputeAnswer answers a dispute.
type DisputeAnswer struct {
	// The organisation that responds. Default: the tenant's.
	ByOrgID string `json:"byOrgId,omitempty"`
	// What is put forward.
	Evidence []NewEvidence `json:"evidence"`
}

// DisputeResolution resolves a dispute.
type DisputeResolution struct {
	// UPHELD excludes the deliveries from settlement for good; REJECTED lets them be settled. One of
	// UPHELD, REJECTED.
	Outcome string `json:"outcome"`
	// Kept in the audit log for good: no place for personal data.
	Resolution string `json:"resolution,omitempty"`
}
