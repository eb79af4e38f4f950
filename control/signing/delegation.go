package signing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/keyfile"
)

// directoryKey is the key that signs directories, to which the root delegates.
type directoryKey struct {
	keys *keyring
	root root

	// remindedAt is when the log last said that the root has to delegate. Guarded by
	// keyring.lockKeys.
	remindedAt time.Time
}

func (d *directoryKey) ring() *ring { return d.keys.of(directoryRole) }

// open loads a directory key that the root has delegated to: the current one, or one whose
// delegation is in the file beside it, or a new one if the root key is in the key folder.
func (d *directoryKey) open(ctx context.Context) error {
	g, err := d.keys.load(ctx, directoryRole)
	if err != nil {
		return err
	}
	err = d.findDelegation(ctx)
	if k := g.current(); k != nil {
		if _, err := keydir.ReadDelegation(k.delegation, d.root.vkey); err != nil {
			return fmt.Errorf("the delegation of the directory key %s does not hold under %s: %w", k.signer.KeyID, rootPublicFile, err)
		}
		if err != nil {
			d.keys.cfg.Logger.Warn("cannot use the delegation to the next directory key: it still waits for one", "err", err)
		}
		if err := d.renew(ctx); err != nil {
			d.keys.cfg.Logger.Warn("cannot renew the directory key, retrying", "err", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	s, err := d.rotate(ctx, store.BySystem())
	if err != nil || s.Waiting == nil {
		return err
	}
	key := directoryRole.path(d.keys.cfg.Dir, s.Waiting.KeyID)
	return fmt.Errorf("%w: run muniment root delegate for the public key in %s, write its output to %s, and start again",
		errRootOffline, beside(key, requestSuffix), beside(key, delegationSuffix))
}

// findDelegation applies the delegation in the file beside a key that waits for it, if there
// is one.
func (d *directoryKey) findDelegation(ctx context.Context) error {
	key, err := d.waiting(ctx)
	if err != nil || key == nil {
		return err
	}
	path := beside(key.Path, delegationSuffix)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = d.accept(ctx, string(text), store.BySystem())
	}
	if err != nil {
		return fmt.Errorf("cannot use %s: %w", path, err)
	}
	return nil
}

// rotate makes a new directory key current if the root key is in the key folder; otherwise
// the new key waits for the root's delegation.
func (d *directoryKey) rotate(ctx context.Context, by sealer.Ref) (Succession, error) {
	key, err := d.waiting(ctx)
	if err == nil && key == nil {
		key, err = makeKey(d.keys.cfg.Dir, directoryRole)
	}
	if err != nil {
		return Succession{}, err
	}
	root, err := d.root.load()
	if errors.Is(err, errRootOffline) {
		w := &Waiting{KeyID: keydir.KeyID(key.Pub), PublicKey: encodePublic(key.Pub)}
		return Succession{Waiting: w}, keyfile.Write(beside(key.Path, requestSuffix), []byte(w.PublicKey), 0o644)
	}
	if err != nil {
		return Succession{}, err
	}
	return d.keys.install(ctx, d.ring(), key, by, func(row *Key) error { return d.delegateTo(ctx, root, key, row) })
}

// delegateTo signs the root's delegation to a key, from the row's NotBefore on.
func (d *directoryKey) delegateTo(ctx context.Context, root note.Signer, key *private, row *Key) error {
	err := d.isLater(ctx, row.NotBefore)
	if err == nil {
		end := row.NotBefore.Add(delegationTerm)
		row.NotAfter = &end
		row.delegation, err = keydir.Delegate(root, key.Pub, row.NotBefore, end)
	}
	return err
}

// Delegate makes the directory key current to which the root has delegated: one that
// Rotate left waiting here. The delegation is what keydir.Delegate returned, and must be in
// force; one that can't be used is refused with api.Conflict.
func (s *Service) Delegate(ctx context.Context, delegation string, by sealer.Ref) (Succession, error) {
	v, err := s.replacing(ctx, "accepting a delegation", func() (Succession, error) { return s.directory.accept(ctx, delegation, by) })
	if err != nil {
		return Succession{}, fmt.Errorf("cannot accept the delegation: %w", err)
	}
	return v, nil
}

// accept is Delegate for a caller that holds lockKeys.
func (d *directoryKey) accept(ctx context.Context, text string, by sealer.Ref) (Succession, error) {
	delegation, err := keydir.ReadDelegation(text, d.root.vkey)
	if err != nil {
		return Succession{}, api.Conflict(err.Error())
	}
	key, err := d.waiting(ctx)
	if err != nil {
		return Succession{}, err
	}
	now := d.keys.db.Now()
	switch {
	case key == nil || !key.Pub.Equal(delegation.Key):
		return Succession{}, api.Conflict("no directory key " + keydir.KeyID(delegation.Key) + " waits for a delegation here")
	case now.Before(delegation.NotBefore):
		return Succession{}, api.Conflict("the delegation is not in force before " + canonical.FormatTime(delegation.NotBefore))
	case !now.Before(delegation.NotAfter):
		return Succession{}, api.Conflict("the delegation ended at " + canonical.FormatTime(delegation.NotAfter))
	}
	if err := d.isLater(ctx, delegation.NotBefore); err != nil {
		return Succession{}, err
	}
	s, err := d.keys.install(ctx, d.ring(), key, by, func(row *Key) error {
		row.delegation, row.NotAfter = text, &delegation.NotAfter
		return nil
	})
	if err == nil {
		err = errors.Join(removeFile(beside(key.Path, requestSuffix)), removeFile(beside(key.Path, delegationSuffix)))
	}
	return s, err
}

// isLater refuses a delegation that does not begin later than all others: verifiers order
// directories by the beginning of their delegation.
func (d *directoryKey) isLater(ctx context.Context, notBefore time.Time) error {
	rows, err := allKeys(ctx, d.keys.db)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.delegation == "" {
			continue
		}
		before, err := keydir.ReadDelegation(row.delegation, d.root.vkey)
		if err != nil {
			return fmt.Errorf("directory key %s: %w", row.KeyID, err)
		}
		if !notBefore.After(before.NotBefore) {
			return api.Conflict(fmt.Sprintf("the delegation begins at %s, which is not later than the delegation to the directory key %s, at %s",
				canonical.FormatTime(notBefore), row.KeyID, canonical.FormatTime(before.NotBefore)))
		}
	}
	return nil
}

// waiting loads the directory key that waits for the root's delegation: a key file
// without a row. It is nil if there is none.
func (d *directoryKey) waiting(ctx context.Context) (*private, error) {
	ids, err := directoryRole.files(d.keys.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		row, err := Find(ctx, d.keys.db.Read(), id)
		if err != nil {
			return nil, err
		}
		if row == nil {
			key, err := loadKey(d.keys.cfg.Dir, directoryRole, id)
			if err == nil {
				key.waited = true
			}
			return key, err
		}
	}
	return nil, nil
}

// Files beside the key file of a key that waits: its public half in PEM, and the root's
// delegation, which a start looks for.
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
