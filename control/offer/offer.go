// Package offer owns offers: proposals between two organisations to grant a part of a right.
//
// An offer goes from one organisation to another, and one of the two holds the right. It is for a
// part of the right: its scope is checked against the right's when it is proposed, as a derived
// right's is, and inherits the limits that it does not name. So the record shows exactly what
// accepting it grants; the scope as it was sent is not kept. A right's scope never changes, so
// accepting grants what was proposed; the check is repeated then. The window of the derived right is
// a part of the offer in the same way: within the right's, whose end it has if it names none. It may
// have begun already, so that plays from before the agreement can be delivered as late rows. If it
// names no beginning, the derived right begins when the offer is accepted, or with a right that
// begins later; accepting writes that into the offer.
//
// An offer moves along the table of transitions below. Each move is one change of record, revision
// and audit event. All states but PROPOSED are final. A caller that loses a race gets
// STATE_CONFLICT.
//
// Accepting issues a right in the same change. It is derived from the offer's right, and held by
// the organisation that does not hold that one. Its contentHash is the SHA-256, in base64url, of
// the RFC 8785 bytes of the accepted offer in the response. An accepted offer never changes again,
// so the hash can be computed from the response, or from the data of offer.accepted without
// actingOrgId and assertedBy. Proposing, countering and accepting require that the right and its
// ancestors are ACTIVE.
//
// Countering ends an offer and makes another in the opposite direction, in one change and with an
// event for each: offer.countered and offer.proposed. The new one's termsRef is counter_of:<id>;
// the caller's termsRef is kept as counterTermsRef. No other offer may have a termsRef of that
// form.
//
// An offer is EXPIRED from its expiresAt on: reads and moves compare it with the clock. A sweep
// (Expire) then stores the state, with an event by the system. It works in batches, each a change
// of its own, so a process that dies in between loses nothing. Changes run one at a time and each
// reads again what is due, so any number of processes emit one event per offer.
//
// Both organisations are in one tenant, and a key of the tenant may act for either. So an event
// names two: actingOrgId is the organisation that the move was made for, without proof of its
// consent, and assertedBy is the tenant's own organisation, which asserts it. The two differ when,
// for instance, a tenant accepts the offer that it made. Both are null when an offer expires.
//
// In a database restored from an older copy, Replay closes the offers that were closed meanwhile,
// so none is closed twice. A right that was derived meanwhile is not issued again: the operator who
// accepted the older database has to issue it.
//
// stateReason is the caller's text and part of an event that is never erased, so it must hold no
// personal data; the API says so.
package offer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
)

// Offer is the record of an offer.
type Offer struct {
	ID        string `json:"id" db:"offer_id"`
	TenantID  string `json:"-" db:"tenant_id"`
	RightID   string `json:"rightId" db:"right_id" doc:"The right of which a part is requested."`
	FromOrgID string `json:"fromOrgId" db:"from_org_id" doc:"The organisation that proposed it."`
	ToOrgID   string `json:"toOrgId" db:"to_org_id" doc:"The organisation that may accept, counter or reject it."`
	// Scope is an RFC 8785 object.
	Scope           json.RawMessage `json:"scope" db:"scope" doc:"The scope of the right that accepting it issues, with what it inherits."`
	EffectiveFrom   store.Instant   `json:"effectiveFrom" db:"effective_from,moves" nullable:"true" doc:"When the right that accepting it issues begins. Null while it is to begin when the offer is accepted, or with the right if that begins later."`
	EffectiveUntil  store.Instant   `json:"effectiveUntil" db:"effective_until" nullable:"true" doc:"When the right that accepting it issues ends; exclusive, null is open."`
	TermsRef        *string         `json:"termsRef" db:"terms_ref" doc:"Where the terms are; counter_of:<id> for a counter-offer."`
	CounterTermsRef *string         `json:"counterTermsRef" db:"counter_terms_ref" doc:"The termsRef that was given with a counter-offer."`
	ExpiresAt       store.Instant   `json:"expiresAt" db:"expires_at" doc:"The first moment at which it can't be accepted any more."`
	CounteredBy     *string         `json:"counteredBy" db:"countered_by,moves" doc:"The counter-offer that replaced it."`
	DerivedRightID  *string         `json:"derivedRightId" db:"derived_right_id,moves" doc:"The right that accepting it issued."`
	State           State           `json:"state" db:"state,moves" enum:"PROPOSED,COUNTERED,WITHDRAWN,REJECTED,ACCEPTED,EXPIRED"`
	StateReason     *string         `json:"stateReason" db:"state_reason,moves" doc:"The reason given with a withdrawal or rejection."`
	CreatedAt       store.Instant   `json:"createdAt" db:"created_at"`
	UpdatedAt       store.Instant   `json:"updatedAt" db:"updated_at,moves"`
	Revision        int64           `json:"revision" db:"revision,moves"`
}

