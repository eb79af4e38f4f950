package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"
)

// Offers offer a right to another organisation.
type Offers struct{ c *Client }

// Offers offer a right to another organisation.
func (c *Client) Offers() Offers { return Offers{c} }

// Propose proposes an offer.
func (o Offers) Propose(ctx context.Context, offer NewOffer) (*Offer, error) {
	return record[Offer](ctx, o.c, http.MethodPost, "/v1/offers", "offer", offer)
}

// StateFilter selects records of a right in a state; its zero value is all.
type StateFilter struct {
	RightID string `json:"rightId"`
	State   string `json:"state"`
	// Limit is how many a page has; 0 is the service's default.
	Limit int `json:"limit"`
}

// List iterates over the offers, newest first.
func (o Offers) List(ctx context.Context, f StateFilter) iter.Seq2[Offer, error] {
	return list[Offer](ctx, o.c, "/v1/offers", "offers", values(f))
}

// Get returns an offer.
func (o Offers) Get(ctx context.Context, offerID string) (*Offer, error) {
	return record[Offer](ctx, o.c, http.MethodGet, at("/v1/offers", offerID), "offer", nil)
}

// Counter makes a new offer in the opposite direction.
func (o Offers) Counter(ctx context.Context, offerID string, offer CounterOffer) (*CounteredOffer, error) {
	return post[CounteredOffer](ctx, o.c, at("/v1/offers", offerID, "counter"), offer)
}

// Accept issues the right that derives from the offer.
func (o Offers) Accept(ctx context.Context, offerID string) (*AcceptedOffer, error) {
	return post[AcceptedOffer](ctx, o.c, at("/v1/offers", offerID, "accept"), nil)
}

// Withdraw takes an offer back, by its proposer. reason may be empty.
func (o Offers) Withdraw(ctx context.Context, offerID, reason string) (*Offer, error) {
	return record[Offer](ctx, o.c, http.MethodPost, at("/v1/offers", offerID, "withdraw"), "offer", because{reason})
}

// Reject turns an offer down, by its recipient. reason may be empty.
func (o Offers) Reject(ctx context.Context, offerID, reason string) (*Offer, error) {
	return record[Offer](ctx, o.c, http.MethodPost, at("/v1/offers", offerID, "reject"), "offer", because{reason})
}

// Challenges contest rights.
type Challenges struct{ c *Client }

// Challenges contest rights.
func (c *Client) Challenges() Challenges { return Challenges{c} }

// Open opens a challenge against a right.
func (h Challenges) Open(ctx context.Context, challenge NewChallenge) (*Challenge, error) {
	return record[Challenge](ctx, h.c, http.MethodPost, "/v1/challenges", "challenge", challenge)
}

// List iterates over the challenges, newest first.
func (h Challenges) List(ctx context.Context, f StateFilter) iter.Seq2[Challenge, error] {
	return list[Challenge](ctx, h.c, "/v1/challenges", "challenges", values(f))
}

// Get returns a challenge.
func (h Challenges) Get(ctx context.Context, challengeID string) (*Challenge, error) {
	return record[Challenge](ctx, h.c, http.MethodGet, at("/v1/challenges", challengeID), "challenge", nil)
}

// Resolve decides a challenge. One that is upheld revokes the right.
func (h Challenges) Resolve(ctx context.Context, challengeID string, how ChallengeResolution) (*ResolvedChallenge, error) {
	return post[ResolvedChallenge](ctx, h.c, at("/v1/challenges", challengeID, "resolve"), how)
}

// Withdraw ends a challenge without a decision. reason may be empty.
func (h Challenges) Withdraw(ctx context.Context, challengeID, reason string) (*Challenge, error) {
	return record[Challenge](ctx, h.c, http.MethodPost, at("/v1/challenges", challengeID, "withdraw"), "challenge", because{reason})
}

