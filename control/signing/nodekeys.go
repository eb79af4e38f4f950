package signing

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// # Keys of nodes in processes of their own
//
// A node makes its keys itself, and requests their rows: the first when it joins (Admit), the
// next ones by EnrolKey, with a signature by the key before. RetireKey ends the window of a key
// that the node no longer uses.

// textCoding is the encoding of keys and signatures in nodes' requests.
var textCoding = base64.RawURLEncoding.Strict()

// Admit puts the first key of a node into the directory, in the change by which it joins.
func Admit(ctx context.Context, tx *store.Tx, nodeID, purpose string, key ed25519.PublicKey, by sealer.Ref) (*Key, error) {
	revision, err := tx.Revision(ctx)
	if err != nil {
		return nil, err
	}
	row := &Key{Key: keydir.NewKey(key, purpose, tx.Now()), Node: nodeID, revision: revision}
	if err := insertKey(ctx, tx, row); err != nil {
		return nil, err
	}
	return row, emit(ctx, tx, eventEnrolled, row, by, row.describe())
}

// EnrolKey puts the next key of a node that has joined into the directory, and ends the
// window of the key before (see api.KeyOverlap), which has to vouch for the next one by a
// signature, unless it is revoked. Enrolling a key again changes nothing. The log has the key when
// EnrolKey returns: a standby that is promoted, and lacks it, gets it from there.
func (s *Service) EnrolKey(ctx context.Context, nodeID string, q api.EnrolRequest) (api.SigningKey, error) {
	key, err := nextKey(nodeID, q)
	if err != nil {
		return api.SigningKey{}, err
	}
	row := &Key{Key: keydir.NewKey(key, keydir.PurposeReceipt, store.At(q.NotBefore).Time), Node: nodeID}
	s.keys.change.Lock()
	unlock := sync.OnceFunc(s.keys.change.Unlock)
	defer unlock()
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		known, err := Find(ctx, tx, row.KeyID)
		switch {
		case err != nil:
			return err
		case known != nil && known.Node != nodeID:
			return api.Conflict("the key belongs to another node: a node makes its own keys")
		case known != nil:
			row = known
			return nil
		}
		if apart := q.NotBefore.Sub(tx.Now()).Abs(); apart > api.ClockSlack {
			return api.Conflict(fmt.Sprintf("the key would be in force from %s on, but control's clock is at %s: set the node's clock", canonical.FormatTime(q.NotBefore), canonical.FormatTime(tx.Now())))
		}
		all, err := OfNode(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		if n := len(all); n > 0 {
			if err := all[n-1].checkSuccessor(nodeID, q); err != nil {
				return err
			}
			row.Purpose = all[n-1].Purpose // the one of the node's invitation
		}
		before, err := newestKey(ctx, tx, row.role(), tx.Now())
		if err != nil {
			return err
		}
		if before != nil && !row.NotBefore.After(before.NotBefore) {
			return api.Conflict("the key would be in force before its predecessor, " + before.KeyID)
		}
		return replaceKey(ctx, tx, row, before, row.NotBefore.Add(api.KeyOverlap), sealer.Ref{Kind: "node", ID: nodeID})
	})
	unlock() // directories are signed while this waits for the log
	if err == nil {
		err = s.db.Confirm(ctx)
	}
	if err != nil {
		return api.SigningKey{}, fmt.Errorf("cannot enrol a key of the node %s: %w", nodeID, err)
	}
	s.cfg.Logger.Info("a node enrolled a signing key", "nodeId", nodeID, "keyId", row.KeyID)
	return row.forNode(), nil
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
	key, err := keydir.ReadPublicKey(text)
	if err != nil {
		return nil, api.InvalidField("publicKey", "must be an Ed25519 public key of large order: 32 bytes in base64url")
	}
	return key, nil
}

// SignedBy checks that a request is signed by the key in it.
func SignedBy(key ed25519.PublicKey, text []byte, signature string) error {
	raw, err := textCoding.DecodeString(signature)
	if err != nil || !ed25519.Verify(key, text, raw) {
		return api.InvalidField("signature", "is not by publicKey over this request")
	}
	return nil
}

// checkSuccessor refuses a key that may not follow k, the node's newest one.
func (k *Key) checkSuccessor(nodeID string, q api.EnrolRequest) error {
	switch {
	case k.Leaving:
		return api.Conflict("the node is to leave: it needs no other key")
	case !k.vouches(nodeID, q):
		return api.Conflict("the key is not vouched for by the node's newest one, " + k.KeyID +
			": a node that has lost its newest key has to join again, with an invitation and under another name")
	}
	return nil
}

