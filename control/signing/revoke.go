package signing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Revocation is a request to revoke a key.
type Revocation struct {
	// Reason is kept in the event; may be empty.
	Reason string
	// Seal seals what the key signed, for all tenants that keys of the purpose sign for, and
	// returns those that it could not seal. It is called before the revocation, since
	// afterwards nothing by the key can be proven, and once the key signs nothing more and
	// all that it signed is in the log. If it fails or returns tenants, the key is out of
	// use, but not revoked. Nil seals nothing.
	Seal func(ctx context.Context, keyID, purpose string) ([]Unsealed, error)
	// OutOfUse makes the node that holds the key stop using it, and returns the key that
	// took over, if one has. Nil if the key does not belong to a node in a process of its
	// own.
	OutOfUse func(ctx context.Context) (successor *SigningKey, err error)
	// Force revokes the key even if some tenants could not be sealed, or its node did not
	// confirm that it has stopped using the key.
	Force bool
}

// Unsealed is a tenant that could not be sealed before a revocation.
type Unsealed struct {
	TenantID string `json:"tenantId"`
	Reason   string `json:"reason"`
	// Err is the whole error; Reason is the part for operators.
	Err error `json:"-"`
}

// Revoked is the response to a revocation.
type Revoked struct {
	Key SigningKey `json:"key"`
	// Successor signs instead; null if the key was not current here.
	Successor *SigningKey `json:"successor"`
	// Unsealed are the tenants that could not be sealed before: what the key signed for
	// them since their last pack can no longer be proven.
	Unsealed []Unsealed `json:"unsealed,omitempty"`
	// Revision is the revision of the revocation; 0 if the key was revoked before.
	Revision int64 `json:"-"`
}

// Revoke ends all trust in a key. The key signs nothing from the beginning of the call on;
// if it is current, another key takes over without a gap. Then Revoke seals what the key
// signed, destroys the private key, and writes the revocation. A revocation is final;
// revoking a revoked key changes nothing and leaves no event.
//
// From then on a receipt by the key verifies only as part of a pack that was sealed before,
// and a pack by it only with a later pack of the chain by another key. The current directory
// key can't be revoked unless another one can take over, which needs the root key.
//
// Other keys may be changed while Revoke seals. Of concurrent calls for one key each seals,
// and one revokes.
func (s *Service) Revoke(ctx context.Context, keyID string, q Revocation, by sealer.Ref) (Revoked, error) {
	row, err := s.FindKey(ctx, keyID)
	if err != nil {
		return Revoked{}, err
	}
	if row.RevokedAt != nil { // perhaps by a call that could not confirm it
		return Revoked{Key: *row.View(s.db.Now())}, s.db.Confirm(ctx)
	}
	v, err := s.revoke(ctx, row, q, by)
	if err != nil {
		return Revoked{}, fmt.Errorf("cannot revoke the key %s: %w", keyID, err)
	}
	s.cfg.Logger.Warn("a signing key was revoked", "keyId", keyID, "purpose", row.Purpose, "nodeId", row.Node)
	if err := s.db.Confirm(ctx); err != nil { // no key is locked any more
		return Revoked{}, err
	}
	return v, nil
}

func (s *Service) revoke(ctx context.Context, row *Key, q Revocation, by sealer.Ref) (v Revoked, err error) {
	g := s.keys.of(row.role())
	if g != nil {
		v.Successor, err = s.replace(ctx, g, row, by)
	} else if q.OutOfUse != nil {
		v.Successor, err = q.OutOfUse(ctx)
	}
	if err != nil {
		return Revoked{}, err
	}
	if v.Unsealed, err = q.SealAll(ctx, row.KeyID, row.Purpose); err != nil {
		return Revoked{}, err
	}
	done, err := s.keys.lockKeys(ctx, "revoking the key "+row.KeyID)
	if err != nil {
		return Revoked{}, err
	}
	defer done()
	if g != nil {
		if k := g.find(row.KeyID); k != nil {
			s.keys.destroy(g, k)
		}
	}
	after, err := s.writeRevocation(context.WithoutCancel(ctx), g, row.KeyID, q.Reason, by)
	if err != nil {
		return Revoked{}, err
	}
	v.Key, v.Revision = *after.View(s.db.Now()), after.revision
	return v, nil
}

// SealAll seals what the keys that are about to be revoked signed. Tenants that can't be sealed
// are an error, unless the revocation is forced.
func (q *Revocation) SealAll(ctx context.Context, keyID, purpose string) (unsealed []Unsealed, err error) {
	if q.Seal == nil {
		return nil, nil
	}
	if unsealed, err = q.Seal(ctx, keyID, purpose); err == nil && !q.Force {
		err = refuseUnsealed(unsealed)
	}
	if err != nil {
		return nil, fmt.Errorf("the key is out of use, but what it signed can't be sealed: %w", err)
	}
	return unsealed, nil
}

