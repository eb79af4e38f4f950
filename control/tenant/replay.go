package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Replay applies the newest event of an API key for store.Replay: a key that the event's
// record shows revoked, or with an earlier end, is so here and in the feed. No other event
// is made of it.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != "key" {
		return false, nil
	}
	var said Key
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the key's record: %w", err)
	}
	published, _, err := store.Published(ctx, tx, api.Keys, e.Subject.ID)
	if err != nil {
		return false, err
	}
	shown := published == nil || !ends(said.RevokedAt, published.RevokedAt) && !ends(said.ExpiresAt, published.ExpiresAt)
	k, err := keys.Find(ctx, tx, e.TenantID, e.Subject.ID)
	if store.IsNone(err) {
		if shown {
			return false, nil
		}
		return true, stopUnknown(ctx, tx, published, said)
	}
	if err != nil {
		return false, err
	}
	next := *k
	if said.SuccessorKeyID != nil && k.SuccessorKeyID == nil {
		next.SuccessorKeyID, changed = said.SuccessorKeyID, true
	}
	if ends(said.ExpiresAt, k.ExpiresAt.Time) {
		next.ExpiresAt, changed = said.ExpiresAt, true
	}
	if ends(said.RevokedAt, k.RevokedAt.Time) {
		next.RevokedAt, changed = said.RevokedAt, true
	}
	if shown && !changed {
		return false, nil
	}
	next.UpdatedAt = store.At(e.At)
	return true, keys.Update(ctx, tx, k, &next)
}

// IsRevoked says whether a key's record is of one that was revoked, for good.
func IsRevoked(record []byte) bool {
	var k struct{ RevokedAt *string }
	return json.Unmarshal(record, &k) == nil && k.RevokedAt != nil
}

// ends says whether a key ends at a moment, and before another; none is never.
func ends(at store.Instant, other time.Time) bool {
	return !at.IsZero() && (other.IsZero() || at.Before(other))
}

// stopUnknown ends a key without a record, of which the feed would still tell.
func stopUnknown(ctx context.Context, tx *store.Tx, published *api.Key, said Key) (err error) {
	published.RevokedAt, published.ExpiresAt = said.RevokedAt.Time, said.ExpiresAt.Time
	if published.Revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	return store.Publish(ctx, tx, api.Keys, published)
}
