package node

import (
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/store"
	"muniment/control/store/storetest"
	"muniment/gate"
	"muniment/gateway/api"
	"muniment/sealer"
	"muniment/sealer/keyfile"
)

var operator = store.ByOperator()

// fleet seals deliveries of nod_a from many goroutines, as the gateway does.
type fleet struct {
	t    *testing.T
	room *Room
	stop chan struct{}
	done sync.WaitGroup

	made   atomic.Int64
	mu     sync.Mutex
	events [][]byte
}

func startFleet(t *testing.T, r *Room, clock func() time.Time) *fleet {
	return startFleetFor(t, r, sealer.PurposeReceipt, clock)
}

// startFleetFor has the deliveries signed by keys of a purpose.
func startFleetFor(t *testing.T, r *Room, purpose string, clock func() time.Time) *fleet {
	lend, err := r.ReceiptSigner("nod_a", purpose)
	require.NoError(t, err)
	f := &fleet{t: t, room: r, stop: make(chan struct{})}
	for range 8 {
		f.done.Go(func() {
			for {
				select {
				case <-f.stop:
					return
				default:
				}
				at := clock()
				signer, done, err := lend(t.Context(), at)
				if err != nil && clock().Sub(at) >= straggling { // it stood still: a delivery would ask again
					at = clock()
					signer, done, err = lend(t.Context(), at)
				}
				if err != nil {
					t.Errorf("a delivery at %v has no key: %v", at, err)
					return
				}
				event, err := signer.SealDelivery(nil, &sealer.Delivery{
					TenantID: "tnt_a", Actor: store.ByKey("key_a"), RightID: "rgh_a", RightRevision: 1, BasisID: "bas_a", Substrate: gate.DOOH,
					Metering: gate.Metering{Metered: true, Reason: gate.ReasonMetered, Basis: gate.BasisGross, QuantityMs: 1, AttentionMs: -1},
				}, &sealer.Receipt{
					ReceiptID: api.NewID(api.PrefixReceipt, at), SpatialAnchorID: "a", IssuedAt: at, RenderedAt: at, DwellMs: 1,
					Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16)),
				})
				done()
				if err != nil {
					t.Errorf("a delivery at %v is not signed: %v", at, err)
					return
				}
				f.mu.Lock()
				f.events = append(f.events, event)
				f.mu.Unlock()
				f.made.Add(1)
			}
		})
	}
	return f
}

// await waits for n more deliveries.
func (f *fleet) await(n int64) {
	f.t.Helper()
	target := f.made.Load() + n
	require.Eventually(f.t, func() bool { return f.made.Load() >= target }, time.Minute, time.Millisecond)
}

// end stops the fleet and returns what it sealed.
func (f *fleet) end() (deliveries []sealer.RecordedDelivery) {
	f.t.Helper()
	close(f.stop)
	f.done.Wait()
	require.NotEmpty(f.t, f.events)
	for _, text := range f.events {
		d, err := sealer.ReadDelivery(text)
		require.NoError(f.t, err)
		deliveries = append(deliveries, d)
	}
	return deliveries
}

// validAt lists the receipt keys whose windows hold a moment.
func validAt(d *sealer.Directory, at time.Time) (keyIDs []string) {
	for _, k := range d.Keys {
		if k.Purpose == sealer.PurposeReceipt && !at.Before(k.NotBefore) && (k.NotAfter == nil || at.Before(*k.NotAfter)) {
			keyIDs = append(keyIDs, k.KeyID)
		}
	}
	return keyIDs
}

// TestRotationUnderLoad rotates a node's key ten times, and revokes the current one
// once, while deliveries are sealed. There is exactly one key for each moment, and
// it is the one that signed.
func TestRotationUnderLoad(t *testing.T) {
	p := newPlace(t)
	p.clock = time.Now
	r, _ := p.mustStart(t)
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	f := startFleet(t, r, time.Now)
	const rotations = 4
	for i := range rotations {
		f.await(100)
		current := r.borrow(t, "nod_a", time.Now()).KeyID
		if i == rotations/2 {
			v, err := r.Revoke(t.Context(), current, Revocation{}, operator)
			require.NoError(t, err)
			require.NotNil(t, v.Successor)
		} else {
			s, err := r.Rotate(t.Context(), current, operator)
			require.NoError(t, err)
			require.Equal(t, current, s.Replaced.KeyID)
			require.Equal(t, s.Replaced.NotAfter, s.Key.NotBefore, "no gap, no overlap")
		}
		require.NoFileExists(t, role{sealer.PurposeReceipt, "nod_a"}.path(p.keys(), current), "destroyed when it is answered for")
	}
	f.await(100)
	deliveries := f.end()

	d := r.verified(t)
	used := map[string]int{}
	for _, e := range deliveries {
		at := e.Receipt.IssuedAt
		require.Equal(t, []string{e.KeyID}, validAt(d, at), "at %v", at)
		used[e.KeyID]++
	}
	require.Len(t, used, rotations+1)
	t.Logf("%d deliveries by %d keys", len(deliveries), len(used))

	counts := map[string]int{}
	for _, e := range r.events(t) {
		counts[e]++
	}
	require.Equal(t, map[string]int{"key.enrolled": 6, "node.enrolled": 1, "key.rotated": rotations, "key.revoked": 1}, counts)
}

