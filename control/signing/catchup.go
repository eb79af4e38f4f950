package signing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muniment.example/control/store"
)

// # Keys of several processes
//
// Processes that share a database also share the folder of the key files: one volume
// that all of them may write to. The database says which key of a role is current. A
// process reads it before it signs a pack or a directory, and loads the key that another
// process has made. If the folder lacks that key, it is not the shared one, and the
// process signs nothing. One process at a time opens the folder or changes keys
// (lockKeys); the others continue to sign meanwhile. A start that has waited a minute for
// the lock fails with DATABASE_BUSY and the name of its holder: an operator has to end a
// process that hangs in the middle of a change.
//
// A key that is about to be revoked is marked as leaving in a change of its own, before
// everything that it signed is sealed. From then on no process can commit a pack that it
// was sealing with that key (Vouches).
//
// Windows and times of issue come from the clock of the process that signs, so the
// machines' clocks must be synchronised. Two directories that different processes issue
// within the difference of their clocks may have their times in the wrong order.

// lockKeys lets only this process change keys until done is called, and first applies
// what others have changed. what is the purpose of the lock, which others see while they
// wait. If there is no error the caller must call done.
func (r *keyring) lockKeys(ctx context.Context, what string) (done func(), err error) {
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

// catchUp applies what other processes have changed about control's keys of a role.
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

// markLeaving makes Vouches refuse the key, in every process, once it returns.
func (r *keyring) markLeaving(ctx context.Context, keyID string) error {
	return r.db.StopUnconfirmed(ctx, func(tx *store.Tx) error { // the mark is no event that the log could have
		_, err := tx.ExecContext(ctx, `UPDATE signing_keys SET leaving = 1 WHERE key_id = $1`, keyID)
		return err
	})
}
