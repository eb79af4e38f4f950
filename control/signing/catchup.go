package signing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muniment/control/store"
)

// # Keys of several processes
//
// Processes that share a database share the folder of the key files, too: one volume
// that all of them may write to. Which key of a role is current says the database. A
// process looks there before it signs a pack or a directory, and loads the
// key that another process has made; a folder that lacks it is not the one that they
// share, and nothing is signed from it. One process at a time opens the folder or
// changes keys (administer), and the others go on signing meanwhile. A start that has
// waited a minute for that turn gives up, with DATABASE_BUSY and the name of who has it:
// a process that stands still in the middle of a change is to be ended by an operator.
//
// A key that is about to be revoked leaves in a change of its own, before everything
// that it signed is sealed: a pack that another process was sealing with it is not
// committed any more (Vouches).
//
// Windows and moments of issue are by the clock of the process that signs: keep the
// clocks of the machines together. Of two directories by different processes that are
// issued within their clocks' difference either may bear the later time.

// administer lets one process at a time change keys, and has this one know what others
// have changed. what says what for. Whoever gets done must call it.
func (r *keyring) administer(ctx context.Context, what string) (done func(), err error) {
	if done, err = r.db.LockKeys(ctx, what); err != nil {
		return nil, err
	}
	for _, u := range uses {
		if err := r.catchUp(ctx, r.of(role{u.purpose, control})); err != nil {
			done()
			return nil, err
		}
	}
	return done, nil
}

// catchUp takes over what another process has changed about the keys of a role of
// control's.
func (r *keyring) catchUp(ctx context.Context, g *ring) error {
	if !r.shared {
		return nil
	}
	r.change.Lock()
	defer r.change.Unlock()
	all, err := allKeys(ctx, r.db)
	if err != nil {
		return err
	}
	for _, k := range g.all() {
		i := slices.IndexFunc(all, func(row Key) bool { return row.KeyID == k.signer.KeyID })
		switch {
		case i < 0: // not written yet
		case all[i].RevokedAt != nil:
			r.destroy(g, k)
		default:
			g.amend(k, all[i].NotAfter)
		}
	}
	row := newest(all, g.role, r.db.Now())
	if row == nil || g.find(row.KeyID) != nil {
		return nil
	}
	key, err := loadKey(r.cfg.Dir, g.role, row.KeyID)
	if err != nil {
		return fmt.Errorf("the current key for %s is not in the folder that control processes share: %w", g.role, err)
	}
	for _, k := range g.all() {
		time.AfterFunc(r.cfg.SealTime, func() { r.destroy(g, k) })
	}
	g.add(g.hold(key, row))
	return nil
}

// leave has nothing be taken any more that the key signs.
func (r *keyring) leave(ctx context.Context, keyID string) error {
	return r.db.Stop(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE signing_keys SET leaving = 1 WHERE key_id = $1`, keyID)
		return err
	})
}
