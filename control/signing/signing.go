// Package signing owns the signing keys of all purposes, and the directory by which strangers
// verify signatures.
//
// Keys. A private key is in a key file of its own, never in the database. Its public half is
// a row, which is written before the key first signs and never deleted, so every signature
// stays verifiable. Its event is in the log by then, too: a database that was restored, or a
// standby that was promoted, gets the row from there. Until the log has it, what asks for a
// signature gets a 503 (LOG_UNAVAILABLE). Each role (packs, directories and what else control signs, and receipts of
// a node) has one current key. At a start control makes those of its keys that are missing; but
// see Config.OwnFolder.
//
// A new purpose takes five lines, and everything below applies to it:
//
//	PurposeBeacon = "beacon_signing"                                 // in sealer/keydir/key.go,
//	{Name: PurposeBeacon},                                           // with the evidence that rests on it: none
//	{purpose: keydir.PurposeBeacon, files: "beacon"},                // in uses
//	signer, err := keys.Signer(ctx, keydir.PurposeBeacon)            // control's current key
//	_, code := directory.Find(signer.KeyID, keydir.PurposeBeacon, at)
//
// Keys for beacons are also in the feed, since nodes verify by them.
//
// The sandbox. Evidence of its tenants is signed by keys of a purpose of their own, so that it
// can't be mistaken for real evidence: control has one such key for packs, and the node that
// issues the sandbox's receipts has one for these, and signs nothing else.
//
// Rotation. Control's keys overlap by Config.SealTime, because a seal uses one key from
// beginning to end; the windows of directory keys meet in one millisecond (ring.go). The file
// of an old key is overwritten and removed once the key is out of use; keyfile.Destroy says
// what may remain.
//
// Revocation takes a key out of use, seals what it signed, destroys it, and only then enters
// the revocation in the directory: a receipt that is in no pack by then could no longer be
// proven.
//
// A node makes its keys itself, in a folder of its own, and enrols them (nodekeys.go). The
// newest key has to sign the request to enrol the next one, unless it is revoked.
// Authenticating nodes, and making them rotate or leave, is the job of control/node.
//
// The directory lists all keys, and is signed by an online directory key to which the root key
// has delegated. If there is no root key, the first start makes one, and warns that root.skey
// should be moved offline; it can also be made elsewhere (GenerateRoot), with only root.vkey in
// the key folder. After that the root key is needed only for another directory key, which waits
// for its delegation without a limit (DelegateOffline, Delegate).
//
// A delegation ends, by default after two years. From 90 days before the end Renew replaces the
// directory key if the root key is in the key folder; otherwise it logs once a day that the
// root has to delegate. The gauge muniment_node_delegation_left_seconds and a note in /readyz
// show the time left. After the end no directory is signed (503, DELEGATION_ENDED), and so no
// pack is sealed, until the root has delegated again. Deliveries continue, and later packs prove
// them. If a directory key is stolen, revoke it: verifiers prefer the directory with the latest
// delegation, which is its successor's, whatever the thief signs. For the same reason a
// delegation that does not begin later than all earlier ones is refused.
//
// The clock. A key signs only for times within its window. If the clock is set back to before
// the current key's window, nothing is signed until the window begins.
package signing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/store"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// control stands for a node's id where control is the signer.
const control = "control"

// Config of the service. DB and Dir are required.
type Config struct {
	DB *store.DB
	// LastSeal returns the latest time of sealing that a proof pack states, zero without a
	// pack: a key's window ends after it. nil: there are no packs.
	LastSeal func(ctx context.Context, q store.Querier) (time.Time, error)
	// Dir is the folder of the key files; it is made if it is missing. Control processes that
	// share a database share it (catchup.go).
	Dir string
	// OwnFolder says that other control processes may have key folders of their own, into which an operator copies the
	// keys: New fails if Dir lacks a current key, instead of replacing it.
	OwnFolder bool
	// SealTime is how long a rotated key of control may still sign, for seals that have begun.
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
		if u.purpose == keydir.PurposeDirectory {
			continue
		}
		if err := s.keys.open(ctx, role{u.purpose, control}); err != nil {
			return err
		}
	}
	return nil
}

// RootVkey is the root key's verifying half as a C2SP vkey: all that an auditor needs to trust.
func (s *Service) RootVkey() string { return s.directory.root.vkey }

// Signer returns control's current key of a purpose: any purpose of control but directories,
// for packs a keydir.PackPurpose. The caller may sign with it for Config.SealTime, even after a
// rotation. If it is revoked meanwhile, signing fails, or Vouches refuses what it signed.
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
	if err := s.keys.awaitLogged(ctx, k); err != nil {
		return nil, fmt.Errorf("cannot sign for %s: %w", purpose, err)
	}
	return k.signer, nil
}

// Vouches says whether a change may still commit what a key signed. It may not once the key is
// about to be revoked.
func (s *Service) Vouches(ctx context.Context, tx *store.Tx, keyID string) (bool, error) {
	var gone bool
	err := tx.QueryRowContext(ctx, `SELECT leaving = 1 OR revoked_at IS NOT NULL FROM signing_keys WHERE key_id = $1`, keyID).Scan(&gone)
	if err != nil {
		return false, fmt.Errorf("cannot read whether the key %s is about to be revoked: %w", keyID, err)
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
		list.Waiting = &Waiting{KeyID: keydir.KeyID(key.Pub), PublicKey: encodePublic(key.Pub)}
	}
	return list, err
}
