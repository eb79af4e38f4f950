package tenant

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Replay is the API keys' store.Replay: a key that the database has, and that the
// event's record shows revoked, is revoked at that moment. No other event is made
// of it.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != "key" {
		return false, nil
	}
	var said struct {
		RevokedAt store.Instant `json:"revokedAt"`
	}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the key's record: %w", err)
	}
	k, err := findKey(ctx, tx, e.TenantID, e.Subject.ID)
	if err != nil || k == nil || said.RevokedAt.IsZero() {
		return false, err
	}
	next, changed := k.Revoked(said.RevokedAt.Time)
	if !changed {
		return false, nil
	}
	if next.Revision, err = tx.Revision(ctx); err != nil {
		return false, err
	}
	next.UpdatedAt = said.RevokedAt
	if err := upsertKey(ctx, tx, &next); err != nil {
		return false, err
	}
	snapshot, err := next.snapshot()
	if err != nil {
		return false, err
	}
	return true, tx.Publish(ctx, api.Change{Revision: next.Revision, Key: snapshot})
}
