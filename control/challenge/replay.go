package challenge

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/sealer"
)

// Replay is the challenges' store.Replay: a challenge that the database has as OPEN is
// closed as the event's record says it was closed. No other event is made of it.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != "challenge" {
		return false, nil
	}
	was, err := find(ctx, tx, e.TenantID, e.Subject.ID)
	if err != nil || was == nil || was.State != Open {
		return false, err
	}
	var said Challenge
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the challenge's record: %w", err)
	}
	if said.State == Open {
		return false, nil
	}
	said.ID, said.TenantID = was.ID, was.TenantID
	return true, update(ctx, tx, &said, was.Revision)
}
