// Package offer owns offers: what one organisation asks of another about a right.
//
// An offer is made by one side to the other, and one of the two holds the right. It
// asks for a part of the right, never for more: its scope is held against the right's
// when it is proposed, as a derived right's is. What the scope does not name is inherited
// from the right then, so the record shows exactly what accepting it grants, and both
// sides read the same; the words that were sent are not kept beside it. A right's scope
// never changes, so accepting grants what was proposed; it is held against the right once
// more.
//
// An offer moves along the table of transitions below, each move being one change:
// record, revision and audit event, or nothing. All states but PROPOSED are final. A
// caller who loses a race gets STATE_CONFLICT.
//
// Accepting is one change with the right that the offer asked for. That is derived
// from the offer's right, and held by the side that does not hold that one; its
// contentHash is the SHA-256, in base64url, of the RFC 8785 bytes of the accepted
// offer as it is answered. An accepted offer never changes again, so anybody can
// compute the hash from the answer, or from the data of offer.accepted without
// actingOrgId and assertedBy. Accepting, proposing and countering need a right that is
// ACTIVE then, and its ancestors too.
//
// Countering ends an offer and makes another in the opposite direction, in one change
// and with an event for each: offer.countered and offer.proposed. The new one's termsRef
// is counter_of:<id>, whatever the caller gives; what he gives is kept beside it, as
// counterTermsRef. No other offer may claim that form.
//
// An offer whose expiresAt has come is EXPIRED for everybody at once: whoever reads or
// moves it judges by the clock. A job (Run) writes that down, with an event of the
// system's. It does so in batches, each a change of its own, so that a process which
// dies between two loses nothing; and since changes run one at a time, and each looks
// again at what is still due, any number of processes tell of each offer once.
//
// Both sides live in one tenant, and a key of the tenant may act for either: the
// move says for which. So an event tells two organisations apart. actingOrgId is the side
// that the move was made for, as asserted: nobody has checked that it agrees. assertedBy
// is the tenant's own organisation, which asserts it. Where the two differ, one side says
// what the other did: so it is when a tenant accepts the offer that it made. Both are null
// when an offer expires.
//
// A database that was restored from an older copy is told which offers were closed
// meanwhile (Replay), so none is closed twice. A right that was derived there is not
// made again: the operator who went on with an older database has to issue it.
//
// stateReason is the caller's text and part of an event that is never erased: it is no
// place for personal data, and the API says so.
package offer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Offer is the record of an offer.
type Offer struct {
	ID        string `json:"id" db:"offer_id"`
	TenantID  string `json:"-" db:"tenant_id"`
	RightID   string `json:"rightId" db:"right_id" doc:"The right of which a part is asked for."`
	FromOrgID string `json:"fromOrgId" db:"from_org_id" doc:"The organisation that proposed it."`
	ToOrgID   string `json:"toOrgId" db:"to_org_id" doc:"The organisation that may accept, counter or reject it."`
	// Scope is an RFC 8785 object.
	Scope           json.RawMessage `json:"scope" db:"scope" doc:"The scope of the right that accepting it issues, with what it inherits."`
	TermsRef        *string         `json:"termsRef" db:"terms_ref" doc:"Where the terms are; counter_of:<id> for a counter-offer."`
	CounterTermsRef *string         `json:"counterTermsRef" db:"counter_terms_ref" doc:"The termsRef that was given with a counter-offer."`
	ExpiresAt       store.Instant   `json:"expiresAt" db:"expires_at" doc:"The first moment at which it can't be accepted any more."`
	CounteredBy     *string         `json:"counteredBy" db:"countered_by,moves" doc:"The counter-offer that took its place."`
	DerivedRightID  *string         `json:"derivedRightId" db:"derived_right_id,moves" doc:"The right that accepting it issued."`
	State           State           `json:"state" db:"state,moves" enum:"PROPOSED,COUNTERED,WITHDRAWN,REJECTED,ACCEPTED,EXPIRED"`
	StateReason     *string         `json:"stateReason" db:"state_reason,moves" doc:"The reason given with a withdrawal or rejection."`
	CreatedAt       store.Instant   `json:"createdAt" db:"created_at"`
	UpdatedAt       store.Instant   `json:"updatedAt" db:"updated_at,moves"`
	Revision        int64           `json:"revision" db:"revision,moves"`
}

// State is what has become of an offer.
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

// Action moves an offer from PROPOSED on.
type Action string

// The actions.
const (
	Counter  Action = "counter"
	Accept   Action = "accept"
	Withdraw Action = "withdraw"
	Reject   Action = "reject"
	Expire   Action = "expire"
)

// transitions is the contract's table. An offer whose time has come is EXPIRED already:
// Expire writes that down.
var transitions = store.Steps[Action, State]{
	Counter:  {From: store.From(Proposed), To: Countered, Event: "offer.countered"},
	Withdraw: {From: store.From(Proposed), To: Withdrawn, Event: "offer.withdrawn"},
	Reject:   {From: store.From(Proposed), To: Rejected, Event: "offer.rejected"},
	Accept:   {From: store.From(Proposed), To: Accepted, Event: "offer.accepted"},
	Expire:   {From: store.From(Expired), To: Expired, Event: "offer.expired"},
}

// stateAt is the state as everybody sees it, whether it is written down or not.
func (o *Offer) stateAt(now store.Instant) State {
	if o.State == Proposed && !now.Before(o.ExpiresAt.Time) {
		return Expired
	}
	return o.State
}

// actor is the organisation that an action is of; nobody's for an offer that expires.
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

// lifetime is how long an offer stands when the caller says nothing else.
const lifetime = 7 * 24 * time.Hour

// counterOf begins the termsRef of a counter-offer.
const counterOf = "counter_of:"

// propose settles a new offer, of which the caller has filled in what was asked for,
// about a right that holder holds. An empty FromOrgID is holder.
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

// counter settles the offer that takes the place of o, in the opposite direction; asked
// has its scope, its termsRef and its end.
func (o *Offer) counter(asked Offer, now store.Instant) (Offer, error) {
	asked.TenantID, asked.RightID, asked.FromOrgID, asked.ToOrgID = o.TenantID, o.RightID, o.ToOrgID, o.FromOrgID
	terms := counterOf + o.ID
	asked.TermsRef, asked.CounterTermsRef = &terms, asked.TermsRef
	return asked.begin(nil, now)
}

// begin puts in what all new offers have.
func (o Offer) begin(faults []api.ValidationError, now store.Instant) (Offer, error) {
	if o.ExpiresAt.IsZero() {
		o.ExpiresAt = store.At(now.Add(lifetime))
	}
	if !now.Before(o.ExpiresAt.Time) {
		faults = append(faults, api.ValidationError{Field: "expiresAt", Message: "must lie ahead"})
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

// contentHash is that of the record as it is answered.
func (o *Offer) contentHash() (string, error) {
	text, err := sealer.Canonical(o)
	if err != nil {
		return "", err
	}
	return hashOf(text), nil
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
