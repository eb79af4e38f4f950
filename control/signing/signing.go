// Package signing has the keys that anything is signed with, of every purpose, and the
// directory that strangers verify by.
//
// Keys. A private key lives in a key file of its own, never in the database. Its
// public half is a row, written before the key first signs and never deleted, so
// whatever was signed can be verified for good. Each role (packs, directories and what
// else control signs, receipts of a node) has one current key; a start of control makes those
// of its own that it lacks.
//
// A purpose of keys is added in five lines, and has its place in all that is said below:
//
//	PurposeBeacon = "beacon_signing"                                 // in sealer/purpose.go,
//	{Name: PurposeBeacon},                                           // with what evidence rests on it: none
//	{purpose: sealer.PurposeBeacon, files: "beacon"},                // in uses: what control has keys for
//	signer, err := keys.Signer(ctx, sealer.PurposeBeacon)            // control's current one
//	_, code := directory.Find(signer.KeyID, sealer.PurposeBeacon, at)
//
// Those of beacons are in the feed as well: it is nodes that verify by them.
//
// The sandbox. Its tenants prove themselves by keys of their own purpose, so that nobody
// takes a play for the real thing: control has one for their packs, and the node that
// issues their receipts has one for those, and signs nothing else.
//
// Rotation. The keys of control overlap by Config.SealTime, as a seal keeps its key to the
// end; the windows of directory keys meet in one millisecond (ring.go).
// An old key's file is overwritten and removed once it is out of use; what that
// can't reach is said at keyfile.Destroy.
//
// Revocation takes a key out of use, has sealed what it signed, destroys it, and
// only then says so in the directory: a receipt that no pack holds by then could not
// be proven any more.
//
// A node makes its keys itself, in a folder of its own, and enrols them (nodekeys.go).
// That another key is its own the newest one has to say, unless it is revoked. Who may
// ask as a node, and what a node is asked for, is control/node's.
//
// The directory lists all keys and is signed by an online directory key, to which
// the root key has delegated. A root key is made at the first start if there is
// none, with a warning that root.skey should be taken away; it may as well be made
// elsewhere (GenerateRoot), and only root.vkey put into the key folder. From then on
// it is needed for another directory key only, which waits for its delegation as
// long as it takes (DelegateOffline, Delegate).
//
// A delegation has an end, by default after two years. From 90 days before, another key
// takes over if the root is here (Renew); else the log asks for its delegation once a day, and the gauge muniment_node_delegation_left_seconds
// and a note in /readyz tell the time left. After the end no directory is signed
// (503, DELEGATION_ENDED), so no pack is sealed, until
// the root has delegated anew; deliveries go on, and later packs prove them. If a
// directory key was stolen, revoke it: its successor's delegation is later, which is
// what verifiers go by, whatever the thief signs. For the same reason a delegation that
// is not later than all before it is not taken.
//
// The clock. A signature needs a key whose window holds its moment. When the clock is
// set back to before the current key's window nothing is signed until it has come.
package signing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/store"
	"muniment/sealer"
)

// control is who signs what no node does.
const control = "control"

// Config of the service. DB and Dir are required.
type Config struct {
	DB *store.DB
	// LastSeal is the latest moment that a proof pack states as that of its sealing, zero
	// without a pack: a key ends after it. nil: there are no packs.
	LastSeal func(ctx context.Context, q store.Querier) (time.Time, error)
	// Dir is the folder of the key files; it is made when it is missing. Control
	// processes that share a database share it (catchup.go).
	Dir string
	// SealTime is how long a rotated key of control may still sign, as for seals at work.
	// Default 10 min.
	SealTime time.Duration
	// Logger; default slog.Default.
	Logger *slog.Logger
	// Registerer takes the metrics; default none.
	Registerer prometheus.Registerer
}

// Service is safe for concurrent use.
type Service struct {
	cfg       Config
	db        *store.DB
	keys      *keyring
	directory *directoryKey
}

// New makes or loads control's keys and puts them into the directory.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Dir == "" {
		return nil, errors.New("cannot open the key directory: DB or Dir is missing")
	}
	if cfg.SealTime == 0 {
		cfg.SealTime = 10 * time.Minute
	}
	if cfg.LastSeal == nil {
		cfg.LastSeal = func(context.Context, store.Querier) (time.Time, error) { return time.Time{}, nil }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Service{cfg: cfg, db: cfg.DB, keys: newKeyring(cfg)}
	s.directory = &directoryKey{keys: s.keys}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("cannot open the key directory: %w", err)
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(s.directory.gauge()); err != nil {
			return nil, fmt.Errorf("cannot open the key directory: %w", err)
		}
	}
	return s, nil
}

func (s *Service) open(ctx context.Context) error {
	release, err := s.db.LockKeys(ctx, "opening the keys")
	if err != nil {
		return err
	}
	defer release()
	known, err := allKeys(ctx, s.db)
	if err != nil {
		return err
	}
	if s.directory.root, err = openRoot(&s.cfg, len(known) > 0); err != nil {
		return err
	}
	if err := s.directory.open(ctx); err != nil {
		return err
	}
	for _, u := range uses {
		if u.purpose == sealer.PurposeDirectory {
			continue
		}
		if err := s.keys.open(ctx, role{u.purpose, control}); err != nil {
			return err
		}
	}
	return nil
}

// RootVkey is the root key's verifying half as C2SP vkey: the one thing that an
// auditor has to be given.
func (s *Service) RootVkey() string { return s.directory.root.vkey }

// Signer is control's current key of a purpose, for what it signs and no node does but
// directories: packs, by a sealer.PackPurpose, and what else the table has. It may sign for
// Config.SealTime, whatever happens to it, unless it is revoked: then it fails, or what
// it signed is not taken (Vouches).
func (s *Service) Signer(ctx context.Context, purpose string) (*sealer.Signer, error) {
	g := s.keys.of(role{purpose, control})
	if g == nil || !g.role.overlaps() {
		return nil, fmt.Errorf("cannot sign: control has no keys for %s", purpose)
	}
	if err := s.keys.catchUp(ctx, g); err != nil {
		return nil, fmt.Errorf("cannot sign for %s: %w", purpose, err)
	}
	k := g.current()
	if k == nil {
		return nil, fmt.Errorf("cannot sign: there is no key for %s", g.role)
	}
	return k.signer, nil
}

// Vouches says whether what a key signed may still be committed by a change: not once
// the key is about to be revoked.
func (s *Service) Vouches(ctx context.Context, tx *store.Tx, keyID string) (bool, error) {
	var gone bool
	err := tx.QueryRowContext(ctx, `SELECT leaving = 1 OR revoked_at IS NOT NULL FROM signing_keys WHERE key_id = $1`, keyID).Scan(&gone)
	if err != nil {
		return false, fmt.Errorf("cannot tell whether the key %s leaves: %w", keyID, err)
	}
	return !gone, nil
}

// SigningKeys lists every key that ever signed.
func (s *Service) SigningKeys(ctx context.Context) (SigningKeys, error) {
	rows, err := allKeys(ctx, s.db)
	if err != nil {
		return SigningKeys{}, err
	}
	list := SigningKeys{Root: s.RootVkey(), Keys: []SigningKey{}}
	now := s.db.Now()
	for _, row := range rows {
		list.Keys = append(list.Keys, *row.View(now))
	}
	key, err := s.directory.waiting(ctx)
	if err == nil && key != nil {
		list.Waiting = &Waiting{KeyID: sealer.KeyID(key.Pub), PublicKey: encodePublic(key.Pub)}
	}
	return list, err
}
