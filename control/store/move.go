package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Machine moves records of type R by actions A between states S, along a table of transitions. A
// new state is a constant, a new transition is a line, and an operation moves a record in one call:
//
//	var transitions = store.Steps[Action, State]{
//		Respond: {From: store.From(Investigating), To: Responded, Event: disputeResponded},
//	}
//	var disputes = store.Machine[Dispute, Action, State]{Records: store.Records[Dispute]{…}, Steps: transitions}
//	moved, err := disputes.Move(ctx, tx, store.Move[Dispute, Action]{TenantID: tenantID, ID: id, Action: Respond, By: by})
//
// The column state holds the state.
type Machine[R any, A, S ~string] struct {
	Records[R]
	// Steps are all transitions. Any other is a STATE_CONFLICT.
	Steps Steps[A, S]
	// StateAt is a record's state at a time, for records that expire; nil: the state that is
	// stored.
	StateAt func(r *R, now Instant) S
}

// Steps is a table of transitions.
type Steps[A, S ~string] map[A]Step[S]

// Step is a transition.
type Step[S ~string] struct {
	From []S
	// To is the state in which it ends. If From includes To, a record that is already in To stays
	// as it is, without an event. Empty: the record changes, but not its state.
	To S
	// Event is the kind of its event.
	Event *Kind
	// Stops says that the step is a stop: see DB.Stop.
	Stops bool
}

// From are the states in which a step begins.
func From[S ~string](states ...S) []S { return states }

// Move is a move of one record.
type Move[R any, A ~string] struct {
	TenantID, ID string
	Action       A
	By           sealer.Ref
	// Edit changes further fields; next already has the new state. Its error ends the move. It may
	// be nil.
	Edit func(next *R) error
	// Also returns further members of the event's data; nil: none.
	Also func(next *R) any
}

// Acting are further members of the event of a record between two organisations of one tenant.
type Acting struct {
	// ActingOrgID is the organisation that the move was made for, as asserted.
	ActingOrgID *string `json:"actingOrgId" doc:"The organisation for which it was done, as asserted; null if it happened by itself."`
	// AssertedBy is the organisation that asserts it: the tenant's, or none if the system acts.
	AssertedBy *string `json:"assertedBy" doc:"The organisation that asserts it: the tenant's; null if it happened by itself."`
}

// Do runs fn, which moves a record by an action, as DB.Change, or as DB.Stop if the action is a
// stop.
func (m *Machine[R, A, S]) Do(ctx context.Context, db *DB, a A, fn func(tx *Tx) error) error {
	if m.Steps[a].Stops {
		return db.Stop(ctx, fn)
	}
	return db.Change(ctx, fn)
}

// Move finds a record, moves it, writes it with the revision of this change, publishes it, and
// emits the step's event. It does nothing if the record is already as the step leaves it. The error
// is RESOURCE_NOT_FOUND if the tenant has no such record, and STATE_CONFLICT if the table has no
// such step or another change was faster.
func (m *Machine[R, A, S]) Move(ctx context.Context, tx *Tx, move Move[R, A]) (next R, err error) {
	was, err := m.Find(ctx, tx, move.TenantID, move.ID)
	if err != nil {
		return next, err
	}
	next, changed, err := m.After(*was, move.Action, At(tx.Now()))
	if err != nil || !changed {
		return next, err
	}
	if move.Edit != nil {
		if err := move.Edit(&next); err != nil {
			return next, err
		}
	}
	if err := m.Update(ctx, tx, was, &next); err != nil {
		return next, err
	}
	var also any
	if move.Also != nil {
		also = move.Also(&next)
	}
	return next, m.Emit(ctx, tx, m.Steps[move.Action].Event, &next, move.By, also)
}

// After returns the record as the action leaves it; changed is false if nothing changes.
func (m *Machine[R, A, S]) After(r R, a A, now Instant) (next R, changed bool, err error) {
	step, columns := m.Steps[a], columnsOf(&r)
	state := at[S](columns, "state")
	seen := *state
	if m.StateAt != nil {
		seen = m.StateAt(&r, now)
	}
	switch {
	case !slices.Contains(step.From, seen):
		return r, false, m.refuse(seen, step)
	case step.To == *state:
		return r, false, nil
	case step.To != "":
		*state = step.To
	}
	*at[Instant](columns, "updated_at") = now
	return r, true, nil
}

// refuse returns the error of a step that can't begin in a state.
func (m *Machine[R, A, S]) refuse(state S, step Step[S]) error {
	if state == step.To || m.final(state) {
		return api.Conflict(m.Noun + " is already " + string(state))
	}
	text, but := m.Noun+" is "+string(state), ", not "
	for _, from := range step.From {
		text, but = text+but+string(from), " or "
	}
	return api.Conflict(text)
}

// final says whether no step leads out of a state.
func (m *Machine[R, A, S]) final(state S) bool {
	for _, step := range m.Steps {
		if step.To != state && slices.Contains(step.From, state) {
			return false
		}
	}
	return true
}

// ReplayClosed is Replay.Apply for records that never change once their state is final, such as
// offers. A record that is open in the database becomes the event's record, with its revision. It
// emits no event.
func (m *Machine[R, A, S]) ReplayClosed(ctx context.Context, tx *Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != m.Noun {
		return false, nil
	}
	was, err := m.Find(ctx, tx, e.TenantID, e.Subject.ID)
	if IsNone(err) {
		return false, nil
	}
	if err != nil || m.final(*at[S](columnsOf(was), "state")) {
		return false, err
	}
	var said R
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the record of the %s: %w", m.Noun, err)
	}
	if !m.final(*at[S](columnsOf(&said), "state")) {
		return false, nil
	}
	return true, m.replace(ctx, tx, was, &said)
}
