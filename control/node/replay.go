package node

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/sealer"
)

// Replay is the signing keys' store.Replay: a key that was enrolled is in the
// directory again, from the same moment on, or else what it signed since could
// not be verified; and a key whose record names its end or its revocation has it
// again. A directory key is not brought back: the root delegates to it once more.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if e.Subject.Kind != "signing_key" {
		return false, nil
	}
	var said struct {
		enrolled
		NotBefore store.Instant `json:"notBefore"`
		NotAfter  store.Instant `json:"notAfter"`
		RevokedAt store.Instant `json:"revokedAt"`
	}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the signing key's record: %w", err)
	}
	revision, err := tx.Revision(ctx)
	if err != nil {
		return false, err
	}
	if said.PublicKey != "" && said.Purpose != sealer.PurposeDirectory {
		result, err := tx.ExecContext(ctx, `INSERT INTO signing_keys (`+keyColumns+`) VALUES ($1, $2, $3, $4, $5, NULL, NULL, '', $6)
			ON CONFLICT (key_id) DO NOTHING`, e.Subject.ID, said.Purpose, said.NodeID, said.PublicKey, said.NotBefore, revision)
		if err != nil {
			return false, fmt.Errorf("cannot enrol the key again: %w", err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return false, err
		}
		changed = n > 0
	}
	result, err := tx.ExecContext(ctx, `UPDATE signing_keys SET not_after = COALESCE($1, not_after), revoked_at = COALESCE(revoked_at, $2), revision = $3
		WHERE key_id = $4 AND ($1 <> COALESCE(not_after, -1) OR ($2 IS NOT NULL AND revoked_at IS NULL))`,
		said.NotAfter, said.RevokedAt, revision, e.Subject.ID)
	if err != nil {
		return false, fmt.Errorf("cannot end the key again: %w", err)
	}
	n, err := result.RowsAffected()
	return changed || n > 0, err
}
