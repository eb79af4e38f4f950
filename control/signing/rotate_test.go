package signing

import (
	"crypto"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/keyfile"
)

var operator = store.ByOperator()

func TestRotateRefuses(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	first := r.mustPackSigner(t).KeyID
	_, err := r.Rotate(t.Context(), "0123", operator)
	require.Equal(t, api.ResourceNotFound, api.From(err).Code)
	s, err := r.Rotate(t.Context(), first, operator)
	require.NoError(t, err)
	_, err = r.Rotate(t.Context(), first, operator)
	require.Equal(t, api.StateConflict, api.From(err).Code, "a retry does not rotate again")
	require.ErrorContains(t, err, s.Key.KeyID+" is")

	_, err = r.Rotate(t.Context(), r.admit(t, "nod_a", keydir.PurposeReceipt), operator)
	require.ErrorContains(t, err, "node has never joined")
}

// TestRotationThatFails breaks the database in two ways.
func TestRotationThatFails(t *testing.T) {
	stacktest.WithoutPostgres(t) // the trigger is SQLite's
	p := newPlace(t)
	r, _ := p.mustStart(t)
	first := r.mustPackSigner(t).KeyID
	files, events := p.files(t), r.events(t)

	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `CREATE TRIGGER no_keys BEFORE INSERT ON signing_keys BEGIN SELECT RAISE(ABORT, 'not now'); END`)
		return err
	}))
	_, err := r.Rotate(t.Context(), first, operator)
	require.ErrorContains(t, err, "not now")
	p.now = p.now.Add(time.Hour)
	require.Equal(t, first, r.mustPackSigner(t).KeyID, "the old key still signs")
	require.Equal(t, files, p.files(t))
	require.Equal(t, events, r.events(t))
	r.verified(t)

	// It can't be known whether this commit succeeded.
	g := r.directory.ring()
	key, err := makeKey(p.keys(), g.role)
	require.NoError(t, err)
	_, err = r.keys.install(t.Context(), g, key, operator, func(*Key) error { return r.db.Close() })
	require.ErrorContains(t, err, "there is no key for directory_signing of control until the next start")
	_, err = g.pick(p.now.Add(2 * time.Hour))
	require.Error(t, err, "neither key may sign")
}

// TestDelegationThatFails: the key that waits, and the root's delegation to it, can be used once
// the database can be written again.
func TestDelegationThatFails(t *testing.T) {
	stacktest.WithoutPostgres(t) // the trigger is SQLite's
	p := newPlace(t)
	r, _ := p.mustStart(t)
	safe := filepath.Join(t.TempDir(), "safe")
	require.NoError(t, os.Rename(filepath.Join(p.keys(), rootSecretFile), safe))
	old := r.directory.ring().current().signer.KeyID
	s, err := r.Rotate(t.Context(), old, operator)
	require.NoError(t, err)
	p.now = p.now.Add(time.Second)
	request := beside(directoryRole.path(p.keys(), s.Waiting.KeyID), requestSuffix)
	delegation, err := DelegateOffline(safe, request, p.now, p.now.Add(time.Hour))
	require.NoError(t, err)
	files := p.files(t)

	change := func(statement string) {
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement)
			return err
		}))
	}
	change(`CREATE TRIGGER no_keys BEFORE INSERT ON signing_keys BEGIN SELECT RAISE(ABORT, 'not now'); END`)
	_, err = r.Delegate(t.Context(), delegation, operator)
	require.ErrorContains(t, err, "not now")
	require.Equal(t, files, p.files(t))
	require.Equal(t, old, r.directory.ring().current().signer.KeyID)
	change(`DROP TRIGGER no_keys`)
	taken, err := r.Delegate(t.Context(), delegation, operator)
	require.NoError(t, err)
	require.Equal(t, s.Waiting.KeyID, taken.Key.KeyID)
	r.verified(t)
}

// TestPackKeyOutlivesItsRotation: a seal that has begun with a key can end with it.
func TestPackKeyOutlivesItsRotation(t *testing.T) {
	p := newPlace(t)
	p.sealTime = time.Hour
	r, _ := p.mustStart(t)
	old := r.mustPackSigner(t)
	s, err := r.Rotate(t.Context(), old.KeyID, operator)
	require.NoError(t, err)
	next := r.mustPackSigner(t)
	require.Equal(t, s.Key.KeyID, next.KeyID)
	_, err = old.Key.Sign(nil, []byte("pack"), crypto.Hash(0))
	require.NoError(t, err)
	d := r.verified(t)
	_, code := d.Find(old.KeyID, keydir.PurposePack, d.IssuedAt)
	require.Empty(t, code)
	_, code = d.Find(old.KeyID, keydir.PurposePack, s.Key.NotBefore.Add(p.sealTime))
	require.Equal(t, sealer.KeyOutsideWindow, code)

	r.keys.cfg.SealTime = time.Millisecond
	_, err = r.Rotate(t.Context(), next.KeyID, operator)
	require.NoError(t, err)
	waittest.Until(t, func() bool {
		_, err := next.Key.Sign(nil, []byte("pack"), crypto.Hash(0))
		return errors.Is(err, keyfile.ErrDestroyed)
	})
	waittest.Until(t, func() bool {
		_, err := os.Stat(packRole.path(p.keys(), next.KeyID))
		return err != nil
	})
}

