// Package challenge owns challenges: what an organisation says against a right.
//
// A challenge is opened against a right that is ACTIVE itself, whatever its ancestors
// are: who doubts a right need not wait until its parent is resumed. While it is open
// the right goes on. It is resolved by the tenant, or withdrawn by the challenger, along
// the table of transitions below, each move being one change: record, revision and
// audit event, or nothing. All states but OPEN are final. A caller who loses a race gets
// STATE_CONFLICT.
//
// Upholding a challenge revokes the right in the same change, with the right's own
// event behind the challenge's, and answers only after every live node has applied it,
// or two seconds; the answer says which. A right that was revoked meanwhile stays so,
// and has no second event. One that was suspended is revoked. Overturning a challenge, and
// withdrawing it, leave the right as it is. Other open challenges of the right stay open,
// for somebody to say what became of them.
//
// Both sides live in one tenant, and a key of the tenant may act for either: the event
// names the challenger as actingOrgId when a challenge is opened or withdrawn, and the
// tenant's organisation when it is resolved. That is as asserted, and assertedBy names who
// asserts it: always the tenant's organisation.
//
// A database that was restored from an older copy is told which challenges were closed
// meanwhile (Replay); that the rights of those upheld are revoked is the rights' own.
//
// reason and resolution, which is also where a withdrawal's reason is kept, are the
// caller's texts and part of events that are never erased: they are no place for personal
// data, and the API says so.
package challenge

import (
	"muniment/control/store"
	"muniment/gateway/api"
)

// Challenge is the record of a challenge.
type Challenge struct {
	ID              string        `json:"id" db:"challenge_id"`
	TenantID        string        `json:"-" db:"tenant_id"`
	RightID         string        `json:"rightId" db:"right_id" doc:"The right that is challenged."`
	ChallengerOrgID string        `json:"challengerOrgId" db:"challenger_org_id" doc:"The organisation that challenges it."`
	Reason          string        `json:"reason" db:"reason" doc:"What the challenger says."`
	Resolution      *string       `json:"resolution" db:"resolution,moves" doc:"What was said when it was resolved or withdrawn."`
	State           State         `json:"state" db:"state,moves" enum:"OPEN,UPHELD,OVERTURNED,WITHDRAWN"`
	CreatedAt       store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt       store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision        int64         `json:"revision" db:"revision,moves"`
}

// State is what has become of a challenge.
type State string

// The states.
const (
	Open       State = "OPEN"
	Upheld     State = "UPHELD"
	Overturned State = "OVERTURNED"
	Withdrawn  State = "WITHDRAWN"
)

// Action moves a challenge from OPEN on.
type Action string

// The actions.
const (
	Uphold   Action = "uphold"
	Overturn Action = "overturn"
	Withdraw Action = "withdraw"
)

// transitions is the contract's table.
var transitions = store.Steps[Action, State]{
	Uphold:   {From: store.From(Open), To: Upheld, Event: "challenge.upheld", Stops: true}, // revokes the right
	Overturn: {From: store.From(Open), To: Overturned, Event: "challenge.overturned"},
	Withdraw: {From: store.From(Open), To: Withdrawn, Event: "challenge.withdrawn"},
}

// open settles a new challenge, of which the caller has filled in what was asked for,
// against a right in a state.
func open(c Challenge, right api.RightState, now store.Instant) (Challenge, error) {
	if right != api.RightActive {
		return Challenge{}, api.Conflict("a right that is " + string(right) + " can't be challenged")
	}
	c.State, c.CreatedAt, c.UpdatedAt = Open, now, now
	return c, nil
}