// State is the state of an offer.
type State string

// The states.
const (
	Proposed  State = "PROPOSED"
	Countered State = "COUNTERED"
	Withdrawn State = "WITHDRAWN"
	Rejected  State = "REJECTED"
	Accepted  State = "ACCEPTED"
	Expired   State = "EXPIRED"
)

// Action moves an offer out of PROPOSED.
type Action string

// The actions.
const (
	Counter  Action = "counter"
	Accept   Action = "accept"
	Withdraw Action = "withdraw"
	Reject   Action = "reject"
	Expire   Action = "expire"
)

// transitions is the contract's table. An offer is already EXPIRED when Expire stores this.
var transitions = store.Steps[Action, State]{
	Counter:  {From: store.From(Proposed), To: Countered, Event: eventCountered},
	Withdraw: {From: store.From(Proposed), To: Withdrawn, Event: eventWithdrawn},
	Reject:   {From: store.From(Proposed), To: Rejected, Event: eventRejected},
	Accept:   {From: store.From(Proposed), To: Accepted, Event: eventAccepted},
	Expire:   {From: store.From(Expired), To: Expired, Event: eventExpired},
}

// stateAt returns the state at a time, whether EXPIRED is stored yet or not.
func (o *Offer) stateAt(now store.Instant) State {
	if o.State == Proposed && !now.Before(o.ExpiresAt.Time) {
		return Expired
	}
	return o.State
}

// actor is the organisation that takes an action; nil for an offer that expires.
func (o *Offer) actor(a Action) *string {
	switch a {
	case Withdraw:
		return &o.FromOrgID
	case Expire:
		return nil
	default:
		return &o.ToOrgID
	}
}

// lifetime is how long an offer is open by default.
const lifetime = 7 * 24 * time.Hour

// counterOf begins the termsRef of a counter-offer.
const counterOf = "counter_of:"

// propose completes a new offer about a right of holder. An empty FromOrgID is holder.
func propose(o Offer, holder string, now store.Instant) (Offer, error) {
	if o.FromOrgID == "" {
		o.FromOrgID = holder
	}
	var faults []api.ValidationError
	switch {
	case o.FromOrgID == o.ToOrgID:
		faults = append(faults, api.ValidationError{Field: "toOrgId", Message: "must be another organisation than the one that proposes"})
	case o.FromOrgID != holder && o.ToOrgID != holder:
		faults = append(faults, api.ValidationError{Field: "toOrgId", Message: "must be the right's holder " + holder + " unless that proposes"})
	}
	if o.TermsRef != nil && strings.HasPrefix(*o.TermsRef, counterOf) {
		faults = append(faults, api.ValidationError{Field: "termsRef", Message: "may begin with " + counterOf + " in a counter-offer only"})
	}
	return o.begin(faults, now)
}

// counter completes the offer that replaces o, in the opposite direction; requested has its scope,
// termsRef and expiry.
func (o *Offer) counter(requested Offer, now store.Instant) (Offer, error) {
	requested.TenantID, requested.RightID, requested.FromOrgID, requested.ToOrgID = o.TenantID, o.RightID, o.ToOrgID, o.FromOrgID
	terms := counterOf + o.ID
	requested.TermsRef, requested.CounterTermsRef = &terms, requested.TermsRef
	return requested.begin(nil, now)
}

// begin sets the fields of every new offer.
func (o Offer) begin(faults []api.ValidationError, now store.Instant) (Offer, error) {
	if o.ExpiresAt.IsZero() {
		o.ExpiresAt = store.At(now.Add(lifetime))
	}
	if !now.Before(o.ExpiresAt.Time) {
		faults = append(faults, api.ValidationError{Field: "expiresAt", Message: "must lie ahead"})
	}
	if o.EffectiveFrom.IsZero() && !o.EffectiveUntil.IsZero() && !now.Before(o.EffectiveUntil.Time) {
		faults = append(faults, api.ValidationError{Field: "effectiveUntil", Message: "must lie ahead if effectiveFrom is absent, since the right begins when the offer is accepted"})
	}
	if len(faults) > 0 {
		return Offer{}, api.Invalid(faults...)
	}
	o.State, o.CreatedAt, o.UpdatedAt = Proposed, now, now
	return o, nil
}

// beneficiary is the side that does not hold the right.
func (o *Offer) beneficiary(holder string) string {
	if o.FromOrgID == holder {
		return o.ToOrgID
	}
	return o.FromOrgID
}

// contentHash is the hash of the record as in responses.
func (o *Offer) contentHash() (string, error) {
	text, err := canonical.JSON(o)
	if err != nil {
		return "", err
	}
	return hashOf(text), nil
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