// replace makes another key current, if the one to be revoked is, and marks that one as
// leaving.
func (s *Service) replace(ctx context.Context, g *ring, row *Key, by sealer.Ref) (successor *SigningKey, err error) {
	done, err := s.keys.lockKeys(ctx, "replacing the key "+row.KeyID)
	if err != nil {
		return nil, err
	}
	defer done()
	if g.current().signer.KeyID == row.KeyID {
		v, err := s.rotate(ctx, g, by)
		if err != nil {
			return nil, err
		}
		if v.Waiting != nil {
			return nil, api.Conflict("the root has to delegate to the key " + v.Waiting.KeyID + " first: without a directory key no directory can be signed")
		}
		successor = v.Key
	}
	if g.role.overlaps() {
		err = s.keys.markLeaving(ctx, row.KeyID)
	}
	return successor, err
}

// mostNamed is how many tenants a refusal names.
const mostNamed = 10

// refuseUnsealed names the tenants that prevent a revocation; nil if there is none.
func refuseUnsealed(unsealed []Unsealed) error {
	if len(unsealed) == 0 {
		return nil
	}
	var named []string
	for _, u := range unsealed[:min(len(unsealed), mostNamed)] {
		named = append(named, u.TenantID+" ("+u.Reason+")")
	}
	if more := len(unsealed) - mostNamed; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	refusal := *api.From(unsealed[0].Err)
	refusal.Message = "the key signs nothing more, but is not revoked, because these tenants can't be sealed: " + strings.Join(named, ", ") +
		"; with force it is revoked all the same, and what it signed for them since their last pack can't be proven"
	return &refusal
}

// writeRevocation writes a revocation whose time is after everything that the key signed,
// and after every pack that was sealed and every directory that was issued.
func (s *Service) writeRevocation(ctx context.Context, g *ring, keyID, reason string, by sealer.Ref) (row *Key, err error) {
	err = s.Stop(ctx, func(tx *store.Tx) error {
		all, err := list(ctx, tx)
		if err != nil {
			return err
		}
		// The row is read again: others may have changed it.
		i := slices.IndexFunc(all, func(k Key) bool { return k.KeyID == keyID })
		if i < 0 {
			return errUnknownKey
		}
		row = &all[i]
		if row.RevokedAt != nil {
			return nil
		}
		at, err := s.afterAll(ctx, tx, all)
		if err != nil {
			return err
		}
		if g != nil {
			at = latest(at, nextMilli(g.after()))
		}
		return revokeAt(ctx, tx, row, at, reason, by)
	})
	return row, err
}

// Stop is store.DB.StopUnconfirmed for a change that revokes keys: no directory is signed meanwhile.
func (s *Service) Stop(ctx context.Context, fn func(tx *store.Tx) error) error {
	s.keys.change.Lock()
	defer s.keys.change.Unlock()
	return s.db.StopUnconfirmed(ctx, fn)
}

// RevokeAll revokes all keys of a node, within Stop, and returns those that were not revoked
// before.
func (s *Service) RevokeAll(ctx context.Context, tx *store.Tx, nodeID, reason string, by sealer.Ref) (keyIDs []string, err error) {
	all, err := list(ctx, tx)
	if err != nil {
		return nil, err
	}
	at, err := s.afterAll(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	keyIDs = []string{}
	for i := range all {
		if k := &all[i]; k.Node == nodeID && k.RevokedAt == nil {
			keyIDs = append(keyIDs, k.KeyID)
			if err := revokeAt(ctx, tx, k, at, reason, by); err != nil {
				return nil, err
			}
		}
	}
	return keyIDs, nil
}

// afterAll returns a time after every pack that was sealed and every directory that was
// issued.
func (s *Service) afterAll(ctx context.Context, tx *store.Tx, all []Key) (at time.Time, err error) {
	if at, err = s.cfg.LastSeal(ctx, tx); err != nil {
		return at, err
	}
	return nextMilli(latest(at, issue(tx.Now(), all))), nil
}

// revokeAt writes a revocation, with an event.
func revokeAt(ctx context.Context, tx *store.Tx, row *Key, at time.Time, reason string, by sealer.Ref) (err error) {
	row.RevokedAt = &at
	if row.revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	if err := updateKey(ctx, tx, row); err != nil {
		return err
	}
	data := row.describe()
	data["reason"] = reason
	return emit(ctx, tx, eventRevoked, row, by, data)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
