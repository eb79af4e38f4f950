package client

import (
	"context"
	"iter"
	"net/http"
)

// Bases are what rights rest on.
type Bases struct{ c *Client }

// Bases are what rights rest on.
func (c *Client) Bases() Bases { return Bases{c} }

// Create registers a basis.
func (b Bases) Create(ctx context.Context, basis NewBasis) (*Basis, error) {
	return record[Basis](ctx, b.c, http.MethodPost, "/v1/bases", "basis", basis)
}

// List iterates over the bases, newest first.
func (b Bases) List(ctx context.Context, f BasisFilter) iter.Seq2[Basis, error] {
	return list[Basis](ctx, b.c, "/v1/bases", "bases", values(f))
}

// Get returns a basis.
func (b Bases) Get(ctx context.Context, basisID string) (*Basis, error) {
	return record[Basis](ctx, b.c, http.MethodGet, at("/v1/bases", basisID), "basis", nil)
}

// Rights permit deliveries.
type Rights struct{ c *Client }

// Rights permit deliveries.
func (c *Client) Rights() Rights { return Rights{c} }

// Issue issues a right.
func (r Rights) Issue(ctx context.Context, right NewRight) (*Right, error) {
	return record[Right](ctx, r.c, http.MethodPost, "/v1/rights", "right", right)
}

// List iterates over the rights, newest first.
func (r Rights) List(ctx context.Context, f RightFilter) iter.Seq2[Right, error] {
	return list[Right](ctx, r.c, "/v1/rights", "rights", values(f))
}

// Get returns a right.
func (r Rights) Get(ctx context.Context, rightID string) (*Right, error) {
	return record[Right](ctx, r.c, http.MethodGet, at("/v1/rights", rightID), "right", nil)
}

// Provenance returns what the right rests on and what derives from it.
func (r Rights) Provenance(ctx context.Context, rightID string) (*Provenance, error) {
	return get[Provenance](ctx, r.c, at("/v1/rights", rightID, "provenance"), nil)
}

// Propagation returns which nodes know of the last change of the right.
func (r Rights) Propagation(ctx context.Context, rightID string) (*RightPropagation, error) {
	return get[RightPropagation](ctx, r.c, at("/v1/rights", rightID, "propagation"), nil)
}

// Suspend stops deliveries until Resume. reason may be empty.
func (r Rights) Suspend(ctx context.Context, rightID, reason string) (*MovedRight, error) {
	return r.move(ctx, rightID, "suspend", reason)
}

// Resume allows deliveries again.
func (r Rights) Resume(ctx context.Context, rightID, reason string) (*MovedRight, error) {
	return r.move(ctx, rightID, "resume", reason)
}

// Revoke stops deliveries for good. Deliveries may be receipted until the result, or a later
// Propagation, says that the revocation is applied.
func (r Rights) Revoke(ctx context.Context, rightID, reason string) (*MovedRight, error) {
	return r.move(ctx, rightID, "revoke", reason)
}

func (r Rights) move(ctx context.Context, rightID, move, reason string) (*MovedRight, error) {
	return post[MovedRight](ctx, r.c, at("/v1/rights", rightID, move), because{reason})
}

// because is the body of requests that may say why.
type because struct {
	Reason string `json:"reason,omitempty"`
}
