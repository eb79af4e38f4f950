package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// Succession says which key signs now.
type Succession struct {
	// Key is the new key; null while it waits for the root, or if a node in a process of
	// its own was asked to make it, and has not yet.
	Key *SigningKey `json:"key"`
	// Replaced is the old one; null if the first key of its role was made.
	Replaced *SigningKey `json:"replaced"`
	// Waiting is set if the new directory key waits for the root's delegation.
	Waiting *Waiting `json:"waiting,omitempty"`
}

// Waiting is a directory key that the root has not delegated to yet.
type Waiting struct {
	KeyID     string `json:"keyId"`
	PublicKey string `json:"publicKey" doc:"In PEM, for muniment root delegate."`
}

// Rotate lets another key take over from one that is current here. Whatever is
// signed from the answer on is signed by the new key; every delivery, before,
// during and after, is signed by the key whose window holds its moment of issue,
// and none has to wait longer than a commit takes. The old key is destroyed: that
// of a node before Rotate returns, that of packs once the seals at work must have
// ended.
//
// A directory key needs the root's delegation: see Delegate for when it is offline. A
// node in a process of its own makes its next key itself: see recall.
func (r *Room) Rotate(ctx context.Context, keyID string, by sealer.Ref) (Succession, error) {
	row, err := r.known(ctx, keyID)
	if err != nil {
		return Succession{}, err
	}
	g := r.ringOf(row.role())
	if g == nil {
		return r.recall(ctx, row, by)
	}
	done, err := r.administer(ctx, "rotating the key "+keyID)
	if err != nil {
		return Succession{}, fmt.Errorf("cannot rotate the key %s: %w", keyID, err)
	}
	defer done()
	if current := g.current().signer.KeyID; current != keyID {
		return Succession{}, api.Conflict("the key is not current: " + current + " is")
	}
	s, err := r.rotate(ctx, g, by)
	if err != nil {
		return Succession{}, fmt.Errorf("cannot rotate the key %s: %w", keyID, err)
	}
	return s, nil
}

func (r *Room) rotate(ctx context.Context, g *ring, by sealer.Ref) (Succession, error) {
	if g == r.directory {
		return r.rotateDirectory(ctx, by)
	}
	key, err := makeKey(r.cfg.Dir, g.role)
	if err != nil {
		return Succession{}, err
	}
	return r.succeed(ctx, g, key, by, nil)
}

// succeed makes a key the current one of its role, and destroys the one before when
// it is out of use. complete fills in the rest of the row, once its NotBefore is
// known. On an error the one before signs on, and the key and its file are gone; a key
// that waited goes on waiting.
func (r *Room) succeed(ctx context.Context, g *ring, key *private, by sealer.Ref, complete func(*signingKey) error) (Succession, error) {
	old := g.current()
	row, before, err := r.handOver(context.WithoutCancel(ctx), g, key, by, complete)
	if err != nil {
		return Succession{}, err
	}
	if old != nil {
		r.retire(ctx, g, old)
	}
	now := r.db.Now()
	s, did := Succession{Key: row.view(now)}, "a signing key was made"
	if before != nil {
		s.Replaced, did = before.view(now), "a signing key took over"
	}
	r.cfg.Logger.Info(did, "keyId", row.KeyID, "purpose", row.Purpose, "nodeId", row.node)
	return s, nil
}

// handOver moves the role from one key to the next, in the directory and in the ring.
func (r *Room) handOver(ctx context.Context, g *ring, key *private, by sealer.Ref, complete func(*signingKey) error) (row, before *signingKey, err error) {
	r.change.Lock()
	defer r.change.Unlock()
	overlap, sealed := time.Duration(0), time.Time{}
	if g.role.overlaps() {
		overlap = r.cfg.SealTime
		if sealed, err = r.cfg.LastSeal(ctx, r.db.Read()); err != nil {
			return nil, nil, err
		}
	}
	at := g.handover(sealed, overlap)
	row = &signingKey{Key: sealer.NewKey(key.Pub, g.role.purpose, at), node: g.role.node}
	if complete != nil {
		err = complete(row)
	}
	if err == nil {
		before, err = r.write(ctx, row, at.Add(overlap), by)
	}
	if err == nil {
		g.take(g.hold(key, row))
		return row, before, nil
	}
	// A commit that failed may have been one, and may still become one. Only if it
	// certainly was not can the old key sign on: a change of its own waits for the lost one.
	var written *signingKey
	readErr := r.db.Change(ctx, func(tx *store.Tx) (err error) {
		written, err = keyOf(ctx, tx, row.KeyID)
		return err
	})
	switch {
	case readErr != nil:
		g.take(nil)
		err = errors.Join(fmt.Errorf("%s stays without a key until the next start: %w", g.role, err), readErr)
	case written != nil:
		g.take(g.hold(key, row))
		return row, before, nil
	default:
		g.undo()
		if !key.waited {
			err = errors.Join(err, key.Destroy())
		}
	}
	return nil, nil, err
}

