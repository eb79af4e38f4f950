package signing

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// # Keys of nodes in processes of their own
//
// A node makes its keys itself, and asks for their rows: the first as it joins (Admit), the
// next ones by EnrolKey, for each of which the one before vouches, and the end of those that
// are out of use by RetireKey.

// textCoding is that of keys and signatures in what nodes ask.
var textCoding = base64.RawURLEncoding.Strict()

// Admit puts the first key of a node into the directory, in the change by which it joins.
func Admit(ctx context.Context, tx *store.Tx, nodeID, purpose string, key ed25519.PublicKey, by sealer.Ref) (*Key, error) {
	revision, err := tx.Revision(ctx)
	if err != nil {
		return nil, err
	}
	row := &Key{Key: sealer.NewKey(key, purpose, tx.Now()), Node: nodeID, revision: revision}
	if err := insertKey(ctx, tx, row); err != nil {
		return nil, err
	}
	return row, emit(ctx, tx, "key.enrolled", row, by, row.describe())
}

// EnrolKey puts the next key of a node that has joined into the directory, and ends
// the window of the key before (see api.KeyOverlap), which has to vouch for it unless
// it is revoked. The same key once more changes nothing.
func (s *Service) EnrolKey(ctx context.Context, nodeID string, q api.EnrolRequest) (api.SigningKey, error) {
	key, err := nextKey(nodeID, q)
	if err != nil {
		return api.SigningKey{}, err
	}
	row := &Key{Key: sealer.NewKey(key, sealer.PurposeReceipt, store.At(q.NotBefore).Time), Node: nodeID}
	s.keys.change.Lock()
	defer s.keys.change.Unlock()
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		known, err := Find(ctx, tx, row.KeyID)
		switch {
		case err != nil:
			return err
		case known != nil && known.Node != nodeID:
			return api.Conflict("the key is another's: a node makes its own")
		case known != nil:
			row = known
			return nil
		}
		if apart := q.NotBefore.Sub(tx.Now()).Abs(); apart > api.ClockSlack {
			return api.Conflict(fmt.Sprintf("the key would be in force from %s on, but it is %s here: set the node's clock", sealer.FormatTime(q.NotBefore), sealer.FormatTime(tx.Now())))
		}
		all, err := OfNode(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		if n := len(all); n > 0 {
			if err := all[n-1].letsFollow(nodeID, q); err != nil {
				return err
			}
			row.Purpose = all[n-1].Purpose // what the node was invited for
		}
		before, err := newestKey(ctx, tx, row.role(), tx.Now())
		if err != nil {
			return err
		}
		if before != nil && !row.NotBefore.After(before.NotBefore) {
			return api.Conflict("the key would be in force before the one that it takes over from, " + before.KeyID)
		}
		return enter(ctx, tx, row, before, row.NotBefore.Add(api.KeyOverlap), sealer.Ref{Kind: "node", ID: nodeID})
	})
	if err != nil {
		return api.SigningKey{}, fmt.Errorf("cannot enrol a key of the node %s: %w", nodeID, err)
	}
	s.cfg.Logger.Info("a node enrolled a signing key", "nodeId", nodeID, "keyId", row.KeyID)
	return row.told(), nil
}

// nextKey checks a key that a node presents.
func nextKey(nodeID string, q api.EnrolRequest) (ed25519.PublicKey, error) {
	key, err := ReadKey(q.PublicKey)
	if err == nil {
		err = SignedBy(key, api.EnrolText(nodeID, q.PublicKey), q.Signature)
	}
	return key, err
}

// ReadKey reads the key of a request.
func ReadKey(text string) (ed25519.PublicKey, error) {
	key, err := sealer.ReadPublicKey(text)
	if err != nil {
		return nil, api.InvalidField("publicKey", "must be an Ed25519 public key of large order: 32 bytes in base64url")
	}
	return key, nil
}

// SignedBy checks the signature of a request by the key in it.
func SignedBy(key ed25519.PublicKey, text []byte, signature string) error {
	raw, err := textCoding.DecodeString(signature)
	if err != nil || !ed25519.Verify(key, text, raw) {
		return api.InvalidField("signature", "is not by publicKey over this request")
	}
	return nil
}

// letsFollow is an error unless another key may take over from the newest one of a node.
func (k *Key) letsFollow(nodeID string, q api.EnrolRequest) error {
	switch {
	case k.Leaving:
		return api.Conflict("the node is to leave: it needs no other key")
	case !k.vouches(nodeID, q):
		return api.Conflict("the key is not vouched for by the node's newest one, " + k.KeyID +
			": a node that has lost that joins anew, with an invitation and under another name")
	}
	return nil
}

