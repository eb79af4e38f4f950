package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"
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
func (b Bases) List(ctx context.Context) iter.Seq2[Basis, error] {
	return list[Basis](ctx, b.c, "/v1/bases", "bases", nil)
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

// RightFilter selects rights; its zero value is all.
type RightFilter struct {
	BasisID       string `json:"basisId"`
	Substrate     string `json:"substrate"`
	State         string `json:"state"`
	ParentRightID string `json:"parentRightId"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
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

// RightPropagation says which nodes know of the last change of a right.
type RightPropagation struct {
	RightID     string      `json:"rightId"`
	Propagation Propagation `json:"propagation"`
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

// Basis is a legal basis, on which rights rest.
type Basis struct {
	Record
	// SHA-256 of the document, base64url.
	ContentHash string `json:"contentHash"`
	// Null is since ever.
	EffectiveFrom time.Time `json:"effectiveFrom"`
	// Exclusive; null is open.
	EffectiveUntil time.Time `json:"effectiveUntil"`
	// The organisation that holds it.
	HolderOrgID string `json:"holderOrgId"`
	// Where the basis applies, as the caller spells it.
	Jurisdiction string `json:"jurisdiction"`
	// What kind of basis it is. One of LICENSE, CONSENT, CONTRACT, STATUTE, LEGITIMATE_INTEREST.
	Kind string `json:"kind"`
	// Where to read about it.
	Reference string `json:"reference"`
	// One of ACTIVE, EXPIRED.
	State string `json:"state"`
	// What people call it.
	Title string `json:"title"`
}

// NewBasis asks for a basis.
type NewBasis struct {
	// SHA-256 of the document, base64url.
	ContentHash string `json:"contentHash,omitempty"`
	// Absent: since ever.
	EffectiveFrom time.Time `json:"effectiveFrom,omitzero"`
	// Exclusive; absent: open.
	EffectiveUntil time.Time `json:"effectiveUntil,omitzero"`
	// The tenant's organisation when absent.
	HolderOrgID string `json:"holderOrgId,omitempty"`
	// Where the basis applies, as the caller spells it.
	Jurisdiction string `json:"jurisdiction,omitempty"`
	// What kind of basis it is. One of LICENSE, CONSENT, CONTRACT, STATUTE, LEGITIMATE_INTEREST.
	Kind string `json:"kind"`
	// Where to read about it.
	Reference string `json:"reference,omitempty"`
	// What people call it.
	Title string `json:"title"`
}

// Right permits deliveries.
type Right struct {
	Record
	// The legal basis that it rests on.
	BasisID string `json:"basisId"`
	// What the effective state comes from, if not from this right alone: the ancestor that stops it, or
	// the ancestor or basis that has not begun yet or has ended with it.
	BlockedBy string `json:"blockedBy"`
	// SHA-256 of the document, base64url.
	ContentHash string `json:"contentHash"`
	// The first moment at which it holds.
	EffectiveFrom time.Time `json:"effectiveFrom"`
	// Whether the right is in force now: the most severe of its own state, its ancestors' states, and
	// NOT_BEGUN before effectiveFrom or EXPIRED from effectiveUntil on. One of ACTIVE, NOT_BEGUN,
	// SUSPENDED, EXPIRED, REVOKED, from least to most severe.
	EffectiveState string `json:"effectiveState"`
	// Exclusive; null is open.
	EffectiveUntil time.Time `json:"effectiveUntil"`
	// The organisation that holds it.
	HolderOrgID string `json:"holderOrgId"`
	// The right that this one was derived from.
	ParentRightID string `json:"parentRightId"`
	// Limits: regions, maxSpeedMph, bvlos, channels and campaigns, with what was inherited from the
	// parent; description, labels, and the caller's own keys, which begin with x-.
	Scope json.RawMessage `json:"scope"`
	// One of ACTIVE, SUSPENDED, REVOKED.
	State string `json:"state"`
	// The reason given with the last suspension or revocation.
	StateReason string `json:"stateReason"`
	// The medium, whose rules apply.
	Substrate string `json:"substrate"`
}

// NewRight asks for a right.
type NewRight struct {
	// The legal basis that it rests on.
	BasisID string `json:"basisId"`
	// A date or a time of ISO 8601, with its offset from UTC.
	EffectiveFrom time.Time `json:"effectiveFrom"`
	// Exclusive; absent: the end of the parent or the basis.
	EffectiveUntil time.Time `json:"effectiveUntil,omitzero"`
	// The tenant's organisation when absent.
	HolderOrgID string `json:"holderOrgId,omitempty"`
	// The right to derive this one from.
	ParentRightID string `json:"parentRightId,omitempty"`
	// An object of limits: regions, maxSpeedMph, bvlos, channels and campaigns; besides them
	// description, labels (an object of strings) and keys of your own that begin with x-. A string is
	// kept as the description. Optional for a right that derives from another, which inherits what is
	// not named.
	Scope any `json:"scope,omitempty"`
	// The medium, whose rules apply.
	Substrate string `json:"substrate"`
}

// MovedRight is a right that was suspended, resumed or revoked.
type MovedRight struct {
	Propagation Propagation `json:"propagation"`
	Right       Right       `json:"right"`
}

// Provenance is what a right rests on, and what derives from it.
type Provenance struct {
	Basis Basis `json:"basis"`
	// Rights derived directly from it, newest first, 500 at most.
	Derived []Right `json:"derived"`
	// Root right first, the right itself last.
	Lineage []Right `json:"lineage"`
}
