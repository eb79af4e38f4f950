package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Replay applies the newest event of an API key for rollback.Replay: a revocation or an earlier end
// in the event's record is applied to the key and to the feed, without another event.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != "key" {
		return false, nil
	}
	var logged Key
	if err := json.Unmarshal(e.Data, &logged); err != nil {
		return false, fmt.Errorf("cannot read the key's record: %w", err)
	}
	published, _, err := store.Published(ctx, tx, api.Keys, e.Subject.ID)
	if err != nil {
		return false, err
	}
	inFeed := published == nil || !ends(logged.RevokedAt, published.RevokedAt) && !ends(logged.ExpiresAt, published.ExpiresAt)
	k, err := keys.Find(ctx, tx, e.TenantID, e.Subject.ID)
	if store.IsNone(err) {
		if inFeed {
			return false, nil
		}
		return true, stopUnknown(ctx, tx, published, logged)
	}
	if err != nil {
		return false, err
	}
	next := *k
	if logged.SuccessorKeyID != nil && k.SuccessorKeyID == nil {
		next.SuccessorKeyID, changed = logged.SuccessorKeyID, true
	}
	if ends(logged.ExpiresAt, k.ExpiresAt.Time) {
		next.ExpiresAt, changed = logged.ExpiresAt, true
	}
	if ends(logged.RevokedAt, k.RevokedAt.Time) {
		next.RevokedAt, changed = logged.RevokedAt, true
	}
	if inFeed && !changed {
		return false, nil
	}
	next.UpdatedAt = store.At(e.At)
	return true, keys.Update(ctx, tx, k, &next)
}

// IsRevoked says whether a key's record has a revocation.
func IsRevoked(record []byte) bool {
	var k struct{ RevokedAt *string }
	return json.Unmarshal(record, &k) == nil && k.RevokedAt != nil
}

// ends says whether at is earlier than other; a zero time is never.
func ends(at store.Instant, other time.Time) bool {
	return !at.IsZero() && (other.IsZero() || at.Before(other))
}

// stopUnknown ends a key that is in the feed but has no record.
func stopUnknown(ctx context.Context, tx *store.Tx, published *api.Key, logged Key) (err error) {
	published.RevokedAt, published.ExpiresAt = logged.RevokedAt.Time, logged.ExpiresAt.Time
	if published.Revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	return store.Publish(ctx, tx, api.Keys, published)
}
