package node

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
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

// nodeIDs are those that were not expelled.
func (r *Room) nodeIDs(ctx context.Context) ([]string, error) {
	return store.List(ctx, r.db.Read(), "the nodes", store.Text, `SELECT node_id FROM nodes WHERE expelled_at IS NULL ORDER BY node_id`)
}

const keyColumns = `key_id, purpose, node_id, public_key, not_before, not_after, revoked_at, delegation, revision`

// readColumns are what scanKey reads: a key leaves with its node, whatever became of it.
const readColumns = keyColumns + `, leaving = 1 OR EXISTS (SELECT 1 FROM nodes n WHERE n.node_id = signing_keys.node_id AND n.leaving_at IS NOT NULL), retired`

func insertKey(ctx context.Context, tx *store.Tx, k *signingKey) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO signing_keys (`+keyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		k.KeyID, k.Purpose, k.node, k.PublicKey, store.At(k.NotBefore), given(k.NotAfter), given(k.RevokedAt), k.delegation, k.revision)
	if err != nil {
		return fmt.Errorf("cannot enrol the key %s: %w", k.KeyID, err)
	}
	return publish(ctx, tx, k)
}

// updateKey writes what may change of a key: its end, and its revocation.
func updateKey(ctx context.Context, tx *store.Tx, k *signingKey) error {
	_, err := tx.ExecContext(ctx, `UPDATE signing_keys SET not_after = $2, revoked_at = $3, revision = $4 WHERE key_id = $1`,
		k.KeyID, given(k.NotAfter), given(k.RevokedAt), k.revision)
	if err != nil {
		return fmt.Errorf("cannot change the key %s: %w", k.KeyID, err)
	}
	return publish(ctx, tx, k)
}

// publish has nodes know a key that they verify by.
func publish(ctx context.Context, tx *store.Tx, k *signingKey) error {
	if k.Purpose != sealer.PurposeBeacon {
		return nil
	}
	public, err := k.Public()
	if err != nil {
		return fmt.Errorf("cannot publish a key: %w", err)
	}
	return store.Publish(ctx, tx, api.BeaconKeys, &api.BeaconKey{
		ID: k.KeyID, Revision: k.revision, PublicKey: public, NotBefore: k.NotBefore, NotAfter: given(k.NotAfter).Time, RevokedAt: given(k.RevokedAt).Time,
	})
}

// KeyIDs are the ids of all keys that ever signed.
func KeyIDs(ctx context.Context, q store.Querier) ([]string, error) {
	return store.List(ctx, q, "the signing keys", store.Text, `SELECT key_id FROM signing_keys`)
}

// PackKeys are the public halves of all keys that ever signed packs, newest first.
func PackKeys(ctx context.Context, q store.Querier) ([]sealer.Key, error) {
	scan := func(row store.Row) (sealer.Key, error) {
		k := sealer.Key{Algorithm: sealer.Algorithm}
		return k, row.Scan(&k.KeyID, &k.PublicKey)
	}
	return store.List(ctx, q, "the keys of packs", scan, `SELECT key_id, public_key FROM signing_keys
		WHERE purpose IN ($1, $2) ORDER BY revision DESC`, sealer.PackPurpose(false), sealer.PackPurpose(true))
}

// key returns one row, nil when there is none.
func (r *Room) key(ctx context.Context, keyID string) (*signingKey, error) {
	return keyOf(ctx, r.db.Read(), keyID)
}

func keyOf(ctx context.Context, q store.Querier, keyID string) (*signingKey, error) {
	return store.One(ctx, q, "the signing key "+keyID, scanKey, `SELECT `+readColumns+` FROM signing_keys WHERE key_id = $1`, keyID)
}

// newestKey is the newest row of a role whose window has not ended, nil when there
// is none.
func (r *Room) newestKey(ctx context.Context, role role) (*signingKey, error) {
	return newestKey(ctx, r.db.Read(), role, r.db.Now())
}

func newestKey(ctx context.Context, q store.Querier, role role, now time.Time) (*signingKey, error) {
	return store.One(ctx, q, fmt.Sprintf("the key for %s", role), scanKey, `SELECT `+readColumns+` FROM signing_keys
		WHERE purpose = $1 AND node_id = $2 AND revoked_at IS NULL AND (not_after IS NULL OR not_after > $3)
		ORDER BY not_before DESC, revision DESC LIMIT 1`, role.purpose, role.node, store.At(now))
}

// nodeKeys lists the keys of a node, oldest first. Those of one in a process of its own
// are for one purpose.
func nodeKeys(ctx context.Context, q store.Querier, nodeID string) ([]signingKey, error) {
	return store.List(ctx, q, "the keys of the node "+nodeID, scanKey, `SELECT `+readColumns+` FROM signing_keys
		WHERE node_id = $1 ORDER BY not_before, revision`, nodeID)
}

// hasJoined says whether the node is in a process of its own.
func (r *Room) hasJoined(ctx context.Context, nodeID string) (bool, error) {
	id, err := store.One(ctx, r.db.Read(), "the node "+nodeID, store.Text, `SELECT node_id FROM node_credentials WHERE node_id = $1`, nodeID)
	return id != nil, err
}

// keys lists every key, oldest first; not of a database that went back, in which a
// revoked key may be in force.
func (r *Room) keys(ctx context.Context) (all []signingKey, err error) {
	err = r.db.View(ctx, func(q store.Querier) (err error) {
		all, err = keys(ctx, q)
		return err
	})
	return all, err
}

func keys(ctx context.Context, q store.Querier) ([]signingKey, error) {
	return store.List(ctx, q, "the signing keys", scanKey, `SELECT `+readColumns+` FROM signing_keys ORDER BY not_before, key_id`)
}

func scanKey(row store.Row) (signingKey, error) {
	k := signingKey{Key: sealer.Key{Algorithm: sealer.Algorithm}}
	var notBefore, notAfter, revokedAt store.Instant
	err := row.Scan(&k.KeyID, &k.Purpose, &k.node, &k.PublicKey, &notBefore, &notAfter, &revokedAt, &k.delegation, &k.revision, &k.leaving, &k.retired)
	k.NotBefore, k.NotAfter, k.RevokedAt = notBefore.Time, optional(notAfter), optional(revokedAt)
	return k, err
}

// affected says whether a statement has changed a row.
func affected(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// optional is nil for no moment.
func optional(i store.Instant) *time.Time {
	if i.IsZero() {
		return nil
	}
	return &i.Time
}

// given is no moment for nil.
func given(t *time.Time) store.Instant {
	if t == nil {
		return store.Instant{}
	}
	return store.At(*t)
}
