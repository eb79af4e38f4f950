// Package right owns legal bases and the rights that rest on them.
//
// A right lets its holder deliver on one substrate, within a scope and a window
// of time. Its state moves along the table of transitions below, each move being
// one change: record, revision, audit event and feed entry, or nothing. A caller
// who loses a race gets STATE_CONFLICT. Suspending and revoking answer only after
// every live node has applied it, or two seconds; the response says which.
//
// A scope names its limits by the keys in scope.go. Any other key is refused, so that a misspelt
// limit is not ignored; the caller's own keys begin with x-.
//
// A right may be derived from another, and is never wider than that parent, in scope, time or
// substrate (narrower.go has the rule). It inherits the limits that its scope does not name when it
// is issued, so its record has them all. Stopping a right stops all rights that derive from it:
// they keep their own state, and nothing is written to them, so resuming the parent puts them in
// force again.
//
// A right's window never changes once it is issued. Its end is its own, or else its parent's, or
// else its basis's; no right outlives its basis. Nodes check the window at delivery; control stores
// no state for it.
//
// Whether a right is in force is its effectiveState, which is computed when it is read
// (effective.go): the most severe of what its own state, its ancestors' states and the clock say.
//
// stateReason is the caller's text and part of an event that is never erased, so it must hold no
// personal data; the API says so.
package right

import (
	"encoding/json"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// Right is the record of a right.
type Right struct {
	ID        string `json:"id" db:"right_id"`
	TenantID  string `json:"-" db:"tenant_id"`
	BasisID   string `json:"basisId" db:"basis_id"`
	Substrate string `json:"substrate" db:"substrate"`
	// Scope is an RFC 8785 object.
	Scope          json.RawMessage `json:"scope" db:"scope" doc:"Limits: regions, maxSpeedMph, bvlos, channels and campaigns, with what was inherited from the parent; labels, which are inherited too; description, and the caller's own keys, which begin with x-."`
	EffectiveFrom  store.Instant   `json:"effectiveFrom" db:"effective_from"`
	EffectiveUntil store.Instant   `json:"effectiveUntil" db:"effective_until" nullable:"true" doc:"Exclusive; null is open."`
	ParentRightID  *string         `json:"parentRightId" db:"parent_right_id" doc:"The right that this one was derived from."`
	// Ancestors are parent, grandparent and so on.
	Ancestors   []string       `json:"-" db:"ancestors"`
	ContentHash *string        `json:"contentHash" db:"content_hash" doc:"SHA-256 of the accepted offer that it comes from, base64url; null if it comes from none."`
	HolderOrgID string         `json:"holderOrgId" db:"holder_org_id"`
	State       api.RightState `json:"state" db:"state,moves" enum:"ACTIVE,SUSPENDED,REVOKED"`
	StateReason *string        `json:"stateReason" db:"state_reason,moves" doc:"The reason given with the last suspension or revocation."`
	CreatedAt   store.Instant  `json:"createdAt" db:"created_at"`
	UpdatedAt   store.Instant  `json:"updatedAt" db:"updated_at,moves"`
	Revision    int64          `json:"revision" db:"revision,moves"`
}

// Action moves a right from state to state.
type Action string

// The actions.
const (
	Suspend Action = "suspend"
	Resume  Action = "resume"
	Revoke  Action = "revoke"
)

// transitions is the contract's table. Any other transition is refused.
var transitions = store.Steps[Action, api.RightState]{
	Suspend: {From: store.From(api.RightActive), To: api.RightSuspended, Event: eventSuspended, Stops: true},
	Resume:  {From: store.From(api.RightSuspended), To: api.RightActive, Event: eventResumed},
	// Terminal: revoking again changes nothing.
	Revoke: {From: store.From(api.RightActive, api.RightSuspended, api.RightRevoked), To: api.RightRevoked, Event: eventRevoked, Stops: true},
}

// snapshot is what nodes receive of the right.
func (r *Right) snapshot() *api.Right {
	return &api.Right{
		ID: r.ID, TenantID: r.TenantID, Revision: r.Revision, BasisID: r.BasisID, Substrate: r.Substrate, State: r.State,
		EffectiveFrom: r.EffectiveFrom.Time, EffectiveUntil: r.EffectiveUntil.Time, Scope: r.Scope, Ancestors: r.Ancestors,
	}
}