func TestRotateRefuses(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	first := r.borrow(t, "nod_a", p.now).KeyID
	_, err = r.Rotate(t.Context(), "0123", operator)
	require.Equal(t, api.ResourceNotFound, api.From(err).Code)
	s, err := r.Rotate(t.Context(), first, operator)
	require.NoError(t, err)
	_, err = r.Rotate(t.Context(), first, operator)
	require.Equal(t, api.StateConflict, api.From(err).Code, "a retry does not rotate again")
	require.ErrorContains(t, err, s.Key.KeyID+" is")

	delete(r.rings, role{sealer.PurposeReceipt, "nod_a"})
	_, err = r.Rotate(t.Context(), s.Key.KeyID, operator)
	require.ErrorContains(t, err, "does not sign in this process")
}

// TestRotationThatFails breaks the database in two ways.
func TestRotationThatFails(t *testing.T) {
	t.Setenv("MUNIMENT_TEST_POSTGRES", "") // the trigger is SQLite's
	p := newPlace(t)
	r, _ := p.mustStart(t)
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	first := r.borrow(t, "nod_a", p.now).KeyID
	files, told := p.files(t), r.events(t)

	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `CREATE TRIGGER no_keys BEFORE INSERT ON signing_keys BEGIN SELECT RAISE(ABORT, 'not now'); END`)
		return err
	}))
	_, err = r.Rotate(t.Context(), first, operator)
	require.ErrorContains(t, err, "not now")
	require.Equal(t, first, r.borrow(t, "nod_a", p.now.Add(time.Hour)).KeyID, "the old key signs on")
	require.Equal(t, files, p.files(t))
	require.Equal(t, told, r.events(t))
	r.verified(t)

	// A commit of which nobody knows whether it was one.
	g := r.rings[role{sealer.PurposeReceipt, "nod_a"}]
	key, err := makeKey(p.keys(), g.role)
	require.NoError(t, err)
	_, err = r.succeed(t.Context(), g, key, operator, func(*signingKey) error { return r.db.Close() })
	require.ErrorContains(t, err, "without a key until the next start")
	_, err = g.lend(t.Context(), p.now.Add(2*time.Hour))
	require.Error(t, err, "neither key may sign")
}

// TestDelegationThatFails: the key that waits, and with it the root's answer, can be
// used once the database can be written again.
func TestDelegationThatFails(t *testing.T) {
	t.Setenv("MUNIMENT_TEST_POSTGRES", "") // the trigger is SQLite's
	p := newPlace(t)
	r, _ := p.mustStart(t)
	safe := filepath.Join(t.TempDir(), "safe")
	require.NoError(t, os.Rename(filepath.Join(p.keys(), rootSecretFile), safe))
	old := r.directory.current().signer.KeyID
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
	require.Equal(t, old, r.directory.current().signer.KeyID)
	change(`DROP TRIGGER no_keys`)
	taken, err := r.Delegate(t.Context(), delegation, operator)
	require.NoError(t, err)
	require.Equal(t, s.Waiting.KeyID, taken.Key.KeyID)
	r.verified(t)
}

// TestPackKeyOutlivesItsRotation: a seal that is at work ends with the key that it
// began with.
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
	_, code := d.Find(old.KeyID, sealer.PurposePack, d.IssuedAt)
	require.Empty(t, code)
	_, code = d.Find(old.KeyID, sealer.PurposePack, s.Key.NotBefore.Add(p.sealTime))
	require.Equal(t, sealer.KeyOutsideWindow, code)

	r.cfg.SealTime = time.Millisecond
	_, err = r.Rotate(t.Context(), next.KeyID, operator)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := next.Key.Sign(nil, []byte("pack"), crypto.Hash(0))
		return errors.Is(err, keyfile.ErrDestroyed)
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := os.Stat(packRole.path(p.keys(), next.KeyID))
		return err != nil
	}, time.Minute, time.Millisecond)
}

