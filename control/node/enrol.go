package node

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// EnrolKey puts the next key of a node that has joined into the directory, and ends
// the window of the key before (see api.KeyOverlap), which has to vouch for it unless
// it is revoked. The same key once more changes nothing.
func (r *Room) EnrolKey(ctx context.Context, nodeID string, q api.EnrolRequest) (api.SigningKey, error) {
	key, err := nextKey(nodeID, q)
	if err != nil {
		return api.SigningKey{}, err
	}
	row := &signingKey{Key: sealer.NewKey(key, sealer.PurposeReceipt, store.At(q.NotBefore).Time), node: nodeID}
	r.change.Lock()
	defer r.change.Unlock()
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		known, err := store.One(ctx, tx, "the signing key", scanKey, `SELECT `+readColumns+` FROM signing_keys WHERE key_id = $1`, row.KeyID)
		switch {
		case err != nil:
			return err
		case known != nil && known.node != nodeID:
			return api.Conflict("the key is another's: a node makes its own")
		case known != nil:
			row = known
			return nil
		}
		if apart := q.NotBefore.Sub(tx.Now()).Abs(); apart > api.ClockSlack {
			return api.Conflict(fmt.Sprintf("the key would be in force from %s on, but it is %s here: set the node's clock", sealer.FormatTime(q.NotBefore), sealer.FormatTime(tx.Now())))
		}
		m, err := r.member(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		if m != nil && m.leaving {
			return api.Conflict("the node is to leave: it needs no other key")
		}
		all, err := nodeKeys(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		if n := len(all); n > 0 {
			row.Purpose = all[n-1].Purpose // what the node was invited for
		}
		if n := len(all); n > 0 && !all[n-1].vouches(nodeID, q) {
			return api.Conflict("the key is not vouched for by the node's newest one, " + all[n-1].KeyID +
				": a node that has lost that joins anew, with an invitation and under another name")
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
	r.cfg.Logger.Info("a node enrolled a signing key", "nodeId", nodeID, "keyId", row.KeyID)
	return row.told(), nil
}

// nextKey checks a key that a node presents.
func nextKey(nodeID string, q api.EnrolRequest) (ed25519.PublicKey, error) {
	key, err := givenKey(q.PublicKey)
	if err == nil {
		err = signedBy(key, api.EnrolText(nodeID, q.PublicKey), q.Signature)
	}
	return key, err
}

// givenKey reads the key of a request.
func givenKey(text string) (ed25519.PublicKey, error) {
	key, err := sealer.ReadPublicKey(text)
	if err != nil {
		return nil, api.InvalidField("publicKey", "must be an Ed25519 public key of large order: 32 bytes in base64url")
	}
	return key, nil
}

// signedBy checks the signature of a request by the key in it.
func signedBy(key ed25519.PublicKey, text []byte, signature string) error {
	raw, err := textCoding.DecodeString(signature)
	if err != nil || !ed25519.Verify(key, text, raw) {
		return api.InvalidField("signature", "is not by publicKey over this request")
	}
	return nil
}

// vouches says whether the newest key of a node lets another take over from it. Who is
// not trusted any more is not asked.
func (k *signingKey) vouches(nodeID string, q api.EnrolRequest) bool {
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
func (r *Room) RetireKey(ctx context.Context, nodeID string, q api.RetireRequest) (v api.SigningKey, err error) {
	r.change.Lock()
	defer r.change.Unlock()
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		all, err := nodeKeys(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(k signingKey) bool { return k.KeyID == q.KeyID })
		if i < 0 {
			return &api.Error{Code: api.ResourceNotFound, Message: "the node has no such signing key"}
		}
		row, end := &all[i], store.At(q.NotAfter).Time
		if i < len(all)-1 {
			end = latest(end, all[i+1].NotBefore)
		} else if end = latest(end, nextMilli(latest(row.NotBefore, tx.Now()))); !row.leaving {
			return api.Conflict("the key is the node's newest: enrol the next one first")
		}
		v = row.told()
		if row.RevokedAt != nil || row.retired {
			return nil
		}
		row.endAt(end)
		row.retired = true
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
func change(ctx context.Context, tx *store.Tx, event string, row *signingKey, by sealer.Ref) (err error) {
	if row.revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	if err := updateKey(ctx, tx, row); err != nil {
		return err
	}
	return emit(ctx, tx, event, row, by, row.describe())
}

// EndingKeys says which of a node's keys end, are revoked, or have no successor.
func (r *Room) EndingKeys(ctx context.Context, nodeID string, keyIDs []string) ([]api.SigningKey, error) {
	return r.told(ctx, nodeID, keyIDs, func(k *signingKey) bool { return k.NotAfter != nil || k.RevokedAt != nil || k.leaving })
}

// told is what a node is told of those of its keys that it asks for.
func (r *Room) told(ctx context.Context, nodeID string, keyIDs []string, of func(*signingKey) bool) ([]api.SigningKey, error) {
	all, err := nodeKeys(ctx, r.db.Read(), nodeID)
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

func (k *signingKey) told() api.SigningKey {
	v := api.SigningKey{KeyID: k.KeyID, NotBefore: k.NotBefore, Last: k.leaving}
	if k.NotAfter != nil {
		v.NotAfter = *k.NotAfter
	}
	if k.RevokedAt != nil {
		v.RevokedAt = *k.RevokedAt
	}
	return v
}

// recall asks a node in a process of its own for another key: it ends the window of
// its current one, which the node learns from the feed. It waits a little for the
// successor; without one the node is still to make it, and signs on meanwhile, at most
// for api.KeyOverlap.
func (r *Room) recall(ctx context.Context, row *signingKey, by sealer.Ref) (Succession, error) {
	joined, err := r.hasJoined(ctx, row.node)
	if err != nil {
		return Succession{}, err
	}
	if !joined {
		return Succession{}, api.Conflict("the key does not sign in this process")
	}
	if err := r.askForAnother(ctx, row, by); err != nil {
		return Succession{}, err
	}
	var next *signingKey
	err = r.await(ctx, func(ctx context.Context) (done bool, err error) {
		next, err = r.newestKey(ctx, row.role())
		return next != nil && next.KeyID != row.KeyID, err
	})
	if err != nil {
		return Succession{}, err
	}
	if row, err = r.known(ctx, row.KeyID); err != nil {
		return Succession{}, err
	}
	s := Succession{Replaced: row.view(r.db.Now())}
	if next != nil && next.KeyID != row.KeyID {
		s.Key = next.view(r.db.Now())
	}
	return s, nil
}

// askForAnother ends the window of a node's current key, unless that was done.
func (r *Room) askForAnother(ctx context.Context, row *signingKey, by sealer.Ref) error {
	r.change.Lock()
	defer r.change.Unlock()
	return r.db.Change(ctx, func(tx *store.Tx) error {
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

// putOutOfUse has a node in a process of its own end its use of a key, before that is
// revoked. It waits until what the key signed is in the log, which only the node knows:
// one that has gone may have left receipts in its spool. That a window has ended says
// nothing of them: it may have because the node did not answer.
func (r *Room) putOutOfUse(ctx context.Context, row *signingKey, force bool, by sealer.Ref) (successor *SigningKey, err error) {
	current, err := r.newestKey(ctx, row.role())
	if err != nil {
		return nil, err
	}
	if current != nil && current.KeyID == row.KeyID {
		if err := r.askForAnother(ctx, row, by); err != nil {
			return nil, err
		}
	}
	if _, err := r.awaitOut(ctx, row.node, force, row); err != nil {
		return nil, err
	}
	next, err := r.newestKey(ctx, row.role())
	if err != nil || next == nil || next.KeyID == row.KeyID {
		return nil, err
	}
	return next.view(r.db.Now()), nil
}

// await asks until done, at most for DrainFor: at each change in the database, and
// now and then as time passes.
func (r *Room) await(ctx context.Context, done func(context.Context) (bool, error)) error {
	waiting, cancel := context.WithTimeout(ctx, r.cfg.DrainFor)
	defer cancel()
	for {
		changed := r.db.Changed()
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		tick := time.NewTimer(straggling)
		select {
		case <-changed:
		case <-tick.C:
		case <-waiting.Done():
			tick.Stop()
			return ctx.Err()
		}
		tick.Stop()
	}
}

// isLive says whether the node may hold a lease.
func (r *Room) isLive(ctx context.Context, nodeID string) (bool, error) {
	polls, err := r.polls(ctx)
	if err != nil {
		return false, fmt.Errorf("cannot tell whether the node is live: %w", err)
	}
	p, known := polls[nodeID]
	return known && r.mayHold(r.cfg.Clock(), p), nil
}
