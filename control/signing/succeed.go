package signing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
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

// Rotate lets another key take over from one that is current here. What is signed from the
// answer on is signed by the new key. The old key is destroyed: that of directories before
// Rotate returns, others once the seals at work must have ended.
//
// A directory key needs the root's delegation: see Delegate for when it is offline. Keys of
// nodes are node.Service's.
func (s *Service) Rotate(ctx context.Context, keyID string, by sealer.Ref) (Succession, error) {
	row, err := s.Known(ctx, keyID)
	if err != nil {
		return Succession{}, err
	}
	g := s.keys.of(row.role())
	if g == nil {
		return Succession{}, api.Conflict("its node has never joined, or a restored database has forgotten that: it makes no other key")
	}
	done, err := s.keys.administer(ctx, "rotating the key "+keyID)
	if err != nil {
		return Succession{}, fmt.Errorf("cannot rotate the key %s: %w", keyID, err)
	}
	defer done()
	if current := g.current().signer.KeyID; current != keyID {
		return Succession{}, api.Conflict("the key is not current: " + current + " is")
	}
	v, err := s.rotate(ctx, g, by)
	if err != nil {
		return Succession{}, fmt.Errorf("cannot rotate the key %s: %w", keyID, err)
	}
	return v, nil
}

func (s *Service) rotate(ctx context.Context, g *ring, by sealer.Ref) (Succession, error) {
	if g.role == directoryRole {
		return s.directory.rotate(ctx, by)
	}
	return s.keys.rotate(ctx, g, by)
}

// Known returns a key's row, or an error that says there is none.
func (s *Service) Known(ctx context.Context, keyID string) (*Key, error) {
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

	// change is held while the keys in the database and in the rings differ; for the whole
	// of a change to a key see administer.
	change sync.RWMutex

	shared bool // with other processes

	mu    sync.Mutex
	rings map[role]*ring
}

func newKeyring(cfg Config) *keyring {
	return &keyring{cfg: cfg, db: cfg.DB, shared: cfg.DB.Shared(), rings: map[role]*ring{}}
}

// of is the ring that a role has in this process, nil without one.
func (r *keyring) of(role role) *ring {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rings[role]
}

// rotate has a new key take over in a role that needs nobody's consent to it.
func (r *keyring) rotate(ctx context.Context, g *ring, by sealer.Ref) (Succession, error) {
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
func (r *keyring) succeed(ctx context.Context, g *ring, key *private, by sealer.Ref, complete func(*Key) error) (Succession, error) {
	old := g.current()
	row, before, err := r.handOver(context.WithoutCancel(ctx), g, key, by, complete)
	if err != nil {
		return Succession{}, err
	}
	if old != nil {
		r.retire(g, old)
	}
	now := r.db.Now()
	s, did := Succession{Key: row.View(now)}, "a signing key was made"
	if before != nil {
		s.Replaced, did = before.View(now), "a signing key took over"
	}
	r.cfg.Logger.Info(did, "keyId", row.KeyID, "purpose", row.Purpose, "nodeId", row.Node)
	return s, nil
}

// handOver moves the role from one key to the next, in the directory and in the ring.
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
	row = &Key{Key: sealer.NewKey(key.Pub, g.role.purpose, at), Node: g.role.node}
	if complete != nil {
		err = complete(row)
	}
	if err == nil {
		before, err = r.write(ctx, row, at.Add(overlap), by)
	}
	if err == nil {
		g.add(g.hold(key, row))
		return row, before, nil
	}
	// A commit that failed may have been one, and may still become one. Only if it
	// certainly was not can the old key sign on: a change of its own waits for the lost one.
	var written *Key
	readErr := r.db.Change(ctx, func(tx *store.Tx) (err error) {
		written, err = Find(ctx, tx, row.KeyID)
		return err
	})
	switch {
	case readErr != nil:
		err = errors.Join(fmt.Errorf("%s stays without a key until the next start: %w", g.role, err), readErr)
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

// write puts the key into the directory, and ends the one before.
func (r *keyring) write(ctx context.Context, row *Key, end time.Time, by sealer.Ref) (before *Key, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		if before, err = newestKey(ctx, tx, row.role(), tx.Now()); err != nil {
			return err
		}
		return enter(ctx, tx, row, before, end, by)
	})
	return before, err
}

// enter writes the key and the end of the one before, and tells of both by one event.
func enter(ctx context.Context, tx *store.Tx, row, before *Key, end time.Time, by sealer.Ref) (err error) {
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
func (r *keyring) retire(g *ring, k *held) {
	if g.role.overlaps() {
		time.AfterFunc(r.cfg.SealTime, func() { r.destroy(g, k) })
		return
	}
	r.destroy(g, k) // no directory is signed while another key takes over, nor by the old one later
}

func (r *keyring) destroy(g *ring, k *held) {
	g.drop(k)
	if err := k.private.Destroy(); err != nil {
		r.cfg.Logger.Warn("a key file is left; the next start destroys it", "keyId", k.signer.KeyID, "err", err)
	}
}

// read reads the current key of a role; the ring is empty when there is none.
// The role's other keys are out of use, as whoever signed with them is gone with
// the last process: their files are destroyed. Where there are other processes that
// waits until their windows have ended.
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

// load has the process sign with the current key of a role, if there is one.
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

// open is load for a role that needs nobody's consent to a new key: where there is none,
// one is made.
func (r *keyring) open(ctx context.Context, role role) error {
	g, err := r.load(ctx, role)
	if err == nil && g.current() == nil {
		_, err = r.rotate(ctx, g, store.BySystem())
	}
	return err
}
