package node

import (
	"context"
	"time"

	"muniment/control/store"
	"muniment/sealer"
)

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
	Leaving   bool          `json:"leaving" doc:"It is about to be revoked, or its node was asked to leave: nothing is signed with it any more."`
}

// SigningKeys is the list of every key that ever signed, oldest first.
type SigningKeys struct {
	// Root is the root key's verifying half, a C2SP vkey.
	Root    string       `json:"root"`
	Keys    []SigningKey `json:"keys"`
	Waiting *Waiting     `json:"waiting" doc:"A directory key that the root has not delegated to yet."`
}

// SigningKeys lists the keys.
func (r *Room) SigningKeys(ctx context.Context) (SigningKeys, error) {
	rows, err := r.keys(ctx)
	if err != nil {
		return SigningKeys{}, err
	}
	list := SigningKeys{Root: r.rootVkey, Keys: []SigningKey{}}
	now := r.db.Now()
	for _, row := range rows {
		list.Keys = append(list.Keys, *row.view(now))
	}
	key, err := r.waiting(ctx)
	if err == nil && key != nil {
		list.Waiting = &Waiting{KeyID: sealer.KeyID(key.Pub), PublicKey: encodePublic(key.Pub)}
	}
	return list, err
}

// signingKey is a row: a directory entry, who signs with it, and for a directory
// key the root's delegation.
type signingKey struct {
	sealer.Key
	node       string
	delegation string
	revision   int64
	leaving    bool // about to be revoked, or its node is to leave
	retired    bool // its node says that nothing by it is under way
}

func (k *signingKey) role() role { return role{k.Purpose, k.node} }

// endAt ends the key's window, which only ever gets shorter.
func (k *signingKey) endAt(end time.Time) {
	if k.NotAfter == nil || end.Before(*k.NotAfter) {
		k.NotAfter = &end
	}
}

func (k *signingKey) view(now time.Time) *SigningKey {
	v := &SigningKey{
		KeyID: k.KeyID, Purpose: k.Purpose, NodeID: k.node, PublicKey: k.PublicKey,
		NotBefore: store.At(k.NotBefore), NotAfter: given(k.NotAfter), RevokedAt: given(k.RevokedAt), State: "ACTIVE", Leaving: k.leaving,
	}
	switch {
	case k.RevokedAt != nil:
		v.State = "REVOKED"
	case k.NotAfter != nil && !now.Before(*k.NotAfter):
		v.State = "RETIRED"
	}
	return v
}

// describe is the record that events hold: enough to restore the row.
func (k *signingKey) describe() map[string]any {
	record := map[string]any{
		"keyId": k.KeyID, "algorithm": k.Algorithm, "publicKey": k.PublicKey, "purpose": k.Purpose,
		"notBefore": sealer.FormatTime(k.NotBefore), "nodeId": k.node, "revision": k.revision,
	}
	if k.NotAfter != nil {
		record["notAfter"] = sealer.FormatTime(*k.NotAfter)
	}
	if k.RevokedAt != nil {
		record["revokedAt"] = sealer.FormatTime(*k.RevokedAt)
	}
	if k.retired {
		record["retired"] = true
	}
	if k.delegation != "" {
		record["delegation"] = k.delegation
	}
	return record
}

// emit tells of a change to a key.
func emit(ctx context.Context, tx *store.Tx, event string, k *signingKey, by sealer.Ref, told map[string]any) error {
	return tx.EmitSystem(ctx, event, by, sealer.Ref{Kind: "signing_key", ID: k.KeyID}, told)
}
