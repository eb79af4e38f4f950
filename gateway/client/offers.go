package client

import (
	"context"
	"iter"
	"net/http"
)

// Offers offer a right to another organisation.
type Offers struct{ c *Client }

// Offers offer a right to another organisation.
func (c *Client) Offers() Offers { return Offers{c} }

// Propose proposes an offer.
func (o Offers) Propose(ctx context.Context, offer NewOffer) (*Offer, error) {
	return record[Offer](ctx, o.c, http.MethodPost, "/v1/offers", "offer", offer)
}

// List iterates over the offers, newest first.
func (o Offers) List(ctx context.Context, f OfferFilter) iter.Seq2[Offer, error] {
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
func (h Challenges) List(ctx context.Context, f ChallengeFilter) iter.Seq2[Challenge, error] {
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
