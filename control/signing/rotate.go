package signing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/keyfile"
)

// Succession is the result of a rotation.
type Succession struct {
	// Key is the new key; null while it waits for the root, or while a node in a process of
	// its own still has to make it.
	Key *SigningKey `json:"key"`
	// Replaced is the old key; null if the new one is the first of its role.
	Replaced *SigningKey `json:"replaced"`
	// Waiting is set if the new directory key waits for the root's delegation.
	Waiting *Waiting `json:"waiting,omitempty"`
}

// Waiting is a directory key that the root has not delegated to yet.
type Waiting struct {
	KeyID     string `json:"keyId"`
	PublicKey string `json:"publicKey" doc:"In PEM, for muniment root delegate."`
}

// Rotate replaces a current key of control by a new one. Once Rotate has returned, everything
// is signed by the new key. The old key is destroyed: a directory key before Rotate returns, any
// other after Config.SealTime.
//
// The new key signs nothing before the log has it. If the log is known not to take events, Rotate
// fails and changes nothing. If it stops only then, Rotate fails with store.ErrUnconfirmed, and
// what asks for the new key's signature fails until the log has it.
//
// A new directory key needs the root's delegation; if the root key is offline the key waits for
// Delegate. node.Service rotates the keys of nodes.
func (s *Service) Rotate(ctx context.Context, keyID string, by sealer.Ref) (Succession, error) {
	row, err := s.FindKey(ctx, keyID)
	if err != nil {
		return Succession{}, err
	}
	g := s.keys.of(row.role())
	if g == nil {
		return Succession{}, api.Conflict("the key's node has never joined, or joined after the backup that was restored: it makes no other key")
	}
	v, err := s.replacing(ctx, "rotating the key "+keyID, func() (Succession, error) {
		if current := g.current().signer.KeyID; current != keyID {
			return Succession{}, api.Conflict("the key is not current: " + current + " is")
		}
		return s.rotate(ctx, g, by)
	})
	if err != nil {
		return Succession{}, fmt.Errorf("cannot rotate the key %s: %w", keyID, err)
	}
	return v, nil
}

// replacing calls fn while this process alone changes keys. The log has all earlier changes before
// that, and what fn changed when replacing returns nil.
func (s *Service) replacing(ctx context.Context, what string, fn func() (Succession, error)) (v Succession, err error) {
	if err := s.db.Confirm(ctx); err != nil {
		return Succession{}, fmt.Errorf("%w: %w", errNoLog, err)
	}
	done, err := s.keys.lockKeys(ctx, what)
	if err != nil {
		return Succession{}, err
	}
	v, err = fn()
	done() // others change keys while this waits for the log
	if err == nil {
		err = s.db.Confirm(ctx)
	}
	return v, err
}

// errNoLog refuses to replace a key.
var errNoLog = api.Unavailable(api.LogUnavailable, "the event log lacks earlier changes, and a new key can't sign before the log has it: nothing was changed", time.Second)

func (s *Service) rotate(ctx context.Context, g *ring, by sealer.Ref) (Succession, error) {
	if g.role == directoryRole {
		return s.directory.rotate(ctx, by)
	}
	return s.keys.rotate(ctx, g, by)
}

// FindKey returns a key's row, or RESOURCE_NOT_FOUND.
func (s *Service) FindKey(ctx context.Context, keyID string) (*Key, error) {
	row, err := Find(ctx, s.db.Read(), keyID)
	if err == nil && row == nil {
		err = errUnknownKey
	}
	return row, err
}

var errUnknownKey = &api.Error{Code: api.ResourceNotFound, Message: "no such signing key"}

// keyring has the keys that control signs with, a ring for each role.
type keyring struct {
	cfg Config
	db  *store.DB

	// change is held while the keys in the database and in the rings differ. lockKeys is held
	// for the whole of a change.
	change sync.RWMutex

	shared bool // with other processes

	mu    sync.Mutex
	rings map[role]*ring
}

