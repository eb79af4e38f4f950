package tenant

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/sealer"
)

// Replay is the API keys' store.Replay: a key that the database has, and that the
// event's record shows revoked or with an earlier end, is so again. No other event
// is made of it.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != "key" {
		return false, nil
	}
	var said struct {
		ExpiresAt      store.Instant `json:"expiresAt"`
		RevokedAt      store.Instant `json:"revokedAt"`
		SuccessorKeyID *string       `json:"successorKeyId"`
	}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the key's record: %w", err)
	}
	k, err := findKey(ctx, tx, e.TenantID, e.Subject.ID)
	if store.IsNone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	next := *k
	if said.SuccessorKeyID != nil && k.SuccessorKeyID == nil {
		next, changed = next.endedBy(*said.SuccessorKeyID, said.ExpiresAt.Time), true
	}
	if !said.RevokedAt.IsZero() && k.RevokedAt.IsZero() {
		next.RevokedAt, changed = said.RevokedAt, true
	}
	if !changed {
		return false, nil
	}
	return true, saveKey(ctx, tx, &next, e.At)
}
