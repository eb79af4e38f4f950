// Package challenge owns challenges: objections of an organisation to a right.
//
// A challenge is opened against a right that is ACTIVE itself, whatever the state of its ancestors.
// The right stays in force while the challenge is open. The tenant resolves it, or the challenger
// withdraws it, along the table of transitions below. Each move is one change of record, revision
// and audit event. All states but OPEN are final. A caller that loses a race gets STATE_CONFLICT.
//
// Upholding a challenge revokes the right in the same change, with the right's own event after the
// challenge's. The response waits until every live node has applied it, at most two seconds, and
// says which nodes have. A right that is already revoked stays so, without a second event.
// The caller needs rights:write for it, as for revoking. Overturning or withdrawing a challenge leaves the right as it is. Other open challenges of the
// right stay open until they are resolved.
//
// Both organisations are in one tenant, and a key of the tenant may act for either. The event names
// the challenger as actingOrgId when a challenge is opened or withdrawn, and the tenant's
// organisation when it is resolved. This is asserted by the tenant's organisation, which assertedBy
// names.
//
// In a database restored from an older copy, Replay closes the challenges that were closed
// meanwhile; package right re-applies the revocations.
//
// reason and resolution, which also holds a withdrawal's reason, are the caller's texts and part of
// events that are never erased, so they must hold no personal data; the API says so.
package challenge

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Challenge is the record of a challenge.
type Challenge struct {
	ID              string        `json:"id" db:"challenge_id"`
	TenantID        string        `json:"-" db:"tenant_id"`
	RightID         string        `json:"rightId" db:"right_id" doc:"The right that is challenged."`
	ChallengerOrgID string        `json:"challengerOrgId" db:"challenger_org_id" doc:"The organisation that challenges it."`
	Reason          string        `json:"reason" db:"reason" doc:"The challenger's reason."`
	Resolution      *string       `json:"resolution" db:"resolution,moves" doc:"The text given when it was resolved or withdrawn."`
	State           State         `json:"state" db:"state,moves" enum:"OPEN,UPHELD,OVERTURNED,WITHDRAWN"`
	CreatedAt       store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt       store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision        int64         `json:"revision" db:"revision,moves"`
}

// State is the state of a challenge.
type State string

// The states.
const (
	Open       State = "OPEN"
	Upheld     State = "UPHELD"
	Overturned State = "OVERTURNED"
	Withdrawn  State = "WITHDRAWN"
)

// Action moves a challenge out of OPEN.
type Action string

// The actions.
const (
	Uphold   Action = "uphold"
	Overturn Action = "overturn"
	Withdraw Action = "withdraw"
)

// transitions is the contract's table.
var transitions = store.Steps[Action, State]{
	Uphold:   {From: store.From(Open), To: Upheld, Event: eventUpheld, Stops: true}, // revokes the right
	Overturn: {From: store.From(Open), To: Overturned, Event: eventOverturned},
	Withdraw: {From: store.From(Open), To: Withdrawn, Event: eventWithdrawn},
}

// open completes a new challenge against a right in a state.
func open(c Challenge, right api.RightState, now store.Instant) (Challenge, error) {
	if right != api.RightActive {
		return Challenge{}, api.Conflict("a right that is " + string(right) + " can't be challenged")
	}
	c.State, c.CreatedAt, c.UpdatedAt = Open, now, now
	return c, nil
}