// TestStartCleansUp: a start destroys key files that are out of use, replaces a key whose file
// is lost, and leaves unknown files alone.
func TestStartCleansUp(t *testing.T) {
	stacktest.WithoutPostgres(t) // for shared keys see TestStartLeavesKeysInUse
	p := newPlace(t)
	p.sealTime = time.Hour
	r, stop := p.mustStart(t)
	retiring, lost := r.mustPackSigner(t).KeyID, r.mustSigner(t, keydir.PurposeBeacon).KeyID
	s, err := r.Rotate(t.Context(), retiring, operator)
	require.NoError(t, err)
	require.FileExists(t, packRole.path(p.keys(), retiring))
	stop()

	require.NoError(t, os.Remove(role{keydir.PurposeBeacon, control}.path(p.keys(), lost)))
	unknown, err := makeKey(p.keys(), packRole)
	require.NoError(t, err)
	p.now = p.now.Add(time.Minute)
	r, stop = p.mustStart(t)
	require.NoFileExists(t, packRole.path(p.keys(), retiring), "no process signs with it any more")
	require.FileExists(t, unknown.Path)
	require.Equal(t, s.Key.KeyID, r.mustPackSigner(t).KeyID)
	require.NotEqual(t, lost, r.mustSigner(t, keydir.PurposeBeacon).KeyID)
	_, code := r.verified(t).Find(lost, keydir.PurposeBeacon, p.now.Add(-time.Millisecond))
	require.Empty(t, code)
	events := r.events(t)
	require.Equal(t, "key.rotated", events[len(events)-1])
	stop()
}

func TestReplayRestoresKeys(t *testing.T) {
	p := newPlace(t)
	r, stop := p.mustStart(t)
	first := r.admit(t, "nod_a", keydir.PurposeReceipt)
	_, err := r.Rotate(t.Context(), r.directory.ring().current().signer.KeyID, operator)
	require.NoError(t, err)
	_, err = r.Revoke(t.Context(), first, Revocation{Reason: "lost laptop"}, operator)
	require.NoError(t, err)
	stolen, err := r.Signer(t.Context(), keydir.PurposeBeacon)
	require.NoError(t, err)
	next, err := r.Rotate(t.Context(), stolen.KeyID, operator)
	require.NoError(t, err)
	_, err = r.Revoke(t.Context(), stolen.KeyID, Revocation{Reason: "stolen"}, operator)
	require.NoError(t, err)
	published := func(db *store.DB) (all []api.BeaconKey) {
		for _, id := range []string{stolen.KeyID, next.Key.KeyID} {
			k, err := store.Newest(t.Context(), db, api.BeaconKeys, id)
			require.NoError(t, err)
			require.NotNil(t, k, "%s is not in the feed", id)
			k.Revision = 0
			all = append(all, *k)
		}
		return all
	}
	p.now = p.now.Add(time.Second)
	want, beacons := r.verified(t).Keys, published(r.db)
	require.False(t, beacons[0].RevokedAt.IsZero())
	var events []sealer.Event
	rows, err := r.db.Read().Query(`SELECT event FROM outbox ORDER BY epoch, seq`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var text []byte
		require.NoError(t, rows.Scan(&text))
		e, err := sealer.ParseEvent(text)
		require.NoError(t, err)
		events = append(events, e)
	}
	require.NoError(t, rows.Err())
	stop()

	path, url := storetest.Place(t, t.TempDir()) // an empty one
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: p.read})
	require.NoError(t, err)
	for round, wanted := range []bool{true, false} {
		var changed bool
		require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
			for i := range events {
				c, err := Replay(t.Context(), tx, &events[i])
				if err != nil {
					return fmt.Errorf("%s: %w", events[i].Type, err)
				}
				changed = changed || c
			}
			return nil
		}))
		require.Equal(t, wanted, changed, "round %d", round)
		require.Equal(t, beacons, published(db), "nodes still accept beacons, but not those of the stolen key")
	}
	require.NoError(t, db.Close())
	r, _ = p.mustStart(t)
	require.Equal(t, want, r.verified(t).Keys)
}

// TestCommitInDoubt: a key is kept if the server commits it after the connection was lost.
func TestCommitInDoubt(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	key, err := makeKey(p.keys(), packRole)
	require.NoError(t, err)
	var ended <-chan error
	_, err = r.keys.install(t.Context(), r.keys.of(packRole), key, operator, func(row *Key) error {
		written := *row
		ended = r.holdChange(t, func(tx *store.Tx) error { return replaceKey(t.Context(), tx, &written, nil, time.Time{}, operator) })
		return errors.New("the connection is lost")
	})
	require.NoError(t, <-ended)
	require.NoError(t, err)
	require.Equal(t, keydir.KeyID(key.Pub), r.mustPackSigner(t).KeyID)
	require.FileExists(t, key.Path)
}

// TestKeysFollowTheNewestPack: a pack is not older than its newest receipt, whose node's clock
// may be ahead. Revocations and rotations are dated after it.
func TestKeysFollowTheNewestPack(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	receipts, packs := r.admit(t, "nod_a", keydir.PurposeReceipt), r.mustPackSigner(t).KeyID
	p.sealed = p.now.Add(40 * time.Second)
	v, err := r.Revoke(t.Context(), receipts, Revocation{}, operator)
	require.NoError(t, err)
	require.True(t, v.Key.RevokedAt.After(p.sealed), "what it signed is in that pack")
	s, err := r.Rotate(t.Context(), packs, operator)
	require.NoError(t, err)
	require.False(t, s.Key.NotBefore.Before(p.sealed), "packs by the next key are newer")
}