// vouches says whether the newest key of a node lets another take over from it. Who is
// not trusted any more is not asked.
func (k *Key) vouches(nodeID string, q api.EnrolRequest) bool {
	key, err := textCoding.DecodeString(k.PublicKey)
	if k.RevokedAt != nil || err != nil {
		return err == nil
	}
	signature, err := textCoding.DecodeString(q.Voucher)
	return err == nil && ed25519.Verify(key, api.EnrolText(nodeID, q.PublicKey), signature)
}

// RetireKey ends the window of a key where the node says that it has ended in truth,
// once nothing that it signed is under way any more. That is not before the window of
// the next key begins: a node can't disown what it signed earlier. A node that is to
// leave retires all of its keys, its newest not before now.
func (s *Service) RetireKey(ctx context.Context, nodeID string, q api.RetireRequest) (v api.SigningKey, err error) {
	s.keys.change.Lock()
	defer s.keys.change.Unlock()
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		all, err := OfNode(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(k Key) bool { return k.KeyID == q.KeyID })
		if i < 0 {
			return &api.Error{Code: api.ResourceNotFound, Message: "the node has no such signing key"}
		}
		row, end := &all[i], store.At(q.NotAfter).Time
		if i < len(all)-1 {
			end = latest(end, all[i+1].NotBefore)
		} else if end = latest(end, nextMilli(latest(row.NotBefore, tx.Now()))); !row.Leaving {
			return api.Conflict("the key is the node's newest: enrol the next one first")
		}
		v = row.told()
		if row.RevokedAt != nil || row.Retired {
			return nil
		}
		row.endAt(end)
		row.Retired = true
		v = row.told()
		if _, err := tx.ExecContext(ctx, `UPDATE signing_keys SET retired = 1 WHERE key_id = $1`, row.KeyID); err != nil {
			return err
		}
		return change(ctx, tx, "key.retired", row, sealer.Ref{Kind: "node", ID: nodeID})
	})
	if err != nil {
		return api.SigningKey{}, fmt.Errorf("cannot retire the key %s: %w", q.KeyID, err)
	}
	return v, nil
}

// change writes what has changed of a key, and tells of it by an event.
func change(ctx context.Context, tx *store.Tx, event string, row *Key, by sealer.Ref) (err error) {
	if row.revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	if err := updateKey(ctx, tx, row); err != nil {
		return err
	}
	return emit(ctx, tx, event, row, by, row.describe())
}

// EndingKeys says which of a node's keys end, are revoked, or have no successor.
func (s *Service) EndingKeys(ctx context.Context, nodeID string, keyIDs []string) ([]api.SigningKey, error) {
	return s.Told(ctx, nodeID, keyIDs, func(k *Key) bool { return k.NotAfter != nil || k.RevokedAt != nil || k.Leaving })
}

// Told is what a node is told of those of its keys that it asks for.
func (s *Service) Told(ctx context.Context, nodeID string, keyIDs []string, of func(*Key) bool) ([]api.SigningKey, error) {
	all, err := OfNode(ctx, s.db.Read(), nodeID)
	if err != nil {
		return nil, err
	}
	told := []api.SigningKey{}
	for i := range all {
		if k := &all[i]; slices.Contains(keyIDs, k.KeyID) && of(k) {
			told = append(told, k.told())
		}
	}
	return told, nil
}

func (k *Key) told() api.SigningKey {
	v := api.SigningKey{KeyID: k.KeyID, NotBefore: k.NotBefore, Last: k.Leaving}
	if k.NotAfter != nil {
		v.NotAfter = *k.NotAfter
	}
	if k.RevokedAt != nil {
		v.RevokedAt = *k.RevokedAt
	}
	return v
}

// Recall ends the window of a node's current key, unless that was done.
func (s *Service) Recall(ctx context.Context, row *Key, by sealer.Ref) error {
	s.keys.change.Lock()
	defer s.keys.change.Unlock()
	return s.db.Change(ctx, func(tx *store.Tx) error {
		current, err := newestKey(ctx, tx, row.role(), tx.Now())
		switch {
		case err != nil:
			return err
		case current == nil:
			return api.Conflict("the key is out of use")
		case current.KeyID != row.KeyID:
			return api.Conflict("the key is not current: " + current.KeyID + " is")
		case current.NotAfter != nil:
			return nil
		}
		current.endAt(store.At(tx.Now().Add(api.KeyOverlap)).Time)
		return change(ctx, tx, "key.recalled", current, by)
	})
}

// Current is the newest key of a node that is in force, for the purpose of another of its
// keys; nil when there is none.
func (s *Service) Current(ctx context.Context, of *Key) (*Key, error) {
	return newestKey(ctx, s.db.Read(), of.role(), s.db.Now())
}
