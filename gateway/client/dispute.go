package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
)

// Disputes contest receipts.
type Disputes struct{ c *Client }

// Disputes contest receipts.
func (c *Client) Disputes() Disputes { return Disputes{c} }

// Open opens a dispute.
func (d Disputes) Open(ctx context.Context, dispute NewDispute) (*Dispute, error) {
	return record[Dispute](ctx, d.c, http.MethodPost, "/v1/disputes", "dispute", dispute)
}

// List iterates over the disputes, newest first.
func (d Disputes) List(ctx context.Context, f DisputeFilter) iter.Seq2[DisputeSummary, error] {
	return list[DisputeSummary](ctx, d.c, "/v1/disputes", "disputes", values(f))
}

// Get returns a dispute, and what it holds out of settlement.
func (d Disputes) Get(ctx context.Context, disputeID string) (*PricedDispute, error) {
	return record[PricedDispute](ctx, d.c, http.MethodGet, at("/v1/disputes", disputeID), "dispute", nil)
}

// GetWithPlays is Get, and also says when and where each disputed receipt was, and what it is worth. It requires audit:read, too.
func (d Disputes) GetWithPlays(ctx context.Context, disputeID string) (*PricedDispute, error) {
	data, err := get[struct {
		Dispute PricedDispute `json:"dispute"`
	}](ctx, d.c, at("/v1/disputes", disputeID), url.Values{"plays": {"true"}})
	if err != nil {
		return nil, err
	}
	return &data.Dispute, nil
}

// Investigate notes that a dispute is looked into.
func (d Disputes) Investigate(ctx context.Context, disputeID string) (*Dispute, error) {
	return d.move(ctx, disputeID, "investigate", nil)
}

// Respond answers a dispute.
func (d Disputes) Respond(ctx context.Context, disputeID string, answer NewDisputeResponse) (*Dispute, error) {
	return d.move(ctx, disputeID, "respond", answer)
}

// Resolve decides a dispute.
func (d Disputes) Resolve(ctx context.Context, disputeID string, how DisputeResolution) (*Dispute, error) {
	return d.move(ctx, disputeID, "resolve", how)
}

func (d Disputes) move(ctx context.Context, disputeID, move string, body any) (*Dispute, error) {
	return record[Dispute](ctx, d.c, http.MethodPost, at("/v1/disputes", disputeID, move), "dispute", body)
}