func newKeyring(cfg Config) *keyring {
	return &keyring{cfg: cfg, db: cfg.DB, shared: cfg.DB.Shared(), rings: map[role]*ring{}}
}

// of returns the ring of a role, nil if control does not sign in that role.
func (r *keyring) of(role role) *ring {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rings[role]
}

// rotate replaces the current key of a role that needs no delegation.
func (r *keyring) rotate(ctx context.Context, g *ring, by sealer.Ref) (Succession, error) {
	key, err := makeKey(r.cfg.Dir, g.role)
	if err != nil {
		return Succession{}, err
	}
	return r.install(ctx, g, key, by, nil)
}

// install makes a key the current one of its role, and destroys its predecessor once that is
// out of use. complete fills in the row's other fields, once its NotBefore is known. After an
// error the predecessor is still current, and the key and its file are destroyed; a key that
// waited for the root still waits.
func (r *keyring) install(ctx context.Context, g *ring, key *private, by sealer.Ref, complete func(*Key) error) (Succession, error) {
	old := g.current()
	row, before, err := r.handOver(context.WithoutCancel(ctx), g, key, by, complete)
	if err != nil {
		return Succession{}, err
	}
	if old != nil {
		r.retire(g, old)
	}
	now := r.db.Now()
	s, message := Succession{Key: row.View(now)}, "a signing key was made"
	if before != nil {
		s.Replaced, message = before.View(now), "a signing key was rotated"
	}
	r.cfg.Logger.Info(message, "keyId", row.KeyID, "purpose", row.Purpose, "nodeId", row.Node)
	return s, nil
}

// handOver makes key current, in the directory and in the ring.
func (r *keyring) handOver(ctx context.Context, g *ring, key *private, by sealer.Ref, complete func(*Key) error) (row, before *Key, err error) {
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
	row = &Key{Key: keydir.NewKey(key.Pub, g.role.purpose, at), Node: g.role.node}
	if complete != nil {
		err = complete(row)
	}
	if err == nil {
		before, err = r.write(ctx, row, at.Add(overlap), by)
	}
	if err == nil {
		g.add(g.hold(key, row))
		return row, before, nil // what signs waits for the log (awaitLogged)
	}
	// The commit may have succeeded in spite of the error, or may still. The old key may only
	// continue to sign if the commit has certainly failed. This change waits for the lost one.
	var written *Key
	readErr := r.db.Change(ctx, func(tx *store.Tx) (err error) {
		written, err = Find(ctx, tx, row.KeyID)
		return err
	})
	switch {
	case readErr != nil:
		err = errors.Join(fmt.Errorf("there is no key for %s until the next start: %w", g.role, err), readErr)
	case written != nil:
		g.add(g.hold(key, row))
		return row, before, nil
	default:
		g.undo()
		if !key.waited {
			err = errors.Join(err, key.Destroy())
		}
	}
	return nil, nil, err
}

// awaitLogged returns once the log has a key's event. Until then the key must not sign.
func (r *keyring) awaitLogged(ctx context.Context, k *held) error {
	if k.logged.Load() {
		return nil
	}
	if err := r.db.Confirm(ctx); err != nil {
		return fmt.Errorf("%w: %w", errUnlogged, err)
	}
	k.logged.Store(true)
	return nil
}

var errUnlogged = api.Unavailable(api.LogUnavailable, "the event log does not have the signing key yet, so nothing is signed with it", time.Second)

// write puts the key into the directory, and ends its predecessor.
func (r *keyring) write(ctx context.Context, row *Key, end time.Time, by sealer.Ref) (before *Key, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		if before, err = newestKey(ctx, tx, row.role(), tx.Now()); err != nil {
			return err
		}
		return replaceKey(ctx, tx, row, before, end, by)
	})
	return before, err
}

