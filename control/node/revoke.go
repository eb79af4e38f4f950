package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Revocation asks for a revocation.
type Revocation struct {
	// Reason is told in the event; may be empty.
	Reason string
	// Seal is called once the key signs nothing any more, and all that it signed is
	// in the log, to seal that before the revocation: afterwards nothing can. It goes
	// over all tenants that keys of the purpose sign for, and returns those that it could
	// not seal. Then, and when it fails, the key is out of use, but not revoked. Nil seals
	// nothing.
	Seal func(ctx context.Context, keyID, purpose string) ([]Unsealed, error)
	// Force revokes the key although some tenants could not be sealed, or its node did
	// not say that it is out of use.
	Force bool
}

// Unsealed is a tenant that could not be sealed before a revocation.
type Unsealed struct {
	TenantID string `json:"tenantId"`
	Reason   string `json:"reason"`
	// Err is why; Reason is what of it an operator is told.
	Err error `json:"-"`
}

// Revoked is the answer to a revocation.
type Revoked struct {
	Key SigningKey `json:"key"`
	// Successor signs instead; null if the key was not current here.
	Successor *SigningKey `json:"successor"`
	// Unsealed are the tenants that could not be sealed before: what the key signed of
	// theirs since their last pack can't be proven any more.
	Unsealed []Unsealed `json:"unsealed,omitempty"`
}

// Revoke declares that a key is not to be trusted any more. It signs nothing from
// the beginning of the call on: if it is current another key takes over, without a
// gap. Then what it signed is sealed, the private key is destroyed, and the
// revocation is written. What is revoked is never trusted again; revoking it again
// changes nothing and leaves no event.
//
// A receipt by the key passes from then on only as part of a pack that was sealed
// before; a pack by it only with a later pack of the chain by another key. A current
// directory key can't be revoked while no other can take over: the root is needed.
//
// A node in a process of its own is asked to put the key out of use first, which it
// does once what the key signed is in the log. With Force nobody insists on that: the
// key is revoked, and a live node is told with its next answer of the feed, within the
// lease's bound; what is left in a node's spool then can't be proven any more.
//
// While that is sealed other keys may be changed. Whoever revokes the same key meanwhile
// seals as well, and one of them revokes it.
func (r *Room) Revoke(ctx context.Context, keyID string, q Revocation, by sealer.Ref) (Revoked, error) {
	row, err := r.known(ctx, keyID)
	if err != nil {
		return Revoked{}, err
	}
	if row.RevokedAt != nil {
		return Revoked{Key: *row.view(r.db.Now())}, nil
	}
	v, err := r.revoke(ctx, row, q, by)
	if err != nil {
		return Revoked{}, fmt.Errorf("cannot revoke the key %s: %w", keyID, err)
	}
	r.cfg.Logger.Warn("a signing key was revoked", "keyId", keyID, "purpose", row.Purpose, "nodeId", row.node)
	return v, nil
}

func (r *Room) revoke(ctx context.Context, row *signingKey, q Revocation, by sealer.Ref) (v Revoked, err error) {
	g := r.ringOf(row.role())
	joined := false
	if g != nil {
		v.Successor, err = r.replace(ctx, g, row, by)
	} else if joined, err = r.hasJoined(ctx, row.node); err == nil && joined {
		v.Successor, err = r.putOutOfUse(ctx, row, q.Force, by)
	}
	if err != nil {
		return Revoked{}, err
	}
	if q.Seal != nil {
		if v.Unsealed, err = q.Seal(ctx, row.KeyID, row.Purpose); err == nil && !q.Force {
			err = refusal(v.Unsealed)
		}
		if err != nil {
			return Revoked{}, fmt.Errorf("it is out of use, but what it signed can't be sealed: %w", err)
		}
	}
	done, err := r.administer(ctx, "revoking the key "+row.KeyID)
	if err != nil {
		return Revoked{}, err
	}
	defer done()
	if g != nil {
		if k := g.find(row.KeyID); k != nil {
			r.destroy(g, k)
		}
	}
	after, err := r.writeRevocation(context.WithoutCancel(ctx), g, row.KeyID, q.Reason, by)
	if err != nil {
		return Revoked{}, err
	}
	v.Key = *after.view(r.db.Now())
	if joined {
		r.Await(ctx, after.revision) // the node is told by the feed, and signs nothing without it
	}
	return v, nil
}

// replace has another key take over from one of a role of this process, if it is
// current, before it is revoked.
func (r *Room) replace(ctx context.Context, g *ring, row *signingKey, by sealer.Ref) (successor *SigningKey, err error) {
	done, err := r.administer(ctx, "replacing the key "+row.KeyID)
	if err != nil {
		return nil, err
	}
	defer done()
	if g.current().signer.KeyID == row.KeyID {
		s, err := r.rotate(ctx, g, by)
		if err != nil {
			return nil, err
		}
		if s.Waiting != nil {
			return nil, api.Conflict("the root has to delegate to the key " + s.Waiting.KeyID + " first: the directory needs a signature")
		}
		successor = s.Key
	}
	if g.role.overlaps() {
		err = r.leave(ctx, row.KeyID)
	}
	return successor, err
}

// mostNamed is how many tenants a refusal names.
const mostNamed = 10

// refusal says which tenants are in the way of a revocation; nil if none is.
func refusal(unsealed []Unsealed) error {
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
	told := *api.From(unsealed[0].Err)
	told.Message = "the key signs nothing any more, but is not revoked, as these tenants can't be sealed: " + strings.Join(named, ", ") +
		"; forced, it is revoked all the same, and what it signed of theirs since their last pack can't be proven"
	return &told
}

// writeRevocation dates the revocation after everything that was signed with the
// key, and after every pack that was sealed and every directory that was issued.
func (r *Room) writeRevocation(ctx context.Context, g *ring, keyID, reason string, by sealer.Ref) (row *signingKey, err error) {
	r.change.Lock()
	defer r.change.Unlock()
	err = r.db.Stop(ctx, func(tx *store.Tx) error {
		all, err := keys(ctx, tx)
		if err != nil {
			return err
		}
		// What others have changed of it since is not undone.
		i := slices.IndexFunc(all, func(k signingKey) bool { return k.KeyID == keyID })
		if i < 0 {
			return errUnknownKey
		}
		row = &all[i]
		if row.RevokedAt != nil {
			return nil
		}
		at, err := r.afterAll(ctx, tx, all)
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

// afterAll is a moment after every pack that was sealed and every directory that was
// issued.
func (r *Room) afterAll(ctx context.Context, tx *store.Tx, all []signingKey) (at time.Time, err error) {
	if at, err = r.cfg.LastSeal(ctx, tx); err != nil {
		return at, err
	}
	return nextMilli(latest(at, issue(tx.Now(), all))), nil
}

// revokeAt writes a revocation, and tells of it.
func revokeAt(ctx context.Context, tx *store.Tx, row *signingKey, at time.Time, reason string, by sealer.Ref) (err error) {
	row.RevokedAt = &at
	if row.revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	if err := updateKey(ctx, tx, row); err != nil {
		return err
	}
	told := row.describe()
	told["reason"] = reason
	return emit(ctx, tx, "key.revoked", row, by, told)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
