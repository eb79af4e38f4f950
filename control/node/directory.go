package node

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Directory is the signed key directory, canonical JSON in the form of
// sealer.SignDirectory, read from the database at the call.
func (r *Room) Directory(ctx context.Context) ([]byte, error) {
	rows, err := r.keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list the signing keys: %w", err)
	}
	d := sealer.Directory{IssuedAt: r.db.Now(), Delegation: r.delegation}
	var newest int64
	for _, row := range rows {
		d.Keys = append(d.Keys, row.Key)
		newest = max(newest, row.revision)
		// A clock that was set back must not make the directory older than its keys.
		if row.NotBefore.After(d.IssuedAt) {
			d.IssuedAt = row.NotBefore
		}
	}
	d.SnapshotID = fmt.Sprintf("dir_%d", newest)
	return sealer.SignDirectory(&d, r.directoryKey)
}

// delegate makes sure that the root has delegated to the directory key. The root
// key is only looked for when it has not.
func (r *Room) delegate(ctx context.Context) error {
	pub := r.directoryKey.Public().(ed25519.PublicKey)
	row, err := r.key(ctx, sealer.KeyID(pub))
	if err != nil {
		return err
	}
	if row == nil {
		root, err := loadRoot(r.cfg.Dir, r.cfg.Root)
		if err != nil {
			return err
		}
		entry := sealer.NewKey(pub, sealer.PurposeDirectory, r.db.Now())
		note, err := sealer.Delegate(root, pub, entry.NotBefore, nil)
		if err != nil {
			return err
		}
		row = &signingKey{Key: entry, node: control, delegation: note}
		if err := r.addKey(ctx, row); err != nil {
			return err
		}
	}
	if row.RevokedAt != nil || row.delegation == "" {
		return fmt.Errorf("the directory key %s is revoked or was not delegated to: take its file away to make another", row.KeyID)
	}
	r.delegation = row.delegation
	r.rootVkey, err = readRootVkey(r.cfg.Dir)
	return err
}

// signer puts the key into the directory, unless it is there, and returns it
// ready to sign.
func (r *Room) signer(ctx context.Context, key ed25519.PrivateKey, purpose, nodeID string) (*sealer.Signer, error) {
	pub := key.Public().(ed25519.PublicKey)
	row, err := r.key(ctx, sealer.KeyID(pub))
	if err != nil {
		return nil, err
	}
	if row == nil {
		row = &signingKey{Key: sealer.NewKey(pub, purpose, r.db.Now()), node: nodeID}
		if err := r.addKey(ctx, row); err != nil {
			return nil, err
		}
	}
	switch now := r.db.Now(); {
	case row.Purpose != purpose || row.node != nodeID:
		err = fmt.Errorf("it is enrolled for %s of %s", row.Purpose, row.node)
	case row.RevokedAt != nil:
		err = errors.New("it is revoked: take its file away to make another")
	case row.NotAfter != nil && !now.Before(*row.NotAfter):
		err = errors.New("its time is over: take its file away to make another")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot sign with the key %s: %w", row.KeyID, err)
	}
	return &sealer.Signer{KeyID: row.KeyID, Node: nodeID, Key: key}, nil
}

// addKey writes the row of a new key, and its event.
func (r *Room) addKey(ctx context.Context, row *signingKey) error {
	return r.db.Change(ctx, func(tx *store.Tx) (err error) {
		if row.revision, err = tx.Revision(ctx); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, row); err != nil {
			return err
		}
		body, err := sealer.Canonical(enrolled{
			KeyID: row.KeyID, Algorithm: row.Algorithm, PublicKey: row.PublicKey, Purpose: row.Purpose,
			NotBefore: sealer.FormatTime(row.NotBefore), NodeID: row.node, Revision: row.revision,
		})
		if err != nil {
			return err
		}
		return tx.Emit(ctx, sealer.Event{
			TenantID: api.SystemTenant, Type: "key.enrolled", At: row.NotBefore, Actor: store.BySystem(),
			Subject: sealer.Ref{Kind: "signing_key", ID: row.KeyID}, Data: body,
		})
	})
}

// enrolled is the data of a key.enrolled event.
type enrolled struct {
	KeyID     string `json:"keyId"`
	Algorithm string `json:"algorithm"`
	PublicKey string `json:"publicKey"`
	Purpose   string `json:"purpose"`
	NotBefore string `json:"notBefore"`
	NodeID    string `json:"nodeId"`
	Revision  int64  `json:"revision"`
}

// signingKey is a row: a directory entry, who signs with it, and for the
// directory key the root's delegation.
type signingKey struct {
	sealer.Key
	node       string
	delegation string
	revision   int64
}

// optional is nil for no moment.
func optional(i store.Instant) *time.Time {
	if i.IsZero() {
		return nil
	}
	return &i.Time
}
