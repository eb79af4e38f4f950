package signing

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// keyRecord is a signing key in an event's data (Key.describe), with the key that replaced it.
type keyRecord struct {
	KeyID      string        `json:"keyId"`
	PublicKey  string        `json:"publicKey"`
	Purpose    string        `json:"purpose"`
	NodeID     string        `json:"nodeId"`
	Delegation string        `json:"delegation"`
	NotBefore  store.Instant `json:"notBefore"`
	NotAfter   store.Instant `json:"notAfter"`
	RevokedAt  store.Instant `json:"revokedAt"`
	Retired    bool          `json:"retired"`
	Successor  *keyRecord    `json:"successor"`
}

// Replay applies each event of signing keys for rollback.Replay. A key that was enrolled gets its
// row back, with the same beginning, since what it signed could not be verified otherwise. A key
// whose record has an end or a revocation gets these back, too.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	var record keyRecord
	if err := json.Unmarshal(e.Data, &record); err != nil {
		return false, fmt.Errorf("cannot read the signing key's record: %w", err)
	}
	for k := &record; k != nil; k = k.Successor {
		again, err := k.replay(ctx, tx)
		if err != nil {
			return false, fmt.Errorf("cannot restore the signing key %s: %w", k.KeyID, err)
		}
		changed = changed || again
	}
	return changed, nil
}

// isIn says whether the row has everything that the record has.
func (k *keyRecord) isIn(was *Key) bool {
	switch {
	case was == nil,
		!k.NotAfter.IsZero() && (was.NotAfter == nil || k.NotAfter.Before(*was.NotAfter)),
		!k.RevokedAt.IsZero() && was.RevokedAt == nil,
		k.Retired && !was.Retired:
		return false
	}
	return true
}

func (k *keyRecord) replay(ctx context.Context, tx *store.Tx) (changed bool, err error) {
	was, err := Find(ctx, tx, k.KeyID)
	if err != nil || k.isIn(was) {
		return false, err
	}
	revision, err := tx.Revision(ctx)
	if err != nil {
		return false, err
	}
	enrolled, err := store.Affected(tx.ExecContext(ctx, `INSERT INTO signing_keys (`+keyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8)
		ON CONFLICT (key_id) DO NOTHING`, k.KeyID, k.Purpose, k.NodeID, k.PublicKey, k.NotBefore, k.NotAfter, k.Delegation, revision))
	if err != nil {
		return false, err
	}
	// A window only ever gets shorter.
	ended, err := store.Affected(tx.ExecContext(ctx, `UPDATE signing_keys SET not_after = CASE WHEN not_after < CAST($1 AS BIGINT) THEN not_after ELSE COALESCE(CAST($1 AS BIGINT), not_after) END,
		revoked_at = COALESCE(revoked_at, CAST($2 AS BIGINT)), revision = $3
		WHERE key_id = $4 AND (CAST($1 AS BIGINT) < COALESCE(not_after, CAST($1 AS BIGINT) + 1) OR (CAST($2 AS BIGINT) IS NOT NULL AND revoked_at IS NULL))`,
		k.NotAfter, k.RevokedAt, revision, k.KeyID))
	if err == nil && k.Retired {
		_, err = tx.ExecContext(ctx, `UPDATE signing_keys SET retired = 1 WHERE key_id = $1`, k.KeyID)
	}
	if changed = enrolled || ended; err != nil || !changed {
		return false, err
	}
	row, err := Find(ctx, tx, k.KeyID)
	if err != nil {
		return false, err
	}
	return true, publish(ctx, tx, row)
}
