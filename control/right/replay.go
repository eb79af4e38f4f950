package right

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Replay is the rights' store.Replay: it moves a right that the database has as
// the event says it was moved, so that in the end it is in the newest state that
// the log knows. No other event is made of it. A move that does not fit the state
// was known before.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	action, ok := actionOf(e.Type)
	if !ok || e.Subject.Kind != "right" {
		return false, nil
	}
	was, err := findRight(ctx, tx, e.TenantID, e.Subject.ID)
	if store.IsNone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var said struct {
		StateReason *string       `json:"stateReason"`
		UpdatedAt   store.Instant `json:"updatedAt"`
	}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the right's record: %w", err)
	}
	next, changed, err := was.After(action, said.StateReason, said.UpdatedAt)
	if err != nil || !changed {
		return false, nil
	}
	if next.Revision, err = tx.Revision(ctx); err != nil {
		return false, err
	}
	if err := updateState(ctx, tx, &next, was.Revision); err != nil {
		return false, err
	}
	return true, tx.Publish(ctx, api.Change{Revision: next.Revision, Right: next.snapshot()})
}

// actionOf is the action that an event type tells of.
func actionOf(eventType string) (Action, bool) {
	for action, name := range events {
		if name == eventType {
			return action, true
		}
	}
	return "", false
}
