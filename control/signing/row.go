package signing

import (
	"context"
	"fmt"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// Tables are the tables of this package. Keys belong to no tenant.
var Tables = store.Tables{{Name: "signing_keys", Outlives: "what a key has signed is verified for ever"}}

// SigningKey is a signing key as operators see it.
type SigningKey struct {
	KeyID     string        `json:"keyId"`
	Purpose   string        `json:"purpose"`
	NodeID    string        `json:"nodeId" doc:"The node that signs with it, or control."`
	PublicKey string        `json:"publicKey" doc:"32 bytes in base64url."`
	NotBefore store.Instant `json:"notBefore"`
	NotAfter  store.Instant `json:"notAfter"`
	RevokedAt store.Instant `json:"revokedAt"`
	State     string        `json:"state" enum:"ACTIVE,RETIRED,REVOKED" doc:"ACTIVE while its window is open."`
	Leaving   bool          `json:"leaving" doc:"Whether the key is about to be revoked, or its node about to leave: nothing more is signed with it."`
}

// SigningKeys is the list of every key that ever signed, oldest first.
type SigningKeys struct {
	// Root is the root key's verifying half, a C2SP vkey.
	Root    string       `json:"root"`
	Keys    []SigningKey `json:"keys"`
	Waiting *Waiting     `json:"waiting" doc:"A directory key that the root has not delegated to yet."`
}

// Key is a row: a directory entry, its signer, and for a directory key the root's
// delegation.
type Key struct {
	keydir.Key
	Node string // the signer: a node id, or control
	// Leaving says that the key is about to be revoked, or its node to leave.
	Leaving bool
	// Retired says that its node has reported everything signed by it to be in the log.
	Retired    bool
	delegation string
	revision   int64
}

func (k *Key) role() role { return role{k.Purpose, k.Node} }

// endAt ends the key's window, which only ever gets shorter.
func (k *Key) endAt(end time.Time) {
	if k.NotAfter == nil || end.Before(*k.NotAfter) {
		k.NotAfter = &end
	}
}

// InForce says whether the key is not revoked, and its window has not ended.
func (k *Key) InForce(now time.Time) bool {
	return k.RevokedAt == nil && (k.NotAfter == nil || now.Before(*k.NotAfter))
}

// View is the key as operators see it.
func (k *Key) View(now time.Time) *SigningKey {
	v := &SigningKey{
		KeyID: k.KeyID, Purpose: k.Purpose, NodeID: k.Node, PublicKey: k.PublicKey,
		NotBefore: store.At(k.NotBefore), NotAfter: instantOf(k.NotAfter), RevokedAt: instantOf(k.RevokedAt), State: "ACTIVE", Leaving: k.Leaving,
	}
	switch {
	case k.RevokedAt != nil:
		v.State = "REVOKED"
	case k.NotAfter != nil && !now.Before(*k.NotAfter):
		v.State = "RETIRED"
	}
	return v
}

// describe is the key's record in events, from which Replay restores the row.
func (k *Key) describe() map[string]any {
	record := map[string]any{
		"keyId": k.KeyID, "algorithm": k.Algorithm, "publicKey": k.PublicKey, "purpose": k.Purpose,
		"notBefore": canonical.FormatTime(k.NotBefore), "nodeId": k.Node, "revision": k.revision,
	}
	if k.NotAfter != nil {
		record["notAfter"] = canonical.FormatTime(*k.NotAfter)
	}
	if k.RevokedAt != nil {
		record["revokedAt"] = canonical.FormatTime(*k.RevokedAt)
	}
	if k.Retired {
		record["retired"] = true
	}
	if k.delegation != "" {
		record["delegation"] = k.delegation
	}
	return record
}

// emit adds an event about a key.
func emit(ctx context.Context, tx *store.Tx, event *store.Kind, k *Key, by sealer.Ref, data map[string]any) error {
	return tx.EmitSystem(ctx, event, by, sealer.Ref{Kind: "signing_key", ID: k.KeyID}, data)
}

const keyColumns = `key_id, purpose, node_id, public_key, not_before, not_after, revoked_at, delegation, revision`

// readColumns are the columns of scanKey. All keys of a node that is to leave are leaving.
const readColumns = keyColumns + `, leaving = 1 OR EXISTS (SELECT 1 FROM nodes n WHERE n.node_id = signing_keys.node_id AND n.leaving_at IS NOT NULL), retired`

func insertKey(ctx context.Context, tx *store.Tx, k *Key) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO signing_keys (`+keyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		k.KeyID, k.Purpose, k.Node, k.PublicKey, store.At(k.NotBefore), instantOf(k.NotAfter), instantOf(k.RevokedAt), k.delegation, k.revision)
	if err != nil {
		return fmt.Errorf("cannot enrol the key %s: %w", k.KeyID, err)
	}
	return publish(ctx, tx, k)
}

// updateKey writes a key's end and revocation.
func updateKey(ctx context.Context, tx *store.Tx, k *Key) error {
	_, err := tx.ExecContext(ctx, `UPDATE signing_keys SET not_after = $2, revoked_at = $3, revision = $4 WHERE key_id = $1`,
		k.KeyID, instantOf(k.NotAfter), instantOf(k.RevokedAt), k.revision)
	if err != nil {
		return fmt.Errorf("cannot change the key %s: %w", k.KeyID, err)
	}
	return publish(ctx, tx, k)
}

// publish puts a key into the feed if nodes verify by it.
func publish(ctx context.Context, tx *store.Tx, k *Key) error {
	if k.Purpose != keydir.PurposeBeacon {
		return nil
	}
	public, err := k.Public()
	if err != nil {
		return fmt.Errorf("cannot publish the key %s: %w", k.KeyID, err)
	}
	return store.Publish(ctx, tx, api.BeaconKeys, &api.BeaconKey{
		ID: k.KeyID, Revision: k.revision, PublicKey: public, NotBefore: k.NotBefore, NotAfter: instantOf(k.NotAfter).Time, RevokedAt: instantOf(k.RevokedAt).Time,
	})
}

// KeyIDs lists the ids of all keys that ever signed.
func KeyIDs(ctx context.Context, q store.Querier) ([]string, error) {
	return store.List(ctx, q, "the signing keys", store.Text, `SELECT key_id FROM signing_keys`)
}

// PackKeys lists the public halves of all keys that ever signed packs, newest first.
func PackKeys(ctx context.Context, q store.Querier) ([]keydir.Key, error) {
	scan := func(row store.Row) (keydir.Key, error) {
		k := keydir.Key{Algorithm: sealer.Algorithm}
		return k, row.Scan(&k.KeyID, &k.PublicKey)
	}
	return store.List(ctx, q, "the keys of packs", scan, `SELECT key_id, public_key FROM signing_keys
		WHERE purpose IN ($1, $2) ORDER BY revision DESC`, keydir.PackPurpose(false), keydir.PackPurpose(true))
}

// Find returns a key, nil if there is none.
func Find(ctx context.Context, q store.Querier, keyID string) (*Key, error) {
	return store.One(ctx, q, "the signing key "+keyID, scanKey, `SELECT `+readColumns+` FROM signing_keys WHERE key_id = $1`, keyID)
}

// newestKey returns the newest key of a role that is in force, nil if there is none.
func newestKey(ctx context.Context, q store.Querier, role role, now time.Time) (*Key, error) {
	return store.One(ctx, q, fmt.Sprintf("the key for %s", role), scanKey, `SELECT `+readColumns+` FROM signing_keys
		WHERE purpose = $1 AND node_id = $2 AND revoked_at IS NULL AND (not_after IS NULL OR not_after > $3)
		ORDER BY not_before DESC, revision DESC LIMIT 1`, role.purpose, role.node, store.At(now))
}

// newest finds the row that newestKey reads.
func newest(rows []Key, role role, now time.Time) (newest *Key) {
	for i, row := range rows {
		if row.Purpose != role.purpose || row.Node != role.node || !row.InForce(now) {
			continue
		}
		later := newest == nil || row.NotBefore.After(newest.NotBefore) || row.NotBefore.Equal(newest.NotBefore) && row.revision > newest.revision
		if later {
			newest = &rows[i]
		}
	}
	return newest
}

// OfNode lists the keys of a node, oldest first. All of them have one purpose if the node is in
// a process of its own.
func OfNode(ctx context.Context, q store.Querier, nodeID string) ([]Key, error) {
	return store.List(ctx, q, "the keys of the node "+nodeID, scanKey, `SELECT `+readColumns+` FROM signing_keys
		WHERE node_id = $1 ORDER BY not_before, revision`, nodeID)
}

// allKeys lists every key, oldest first. It fails on a database that was replaced by an older
// copy (store.ErrWentBack), in which a revoked key may be in force.
func allKeys(ctx context.Context, db *store.DB) (all []Key, err error) {
	err = db.View(ctx, func(q store.Querier) (err error) {
		all, err = list(ctx, q)
		return err
	})
	return all, err
}

func list(ctx context.Context, q store.Querier) ([]Key, error) {
	return store.List(ctx, q, "the signing keys", scanKey, `SELECT `+readColumns+` FROM signing_keys ORDER BY not_before, key_id`)
}

func scanKey(row store.Row) (Key, error) {
	k := Key{Key: keydir.Key{Algorithm: sealer.Algorithm}}
	var notBefore, notAfter, revokedAt store.Instant
	err := row.Scan(&k.KeyID, &k.Purpose, &k.Node, &k.PublicKey, &notBefore, &notAfter, &revokedAt, &k.delegation, &k.revision, &k.Leaving, &k.Retired)
	k.NotBefore, k.NotAfter, k.RevokedAt = notBefore.Time, timeOf(notAfter), timeOf(revokedAt)
	return k, err
}

// timeOf is nil for the zero Instant.
func timeOf(i store.Instant) *time.Time {
	if i.IsZero() {
		return nil
	}
	return &i.Time
}

// instantOf is the zero Instant for nil.
func instantOf(t *time.Time) store.Instant {
	if t == nil {
		return store.Instant{}
	}
	return store.At(*t)
}
