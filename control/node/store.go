package node

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"muniment/control/store"
	"muniment/sealer"
)

// startNode counts a start of the node, and makes its row at the first.
func startNode(ctx context.Context, tx *store.Tx, nodeID string, now time.Time) (epoch uint64, err error) {
	revision, err := tx.Revision(ctx)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision) VALUES ($1, 1, $2, $2, $3)
		ON CONFLICT (node_id) DO UPDATE SET epoch = nodes.epoch + 1, updated_at = excluded.updated_at, revision = excluded.revision
		RETURNING epoch`, nodeID, store.Millis(now), revision).Scan(&epoch)
	return epoch, err
}

func (r *Room) nodeIDs(ctx context.Context) ([]string, error) {
	rows, err := r.db.Read().QueryContext(ctx, `SELECT node_id FROM nodes ORDER BY node_id`)
	if err != nil {
		return nil, fmt.Errorf("cannot list the nodes: %w", err)
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("cannot list the nodes: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

const keyColumns = `key_id, purpose, node_id, public_key, not_before, not_after, revoked_at, delegation, revision`

func insertKey(ctx context.Context, tx *store.Tx, k *signingKey) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO signing_keys (`+keyColumns+`) VALUES ($1, $2, $3, $4, $5, NULL, NULL, $6, $7)`,
		k.KeyID, k.Purpose, k.node, k.PublicKey, store.Millis(k.NotBefore), k.delegation, k.revision)
	if err != nil {
		return fmt.Errorf("cannot enrol the key %s: %w", k.KeyID, err)
	}
	return nil
}

// key returns one row, nil when there is none.
func (r *Room) key(ctx context.Context, keyID string) (*signingKey, error) {
	k, err := scanKey(r.db.Read().QueryRowContext(ctx, `SELECT `+keyColumns+` FROM signing_keys WHERE key_id = $1`, keyID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the signing key %s: %w", keyID, err)
	}
	return &k, nil
}

// keys lists every key, oldest first.
func (r *Room) keys(ctx context.Context) ([]signingKey, error) {
	rows, err := r.db.Read().QueryContext(ctx, `SELECT `+keyColumns+` FROM signing_keys ORDER BY revision, key_id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []signingKey
	for rows.Next() {
		k, err := scanKey(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, rows.Err()
}

func scanKey(row interface{ Scan(...any) error }) (signingKey, error) {
	k := signingKey{Key: sealer.Key{Algorithm: sealer.Algorithm}}
	var notBefore, notAfter, revokedAt store.Instant
	err := row.Scan(&k.KeyID, &k.Purpose, &k.node, &k.PublicKey, &notBefore, &notAfter, &revokedAt, &k.delegation, &k.revision)
	k.NotBefore, k.NotAfter, k.RevokedAt = notBefore.Time, optional(notAfter), optional(revokedAt)
	return k, err
}