// TestStartCleansUp: what is out of use is destroyed, what is lost is replaced, what
// is unknown is left alone.
func TestStartCleansUp(t *testing.T) {
	t.Setenv("MUNIMENT_TEST_POSTGRES", "") // where processes share the keys: TestStartLeavesKeysInUse
	p := newPlace(t)
	p.sealTime = time.Hour
	r, stop := p.mustStart(t)
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	retiring, lost := r.mustPackSigner(t).KeyID, r.borrow(t, "nod_a", p.now).KeyID
	s, err := r.Rotate(t.Context(), retiring, operator)
	require.NoError(t, err)
	require.FileExists(t, packRole.path(p.keys(), retiring))
	stop()

	require.NoError(t, os.Remove(role{sealer.PurposeReceipt, "nod_a"}.path(p.keys(), lost)))
	unknown, err := makeKey(p.keys(), packRole)
	require.NoError(t, err)
	p.now = p.now.Add(time.Minute)
	r, stop = p.mustStart(t)
	_, err = r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	require.NoFileExists(t, packRole.path(p.keys(), retiring), "nobody signs with it any more")
	require.FileExists(t, unknown.Path)
	require.Equal(t, s.Key.KeyID, r.mustPackSigner(t).KeyID)
	next := r.borrow(t, "nod_a", p.now).KeyID
	require.NotEqual(t, lost, next)
	d := r.verified(t)
	_, code := d.Find(lost, sealer.PurposeReceipt, p.now.Add(-time.Millisecond))
	require.Empty(t, code)
	require.Equal(t, []string{next}, validAt(d, p.now))
	told := r.events(t)
	require.Equal(t, "key.rotated", told[len(told)-1])
	stop()

	p.now = p.now.Add(-2 * time.Minute)
	r, _ = p.mustStart(t)
	_, err = r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	lend, err := r.ReceiptSigner("nod_a", sealer.PurposeReceipt)
	require.NoError(t, err)
	_, _, err = lend(t.Context(), p.now)
	require.Error(t, err, "the clock stands before the key's window")
}

func TestReplayRestoresKeys(t *testing.T) {
	p := newPlace(t)
	r, stop := p.mustStart(t)
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	first := r.borrow(t, "nod_a", p.now).KeyID
	_, err = r.Rotate(t.Context(), first, operator)
	require.NoError(t, err)
	_, err = r.Rotate(t.Context(), r.directory.current().signer.KeyID, operator)
	require.NoError(t, err)
	_, err = r.Revoke(t.Context(), first, Revocation{Reason: "lost laptop"}, operator)
	require.NoError(t, err)
	p.now = p.now.Add(time.Second)
	want := r.verified(t).Keys
	var told []sealer.Event
	rows, err := r.db.Read().Query(`SELECT event FROM outbox ORDER BY epoch, seq`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var text []byte
		require.NoError(t, rows.Scan(&text))
		e, err := sealer.ParseEvent(text)
		require.NoError(t, err)
		told = append(told, e)
	}
	require.NoError(t, rows.Err())
	stop()

	path, url := storetest.Place(t, t.TempDir()) // an empty one
	db, err := store.Open(t.Context(), store.Config{Path: path, URL: url, Now: p.read})
	require.NoError(t, err)
	for round, wanted := range []bool{true, false} {
		var changed bool
		require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
			for i := range told {
				c, err := Replay(t.Context(), tx, &told[i])
				if err != nil {
					return fmt.Errorf("%s: %w", told[i].Type, err)
				}
				changed = changed || c
			}
			return nil
		}))
		require.Equal(t, wanted, changed, "round %d", round)
	}
	require.NoError(t, db.Close())
	r, _ = p.mustStart(t)
	require.Equal(t, want, r.verified(t).Keys)
}

// TestCommitInDoubt: the connection was lost, and the server commits the key all the
// same, a moment later. It is not destroyed.
func TestCommitInDoubt(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	key, err := makeKey(p.keys(), packRole)
	require.NoError(t, err)
	var ended <-chan error
	_, err = r.succeed(t.Context(), r.ringOf(packRole), key, operator, func(row *signingKey) error {
		written := *row
		ended = r.holdChange(t, func(tx *store.Tx) error { return enter(t.Context(), tx, &written, nil, time.Time{}, operator) })
		return errors.New("the connection is lost")
	})
	require.NoError(t, <-ended)
	require.NoError(t, err)
	require.Equal(t, sealer.KeyID(key.Pub), r.mustPackSigner(t).KeyID)
	require.FileExists(t, key.Path)
}

// TestKeysFollowTheNewestPack: a pack is as young as its youngest receipt, by a node's
// clock that may be ahead. What is in it must not seem to be sealed too late.
func TestKeysFollowTheNewestPack(t *testing.T) {
	p := newPlace(t)
	r, _ := p.mustStart(t)
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	receipts, packs := r.borrow(t, "nod_a", p.now).KeyID, r.mustPackSigner(t).KeyID
	p.sealed = p.now.Add(40 * time.Second)
	v, err := r.Revoke(t.Context(), receipts, Revocation{}, operator)
	require.NoError(t, err)
	require.True(t, v.Key.RevokedAt.After(p.sealed), "what it signed is in that pack")
	s, err := r.Rotate(t.Context(), packs, operator)
	require.NoError(t, err)
	require.False(t, s.Key.NotBefore.Before(p.sealed), "packs by the next key are younger")
}
