package offer

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/sealer"
)

// Replay is the offers' store.Replay: an offer that the database has as PROPOSED is
// closed as the event's record says it was closed. The record is kept as it was told,
// its revision too, since a derived right's contentHash covers it. No other event is
// made of it.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != "offer" {
		return false, nil
	}
	was, err := find(ctx, tx, e.TenantID, e.Subject.ID)
	if err != nil || was == nil || was.State != Proposed {
		return false, err
	}
	var said Offer
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the offer's record: %w", err)
	}
	if said.State == Proposed {
		return false, nil
	}
	said.ID, said.TenantID = was.ID, was.TenantID
	return true, update(ctx, tx, &said, was.Revision)
}
