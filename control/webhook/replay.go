package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// Replay applies the newest event of a webhook for rollback.Replay, so that a restored older database
// sends nothing to webhooks that were deleted, disabled or paused since. A secret that was rotated
// since is the old one again; receivers notice that by the signatures.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != webhooks.Noun {
		return false, nil
	}
	was, err := webhooks.Find(ctx, tx, e.TenantID, e.Subject.ID)
	if store.IsNone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if e.Type == eventDeleted.Type {
		return true, remove(ctx, tx, was)
	}
	var said Webhook
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the record of the webhook: %w", err)
	}
	if said.Revision <= was.Revision {
		return false, nil
	}
	next := *was
	next.URL, next.Events, next.Description, next.KeyID, next.State, next.StateReason, next.UpdatedAt = said.URL, said.Events, said.Description, said.KeyID, said.State, said.StateReason, said.UpdatedAt
	return true, webhooks.Update(ctx, tx, was, &next)
}