// replaceKey writes the key and the end of its predecessor, with one event for both.
func replaceKey(ctx context.Context, tx *store.Tx, row, before *Key, end time.Time, by sealer.Ref) (err error) {
	if row.revision, err = tx.Revision(ctx); err != nil {
		return err
	}
	if err := insertKey(ctx, tx, row); err != nil {
		return err
	}
	if before == nil {
		return emit(ctx, tx, eventEnrolled, row, by, row.describe())
	}
	before.endAt(end)
	before.revision = row.revision
	if err := updateKey(ctx, tx, before); err != nil {
		return err
	}
	data := before.describe()
	data["successor"] = row.describe()
	return emit(ctx, tx, eventRotated, before, by, data)
}

// retire destroys a replaced key once it is out of use. If this fails, the next start
// destroys it.
func (r *keyring) retire(g *ring, k *held) {
	if g.role.overlaps() {
		time.AfterFunc(r.cfg.SealTime, func() { r.destroy(g, k) })
		return
	}
	r.destroy(g, k) // directories are not signed during the change, nor by the old key after it
}

func (r *keyring) destroy(g *ring, k *held) {
	g.drop(k)
	if err := k.private.Destroy(); err != nil {
		r.cfg.Logger.Warn("cannot destroy a key file: the next start tries again", "keyId", k.signer.KeyID, "err", err)
	}
}

// read reads the current key of a role; the ring is empty if there is none. It destroys the
// files of the role's other keys, which only an earlier process could have used. If other
// processes share the keys it leaves those whose windows are open.
func (r *keyring) read(ctx context.Context, role role) (*ring, error) {
	g := &ring{role: role, now: r.db.Now}
	current, err := newestKey(ctx, r.db.Read(), role, r.db.Now())
	if err != nil {
		return nil, err
	}
	ids, err := role.files(r.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		row, err := Find(ctx, r.db.Read(), id)
		if err != nil {
			return nil, err
		}
		switch {
		case current != nil && id == current.KeyID:
		case row != nil && r.shared && row.RevokedAt == nil && row.NotAfter != nil && row.NotAfter.After(r.db.Now()):
		case row != nil:
			if err := keyfile.Destroy(role.path(r.cfg.Dir, id)); err != nil {
				return nil, err
			}
		case role != directoryRole: // there it waits for the root
			r.cfg.Logger.Warn("the database has no key for a key file: remove the file, unless the database is an older copy",
				"file", role.path(r.cfg.Dir, id))
		}
	}
	if current == nil {
		return g, nil
	}
	key, err := loadKey(r.cfg.Dir, role, current.KeyID)
	if errors.Is(err, fs.ErrNotExist) && r.cfg.OwnFolder {
		return nil, fmt.Errorf("the folder %s lacks the current key %s for %s: copy the folder of a control process that has it; a new key here would stop the others from signing",
			r.cfg.Dir, current.KeyID, role)
	}
	if errors.Is(err, fs.ErrNotExist) {
		r.cfg.Logger.Warn("the file of the current key is missing: it is replaced by a new key", "keyId", current.KeyID, "purpose", role.purpose, "nodeId", role.node)
		g.latest = current.NotBefore // the new key is the newest, even if the clock was set back
		return g, nil
	}
	if err != nil {
		return nil, err
	}
	g.keys = []*held{g.hold(key, current)}
	if now := r.db.Now(); now.Before(current.NotBefore) {
		r.cfg.Logger.Warn("the clock is behind the beginning of the key's window: nothing is signed until then",
			"keyId", current.KeyID, "notBefore", canonical.FormatTime(current.NotBefore))
	}
	return g, nil
}

// load makes the current key of a role, if there is one, the one that this process signs with.
func (r *keyring) load(ctx context.Context, role role) (*ring, error) {
	g, err := r.read(ctx, role)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings[role] = g
	return g, nil
}

// open is load for a role that needs no delegation; it makes a key if there is none.
func (r *keyring) open(ctx context.Context, role role) error {
	g, err := r.load(ctx, role)
	if err == nil && g.current() == nil {
		_, err = r.rotate(ctx, g, store.BySystem())
	}
	return err
}
