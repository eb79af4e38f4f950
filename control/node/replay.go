package node

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/sealer"
)

// retold is what an event says of a signing key: describe, its end or revocation,
// and the key that took over.
type retold struct {
	KeyID      string        `json:"keyId"`
	PublicKey  string        `json:"publicKey"`
	Purpose    string        `json:"purpose"`
	NodeID     string        `json:"nodeId"`
	Delegation string        `json:"delegation"`
	NotBefore  store.Instant `json:"notBefore"`
	NotAfter   store.Instant `json:"notAfter"`
	RevokedAt  store.Instant `json:"revokedAt"`
	Retired    bool          `json:"retired"`
	Successor  *retold       `json:"successor"`
}

// Replay applies each event of signing keys and nodes for store.Replay: a key that was enrolled is in the
// directory again, from the same moment on, or else what it signed since could
// not be verified; and a key whose record names its end or its revocation has it
// again. A node that was asked to leave, or expelled, stays so.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	switch e.Type {
	case eventRecalled:
		return recallAgain(ctx, tx, e)
	case eventExpelled:
		return expelAgain(ctx, tx, e)
	}
	if e.Subject.Kind != "signing_key" {
		return false, nil
	}
	var said retold
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the signing key's record: %w", err)
	}
	for k := &said; k != nil; k = k.Successor {
		again, err := k.replay(ctx, tx)
		if err != nil {
			return false, fmt.Errorf("cannot restore the signing key %s: %w", k.KeyID, err)
		}
		changed = changed || again
	}
	return changed, nil
}

// known says whether the directory shows all that the event says of the key.
func (k *retold) known(was *signingKey) bool {
	switch {
	case was == nil,
		!k.NotAfter.IsZero() && (was.NotAfter == nil || k.NotAfter.Before(*was.NotAfter)),
		!k.RevokedAt.IsZero() && was.RevokedAt == nil,
		k.Retired && !was.retired:
		return false
	}
	return true
}

func (k *retold) replay(ctx context.Context, tx *store.Tx) (changed bool, err error) {
	was, err := keyOf(ctx, tx, k.KeyID)
	if err != nil || k.known(was) {
		return false, err
	}
	revision, err := tx.Revision(ctx)
	if err != nil {
		return false, err
	}
	enrolled, err := affected(tx.ExecContext(ctx, `INSERT INTO signing_keys (`+keyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8)
		ON CONFLICT (key_id) DO NOTHING`, k.KeyID, k.Purpose, k.NodeID, k.PublicKey, k.NotBefore, k.NotAfter, k.Delegation, revision))
	if err != nil {
		return false, err
	}
	// A window only ever gets shorter.
	ended, err := affected(tx.ExecContext(ctx, `UPDATE signing_keys SET not_after = CASE WHEN not_after < CAST($1 AS BIGINT) THEN not_after ELSE COALESCE(CAST($1 AS BIGINT), not_after) END,
		revoked_at = COALESCE(revoked_at, CAST($2 AS BIGINT)), revision = $3
		WHERE key_id = $4 AND (CAST($1 AS BIGINT) < COALESCE(not_after, CAST($1 AS BIGINT) + 1) OR (CAST($2 AS BIGINT) IS NOT NULL AND revoked_at IS NULL))`,
		k.NotAfter, k.RevokedAt, revision, k.KeyID))
	if err == nil && k.Retired {
		_, err = tx.ExecContext(ctx, `UPDATE signing_keys SET retired = 1 WHERE key_id = $1`, k.KeyID)
	}
	if changed = enrolled || ended; err != nil || !changed {
		return false, err
	}
	row, err := keyOf(ctx, tx, k.KeyID)
	if err != nil {
		return false, err
	}
	return true, publish(ctx, tx, row)
}

// hasNode says whether there is a node with a value in a column.
func hasNode(ctx context.Context, q store.Querier, nodeID, column string) (bool, error) {
	id, err := store.One(ctx, q, "the node "+nodeID, store.Text, `SELECT node_id FROM nodes WHERE node_id = $1 AND `+column+` IS NOT NULL`, nodeID)
	return id != nil, err
}

// recallAgain has a node leave that an older database would keep, or lets join yet.
func recallAgain(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if known, err := hasNode(ctx, tx, e.Subject.ID, "leaving_at"); err != nil || known {
		return false, err
	}
	revision, err := tx.Revision(ctx)
	if err == nil {
		changed, err = affected(tx.ExecContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision, leaving_at) VALUES ($1, 0, $2, $2, $3, $2)
			ON CONFLICT (node_id) DO UPDATE SET leaving_at = excluded.leaving_at, revision = excluded.revision WHERE nodes.leaving_at IS NULL`,
			e.Subject.ID, store.At(e.At), revision))
	}
	if err != nil {
		return false, fmt.Errorf("cannot have the node %s leave again: %w", e.Subject.ID, err)
	}
	return changed, nil
}

// expelAgain puts a node out that an older database still knows, or lets join yet.
func expelAgain(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	var said struct {
		Epoch uint64 `json:"epoch"`
	}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the record of the expulsion of the node %s: %w", e.Subject.ID, err)
	}
	if known, err := hasNode(ctx, tx, e.Subject.ID, "expelled_at"); err != nil || known {
		return false, err
	}
	revision, err := tx.Revision(ctx)
	if err != nil {
		return false, err
	}
	changed, err = affected(tx.ExecContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision, leaving_at, expelled_at) VALUES ($1, $4, $2, $2, $3, $2, $2)
		ON CONFLICT (node_id) DO UPDATE SET expelled_at = excluded.expelled_at, revision = excluded.revision,
			epoch = CASE WHEN nodes.epoch < excluded.epoch THEN excluded.epoch ELSE nodes.epoch END WHERE nodes.expelled_at IS NULL`,
		e.Subject.ID, store.At(e.At), revision, said.Epoch))
	if err == nil && changed {
		err = shutOut(ctx, tx, e.Subject.ID)
	}
	if err != nil {
		return false, fmt.Errorf("cannot expel the node %s again: %w", e.Subject.ID, err)
	}
	return changed, nil
}
