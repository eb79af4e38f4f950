package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// Directory is the signed key directory, canonical JSON in the form of
// sealer.SignDirectory. It is read from the database and signed at the call, so it
// holds every change that was answered for, and is never old. A directory with a
// change in it is issued later than every one without.
func (r *Room) Directory(ctx context.Context) ([]byte, error) {
	// No key changes here between the read and the signature.
	r.change.RLock()
	defer r.change.RUnlock()
	rows, err := r.keys(ctx)
	if err != nil {
		return nil, err
	}
	if row := newest(rows, directoryRole, r.db.Now()); r.shared != nil && row != nil && r.directory.find(row.KeyID) == nil {
		r.change.RUnlock()
		err := r.catchUp(ctx, r.directory)
		r.change.RLock()
		if err != nil {
			return nil, err
		}
		if rows, err = r.keys(ctx); err != nil {
			return nil, err
		}
	}
	d := sealer.Directory{IssuedAt: issue(r.db.Now(), rows)}
	var newest int64
	for _, row := range rows {
		d.Keys = append(d.Keys, row.Key)
		newest = max(newest, row.revision)
	}
	d.SnapshotID = fmt.Sprintf("dir_%d", newest)
	k, err := r.directory.lend(ctx, d.IssuedAt)
	if err != nil {
		return nil, fmt.Errorf("cannot sign the key directory: %w", r.unsigned(ctx, err))
	}
	defer k.done()
	d.Delegation = k.delegation
	return sealer.SignDirectory(&d, k.signer.Key)
}

// issue is the moment at which a directory is issued: now, but a clock that was set
// back must not make a directory older than what it holds.
func issue(now time.Time, rows []signingKey) time.Time {
	for _, row := range rows {
		for _, at := range []*time.Time{&row.NotBefore, row.RevokedAt} {
			if at != nil && at.After(now) {
				now = *at
			}
		}
	}
	return now
}

// openDirectory finds a directory key that the root has delegated to: the current
// one, or one whose delegation was put beside it, or a new one if the root key is
// here.
func (r *Room) openDirectory(ctx context.Context) (err error) {
	if r.directory, err = r.openRing(ctx, directoryRole); err != nil {
		return err
	}
	r.rings[directoryRole] = r.directory
	err = r.findDelegation(ctx)
	if k := r.directory.current(); k != nil {
		if _, err := sealer.ReadDelegation(k.delegation, r.rootVkey); err != nil {
			return fmt.Errorf("the delegation of the directory key %s does not hold under %s: %w", k.signer.KeyID, rootPublicFile, err)
		}
		if err != nil {
			r.cfg.Logger.Warn("a directory key goes on waiting", "err", err)
		}
		if err := r.renew(ctx); err != nil {
			r.cfg.Logger.Warn("the directory key is not renewed yet", "err", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	s, err := r.rotateDirectory(ctx, store.BySystem())
	if err != nil || s.Waiting == nil {
		return err
	}
	key := directoryRole.path(r.cfg.Dir, s.Waiting.KeyID)
	return fmt.Errorf("%w: let it delegate to the public key in %s (muniment root delegate), put its answer into %s, and start again",
		errRootOffline, beside(key, requestSuffix), beside(key, delegationSuffix))
}

// findDelegation takes the delegation that was put beside a key that waits for it.
func (r *Room) findDelegation(ctx context.Context) error {
	key, err := r.waiting(ctx)
	if err != nil || key == nil {
		return err
	}
	path := beside(key.Path, delegationSuffix)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = r.delegate(ctx, string(text), store.BySystem())
	}
	if err != nil {
		return fmt.Errorf("cannot use %s: %w", path, err)
	}
	return nil
}

// rotateDirectory makes a new directory key current if the root key is here; else
// the key waits for the root's delegation.
func (r *Room) rotateDirectory(ctx context.Context, by sealer.Ref) (Succession, error) {
	key, err := r.waiting(ctx)
	if err == nil && key == nil {
		key, err = makeKey(r.cfg.Dir, directoryRole)
	}
	if err != nil {
		return Succession{}, err
	}
	root, err := r.loadRoot()
	if errors.Is(err, errRootOffline) {
		w := &Waiting{KeyID: sealer.KeyID(key.Pub), PublicKey: encodePublic(key.Pub)}
		return Succession{Waiting: w}, keyfile.Write(beside(key.Path, requestSuffix), []byte(w.PublicKey), 0o644)
	}
	if err != nil {
		return Succession{}, err
	}
	return r.succeed(ctx, r.directory, key, by, func(row *signingKey) error {
		err := r.isLater(ctx, row.NotBefore)
		if err == nil {
			end := row.NotBefore.Add(term)
			row.NotAfter = &end
			row.delegation, err = sealer.Delegate(root, key.Pub, row.NotBefore, end)
		}
		return err
	})
}

// Delegate makes the directory key current that the root has delegated to. The key
// is one that Rotate left waiting here; the delegation is what sealer.Delegate
// returned, and in force. What can't be used is refused with api.Conflict.
func (r *Room) Delegate(ctx context.Context, delegation string, by sealer.Ref) (Succession, error) {
	done, err := r.administer(ctx, "taking a delegation")
	if err != nil {
		return Succession{}, fmt.Errorf("cannot take the delegation: %w", err)
	}
	defer done()
	s, err := r.delegate(ctx, delegation, by)
	if err != nil {
		return Succession{}, fmt.Errorf("cannot take the delegation: %w", err)
	}
	return s, nil
}

func (r *Room) delegate(ctx context.Context, delegation string, by sealer.Ref) (Succession, error) {
	d, err := sealer.ReadDelegation(delegation, r.rootVkey)
	if err != nil {
		return Succession{}, api.Conflict(err.Error())
	}
	key, err := r.waiting(ctx)
	if err != nil {
		return Succession{}, err
	}
	now := r.db.Now()
	switch {
	case key == nil || !key.Pub.Equal(d.Key):
		return Succession{}, api.Conflict("no directory key " + sealer.KeyID(d.Key) + " waits for a delegation here")
	case now.Before(d.NotBefore):
		return Succession{}, api.Conflict("the delegation is in force from " + sealer.FormatTime(d.NotBefore) + " on")
	case !now.Before(d.NotAfter):
		return Succession{}, api.Conflict("the delegation has ended at " + sealer.FormatTime(d.NotAfter))
	}
	if err := r.isLater(ctx, d.NotBefore); err != nil {
		return Succession{}, err
	}
	s, err := r.succeed(ctx, r.directory, key, by, func(row *signingKey) error {
		row.delegation, row.NotAfter = delegation, &d.NotAfter
		return nil
	})
	if err == nil {
		err = errors.Join(removeFile(beside(key.Path, requestSuffix)), removeFile(beside(key.Path, delegationSuffix)))
	}
	return s, err
}

// waiting is the directory key that waits for the root's delegation: a key file
// without a row. It is nil when there is none.
func (r *Room) waiting(ctx context.Context) (*private, error) {
	ids, err := directoryRole.files(r.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		row, err := r.key(ctx, id)
		if err != nil {
			return nil, err
		}
		if row == nil {
			key, err := loadKey(r.cfg.Dir, directoryRole, id)
			if err == nil {
				key.waited = true
			}
			return key, err
		}
	}
	return nil, nil
}

// Files beside the key file of a key that waits: its public half in PEM, and where
// a start looks for the root's answer.
const (
	requestSuffix    = ".pub"
	delegationSuffix = ".delegation"
)

func beside(keyFile, suffix string) string { return strings.TrimSuffix(keyFile, ".key") + suffix }

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return keyfile.Sync(filepath.Dir(path))
}