// Offer offers to share, cede or sublet a right.
type Offer struct {
	Record
	// The termsRef that was given with a counter-offer.
	CounterTermsRef string `json:"counterTermsRef"`
	// The counter-offer that took its place.
	CounteredBy string `json:"counteredBy"`
	// The right that accepting it issued.
	DerivedRightID string `json:"derivedRightId"`
	// When the right that accepting it issues begins. Null while it is to begin when the offer is
	// accepted, or with the right if that begins later.
	EffectiveFrom time.Time `json:"effectiveFrom"`
	// When the right that accepting it issues ends; exclusive, null is open.
	EffectiveUntil time.Time `json:"effectiveUntil"`
	// The first moment at which it can't be accepted any more.
	ExpiresAt time.Time `json:"expiresAt"`
	// The organisation that proposed it.
	FromOrgID string `json:"fromOrgId"`
	// The right of which a part is asked for.
	RightID string `json:"rightId"`
	// The scope of the right that accepting it issues, with what it inherits.
	Scope json.RawMessage `json:"scope"`
	// One of PROPOSED, COUNTERED, WITHDRAWN, REJECTED, ACCEPTED, EXPIRED.
	State string `json:"state"`
	// The reason given with a withdrawal or rejection.
	StateReason string `json:"stateReason"`
	// Where the terms are; counter_of:<id> for a counter-offer.
	TermsRef string `json:"termsRef"`
	// The organisation that may accept, counter or reject it.
	ToOrgID string `json:"toOrgId"`
}

// NewOffer proposes an offer.
type NewOffer struct {
	// When the right that accepting issues begins, within the right's window; it may lie in the past.
	// Absent: when it is accepted, or with the right if that begins later.
	EffectiveFrom time.Time `json:"effectiveFrom,omitzero"`
	// When the right that accepting issues ends, within the right's window; exclusive. Absent: with
	// the right.
	EffectiveUntil time.Time `json:"effectiveUntil,omitzero"`
	// The first moment at which it can't be accepted any more; absent: in 7 days.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// The organisation that proposes; the right's holder when absent.
	FromOrgID string `json:"fromOrgId,omitempty"`
	// The right of which a part is asked for.
	RightID string `json:"rightId"`
	// The scope of the right that accepting issues: an object of limits, or a string, which is kept as
	// its description. What it does not name is inherited from the right. Never wider than the
	// right's.
	Scope any `json:"scope,omitempty"`
	// Where the terms are; no place for personal data.
	TermsRef string `json:"termsRef,omitempty"`
	// The organisation that may accept; one of the two holds the right.
	ToOrgID string `json:"toOrgId"`
}

// CounterOffer is what is proposed instead of an offer.
type CounterOffer struct {
	// When the right that accepting issues begins, within the right's window; it may lie in the past.
	// Absent: when it is accepted, or with the right if that begins later.
	EffectiveFrom time.Time `json:"effectiveFrom,omitzero"`
	// When the right that accepting issues ends, within the right's window; exclusive. Absent: with
	// the right.
	EffectiveUntil time.Time `json:"effectiveUntil,omitzero"`
	// The first moment at which it can't be accepted any more; absent: in 7 days.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// As in an offer: what it does not name is inherited from the right, not from the offer that it
	// answers.
	Scope any `json:"scope,omitempty"`
	// Where the terms are; no place for personal data.
	TermsRef string `json:"termsRef,omitempty"`
}

// CounteredOffer is an offer that was countered, and the new one.
type CounteredOffer struct {
	// The offer that it answers.
	Countered Offer `json:"countered"`
	// The counter-offer.
	Offer Offer `json:"offer"`
}

// AcceptedOffer is an offer that was accepted, and the right that derives from it.
type AcceptedOffer struct {
	Offer Offer `json:"offer"`
	// The derived right; its contentHash is that of the offer.
	Right Right `json:"right"`
}

// Challenge contests a right.
type Challenge struct {
	Record
	// The organisation that challenges it.
	ChallengerOrgID string `json:"challengerOrgId"`
	// What the challenger says.
	Reason string `json:"reason"`
	// What was said when it was resolved or withdrawn.
	Resolution string `json:"resolution"`
	// The right that is challenged.
	RightID string `json:"rightId"`
	// One of OPEN, UPHELD, OVERTURNED, WITHDRAWN.
	State string `json:"state"`
}

// NewChallenge opens a challenge.
type NewChallenge struct {
	// The organisation that challenges it.
	ChallengerOrgID string `json:"challengerOrgId"`
	// Kept in the audit log for good: no place for personal data.
	Reason string `json:"reason"`
	// The right to challenge.
	RightID string `json:"rightId"`
}

// ChallengeResolution resolves a challenge.
type ChallengeResolution struct {
	// Kept in the audit log for good: no place for personal data.
	Resolution string `json:"resolution,omitempty"`
	// Whether the right is revoked; absent: it is not, and the challenge is overturned.
	Upheld bool `json:"upheld,omitempty"`
}

// ResolvedChallenge is a challenge that was resolved, and the right that it was about.
type ResolvedChallenge struct {
	Challenge   Challenge   `json:"challenge"`
	Propagation Propagation `json:"propagation"`
	Right       Right       `json:"right"`
}