// vouches says whether k, the node's newest key, has signed the request. A revoked key need
// not.
func (k *Key) vouches(nodeID string, q api.EnrolRequest) bool {
	key, err := textCoding.DecodeString(k.PublicKey)
	if k.RevokedAt != nil || err != nil {
		return err == nil
	}
	signature, err := textCoding.DecodeString(q.Voucher)
	return err == nil && ed25519.Verify(key, api.EnrolText(nodeID, q.PublicKey), signature)
}

// RetireKey ends the window of a key when the node reports that everything signed by it is
// in the log. The window ends when the node last used the key, but not before the next key's
// begins: a node can't disown what it signed earlier. A node that is to leave retires all of
// its keys, and the window of the newest one does not end before now.
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
			return api.Conflict("the key is the node's newest one: enrol the next one first")
		}
		v = row.forNode()
		if row.RevokedAt != nil || row.Retired {
			return nil
		}
		row.endAt(end)
		row.Retired = true
		v = row.forNode()
		if _, err := tx.ExecContext(ctx, `UPDATE signing_keys SET retired = 1 WHERE key_id = $1`, row.KeyID); err != nil {
			return err
		}
		return change(ctx, tx, eventRetired, row, sealer.Ref{Kind: "node", ID: nodeID})
	})
	if err != nil {
		return api.SigningKey{}, fmt.Errorf("cannot retire the key %s: %w", q.KeyID, err)
	}
	return v, nil
}

// change writes a key's end or revocation, with an event.
func change(ctx context.Context, tx *store.Tx, event *store.Kind, row *Key, by sealer.Ref) (err error) {
	if row.revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	if err := updateKey(ctx, tx, row); err != nil {
		return err
	}
	return emit(ctx, tx, event, row, by, row.describe())
}

// EndingKeys lists those of a node's keys that have an end or are revoked, or whose node is to
// leave.
func (s *Service) EndingKeys(ctx context.Context, nodeID string, keyIDs []string) ([]api.SigningKey, error) {
	return s.NodeKeys(ctx, nodeID, keyIDs, func(k *Key) bool { return k.NotAfter != nil || k.RevokedAt != nil || k.Leaving })
}

// NodeKeys lists those of a node's keys that keyIDs has and that match.
func (s *Service) NodeKeys(ctx context.Context, nodeID string, keyIDs []string, match func(*Key) bool) ([]api.SigningKey, error) {
	all, err := OfNode(ctx, s.db.Vital(), nodeID)
	if err != nil {
		return nil, err
	}
	found := []api.SigningKey{}
	for i := range all {
		if k := &all[i]; slices.Contains(keyIDs, k.KeyID) && match(k) {
			found = append(found, k.forNode())
		}
	}
	return found, nil
}

func (k *Key) forNode() api.SigningKey {
	v := api.SigningKey{KeyID: k.KeyID, NotBefore: k.NotBefore, Last: k.Leaving}
	if k.NotAfter != nil {
		v.NotAfter = *k.NotAfter
	}
	if k.RevokedAt != nil {
		v.RevokedAt = *k.RevokedAt
	}
	return v
}

// Recall ends the window of a node's current key after api.KeyOverlap, unless it has an end.
func (s *Service) Recall(ctx context.Context, row *Key, by sealer.Ref) error {
	s.keys.change.Lock()
	defer s.keys.change.Unlock()
	return s.db.Change(ctx, func(tx *store.Tx) error {
		current, err := newestKey(ctx, tx, row.role(), tx.Now())
		switch {
		case err != nil:
			return err
		case current == nil:
			return api.Conflict("the key is no longer in use")
		case current.KeyID != row.KeyID:
			return api.Conflict("the key is not current: " + current.KeyID + " is")
		case current.NotAfter != nil:
			return nil
		}
		current.endAt(store.At(tx.Now().Add(api.KeyOverlap)).Time)
		return change(ctx, tx, eventRecalled, current, by)
	})
}

// Current returns the newest key in force of a node, for the purpose of another of its keys;
// nil if there is none.
func (s *Service) Current(ctx context.Context, of *Key) (*Key, error) {
	return newestKey(ctx, s.db.Read(), of.role(), s.db.Now())
}