// write puts the key into the directory, and ends the one before.
func (r *Room) write(ctx context.Context, row *signingKey, end time.Time, by sealer.Ref) (before *signingKey, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		if before, err = newestKey(ctx, tx, row.role(), tx.Now()); err != nil {
			return err
		}
		return enter(ctx, tx, row, before, end, by)
	})
	return before, err
}

// enter writes the key and the end of the one before, and tells of both by one event.
func enter(ctx context.Context, tx *store.Tx, row, before *signingKey, end time.Time, by sealer.Ref) (err error) {
	if row.revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	if err := insertKey(ctx, tx, row); err != nil {
		return err
	}
	if before == nil {
		return emit(ctx, tx, "key.enrolled", row, by, row.describe())
	}
	before.endAt(end)
	before.revision = row.revision
	if err := updateKey(ctx, tx, before); err != nil {
		return err
	}
	told := before.describe()
	told["successor"] = row.describe()
	return emit(ctx, tx, "key.rotated", before, by, told)
}

// retire destroys a key that another has taken over from, once it is out of use. One
// that can't be destroyed now is destroyed by the next start.
func (r *Room) retire(ctx context.Context, g *ring, k *held) {
	if g.role.overlaps() {
		time.AfterFunc(r.cfg.SealTime, func() { r.destroy(g, k) })
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.DrainFor)
	defer cancel()
	if err := g.drain(ctx, k); err != nil {
		r.cfg.Logger.Warn("a key is still in use; the next start destroys it", "keyId", k.signer.KeyID, "err", err)
		return
	}
	r.destroy(g, k)
}

func (r *Room) destroy(g *ring, k *held) {
	g.drop(k)
	if err := k.private.Destroy(); err != nil {
		r.cfg.Logger.Warn("a key file is left; the next start destroys it", "keyId", k.signer.KeyID, "err", err)
	}
}

// openRing loads the current key of a role; the ring is empty when there is none.
// The role's other keys are out of use, as whoever signed with them is gone with
// the last process: their files are destroyed. Where there are other processes that
// waits until their windows have ended.
func (r *Room) openRing(ctx context.Context, role role) (*ring, error) {
	g := &ring{role: role, now: r.db.Now}
	current, err := r.newestKey(ctx, role)
	if err != nil {
		return nil, err
	}
	ids, err := role.files(r.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		row, err := r.key(ctx, id)
		if err != nil {
			return nil, err
		}
		switch {
		case current != nil && id == current.KeyID:
		case row != nil && r.shared != nil && row.RevokedAt == nil && row.NotAfter != nil && row.NotAfter.After(r.db.Now()):
		case row != nil:
			if err := keyfile.Destroy(role.path(r.cfg.Dir, id)); err != nil {
				return nil, err
			}
		case role != directoryRole: // there it waits for the root
			r.cfg.Logger.Warn("a key file belongs to no known key: remove it, unless the database is an older copy",
				"file", role.path(r.cfg.Dir, id))
		}
	}
	if current == nil {
		return g, nil
	}
	key, err := loadKey(r.cfg.Dir, role, current.KeyID)
	if errors.Is(err, fs.ErrNotExist) {
		r.cfg.Logger.Warn("a key file is gone: another key takes over", "keyId", current.KeyID, "purpose", role.purpose, "nodeId", role.node)
		return g, nil
	}
	if err != nil {
		return nil, err
	}
	g.keys = []*held{g.hold(key, current)}
	if now := r.db.Now(); now.Before(current.NotBefore) {
		r.cfg.Logger.Warn("the clock stands before the key's window: nothing is signed until it has come",
			"keyId", current.KeyID, "notBefore", sealer.FormatTime(current.NotBefore))
	}
	return g, nil
}

// openSigner is openRing for a role that needs nobody's consent to a new key.
func (r *Room) openSigner(ctx context.Context, role role) (*ring, error) {
	g, err := r.openRing(ctx, role)
	if err == nil && g.current() == nil {
		_, err = r.rotate(ctx, g, store.BySystem())
	}
	return g, err
}

// ringOf is the ring that a role has in this process, nil without one.
func (r *Room) ringOf(role role) *ring {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rings[role]
}

// known returns a key's row, or an error that says there is none.
func (r *Room) known(ctx context.Context, keyID string) (*signingKey, error) {
	row, err := r.key(ctx, keyID)
	if err == nil && row == nil {
		err = errUnknownKey
	}
	return row, err
}

var errUnknownKey = &api.Error{Code: api.ResourceNotFound, Message: "no such signing key"}
