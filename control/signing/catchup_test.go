package signing

import (
	"context"
	"crypto"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/keyfile"
)

// two opens the keys in two processes. On SQLite, which allows only one, they share its
// handle.
func (p *place) two(t *testing.T) (a, b *Service) {
	t.Helper()
	a, _ = p.mustStart(t)
	if a.db.Shared() {
		b, _ = p.mustStart(t)
		return a, b
	}
	b, err := New(t.Context(), a.cfg)
	require.NoError(t, err)
	for _, s := range []*Service{a, b} {
		s.keys.shared = true
	}
	return a, b
}

func (r *Service) mustPackSigner(t *testing.T) *sealer.Signer {
	t.Helper()
	return r.mustSigner(t, keydir.PurposePack)
}

func (r *Service) mustSigner(t *testing.T, purpose string) *sealer.Signer {
	t.Helper()
	s, err := r.Signer(t.Context(), purpose)
	require.NoError(t, err)
	return s
}

// forPacks runs a test for the keys of either purpose that packs are signed for.
func forPacks(t *testing.T, test func(t *testing.T, purpose string)) {
	for _, purpose := range []string{keydir.PurposePack, keydir.PurposeSandbox} {
		t.Run(purpose, func(t *testing.T) { test(t, purpose) })
	}
}

// signs requires that the process signs with the key, and that the directories of all have it.
func (r *Service) signs(t *testing.T, purpose, as string, all ...*Service) {
	t.Helper()
	s := r.mustSigner(t, purpose)
	require.Equal(t, as, s.KeyID)
	_, err := s.Key.Sign(nil, []byte("x"), crypto.Hash(0))
	require.NoError(t, err)
	for _, other := range all {
		public, _ := other.verified(t).Find(s.KeyID, purpose, r.db.Now())
		require.Equal(t, s.Key.Public(), public)
	}
}

// TestProcessesShareTheirKeys rotates and revokes keys at one process, and signs at
// the other.
func TestProcessesShareTheirKeys(t *testing.T) {
	forPacks(t, func(t *testing.T, purpose string) {
		p := newPlace(t)
		p.sealTime = time.Hour
		a, b := p.two(t)
		first := a.mustSigner(t, purpose).KeyID
		b.signs(t, purpose, first, a, b)

		s, err := a.Rotate(t.Context(), first, store.ByOperator())
		require.NoError(t, err)
		p.now = p.now.Add(time.Minute)
		b.signs(t, purpose, s.Key.KeyID, a, b)
		_, err = b.Rotate(t.Context(), first, store.ByOperator())
		require.ErrorContains(t, err, "is not current")
		third, err := b.Rotate(t.Context(), s.Key.KeyID, store.ByOperator())
		require.NoError(t, err)
		p.now = p.now.Add(time.Minute)
		a.signs(t, purpose, third.Key.KeyID, a, b)

		directory := a.directory.ring().current().signer.KeyID
		rotated, err := b.Rotate(t.Context(), directory, store.ByOperator())
		require.NoError(t, err)
		p.now = p.now.Add(time.Minute)
		a.verified(t)
		require.Equal(t, rotated.Key.KeyID, a.directory.ring().current().signer.KeyID)
	})
}

// TestRevokedAtAnotherProcess: a seal that has begun with the key can't be committed.
func TestRevokedAtAnotherProcess(t *testing.T) {
	forPacks(t, func(t *testing.T, purpose string) {
		p := newPlace(t)
		a, b := p.two(t)
		atWork := b.mustSigner(t, purpose)
		vouches := func() (ok bool) {
			require.NoError(t, b.db.Change(t.Context(), func(tx *store.Tx) (err error) {
				ok, err = b.Vouches(t.Context(), tx, atWork.KeyID)
				return err
			}))
			return ok
		}
		require.True(t, vouches())
		sealed := false
		v, err := a.Revoke(t.Context(), atWork.KeyID, Revocation{Seal: func(context.Context, string, string) ([]Unsealed, error) {
			sealed = true
			require.False(t, vouches(), "before the last packs over it are sealed")
			return nil, nil
		}}, store.ByOperator())
		require.NoError(t, err)
		require.True(t, sealed)
		p.now = p.now.Add(time.Minute)
		b.signs(t, purpose, v.Successor.KeyID, a, b)
		require.False(t, vouches())
		_, err = atWork.Key.Sign(nil, []byte("x"), crypto.Hash(0))
		require.ErrorIs(t, err, keyfile.ErrDestroyed)
	})
}

// TestProcessesStartTogether on an empty folder: together they make one key of each role.
func TestProcessesStartTogether(t *testing.T) {
	stacktest.Postgres(t)
	p := newPlace(t)
	var starting sync.WaitGroup
	var services [4]*Service
	for i := range services {
		_, url := storetest.Place(t, p.dir)
		starting.Go(func() {
			db, err := store.Open(t.Context(), store.Config{URL: url, Now: p.read})
			if err == nil {
				t.Cleanup(func() { db.Close() })
				services[i], err = New(t.Context(), Config{DB: db, Dir: p.keys()})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	for _, r := range services {
		require.NotNil(t, r)
		require.Equal(t, services[0].RootVkey(), r.RootVkey())
		r.signs(t, keydir.PurposePack, services[0].mustPackSigner(t).KeyID, services[:]...)
	}
	list, err := services[0].SigningKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, list.Keys, 5)
}

// TestOtherFolder: a process whose folder is not the shared one neither signs nor rotates.
func TestOtherFolder(t *testing.T) {
	p := newPlace(t)
	a, b := p.two(t)
	b.keys.cfg.Dir = filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.Mkdir(b.keys.cfg.Dir, 0o700))
	first := a.mustPackSigner(t).KeyID
	b.signs(t, keydir.PurposePack, first, a, b)
	s, err := a.Rotate(t.Context(), first, store.ByOperator())
	require.NoError(t, err)
	_, err = b.Signer(t.Context(), keydir.PurposePack)
	require.ErrorContains(t, err, "is not in the folder that control processes share")
	_, err = b.Rotate(t.Context(), s.Key.KeyID, store.ByOperator())
	require.ErrorContains(t, err, "is not in the folder")
	p.now = p.now.Add(time.Minute)
	a.signs(t, keydir.PurposePack, s.Key.KeyID, a)

	_, err = New(t.Context(), Config{DB: a.db, Dir: filepath.Join(t.TempDir(), "another")})
	require.ErrorContains(t, err, "it is not the key folder of this database")
}

// TestStartLeavesKeysInUse: a start removes a key file only once no other process needs it.
func TestStartLeavesKeysInUse(t *testing.T) {
	p := newPlace(t)
	p.sealTime = time.Hour
	a, _ := p.two(t)
	first := a.mustPackSigner(t).KeyID
	_, err := a.Rotate(t.Context(), first, store.ByOperator())
	require.NoError(t, err)
	open := func() []string {
		_, err := a.keys.read(t.Context(), packRole)
		require.NoError(t, err)
		ids, err := packRole.files(p.keys())
		require.NoError(t, err)
		return ids
	}
	require.True(t, slices.Contains(open(), first))
	p.now = p.now.Add(2 * time.Hour)
	require.False(t, slices.Contains(open(), first))
}

// TestFolderOfItsOwn: a process whose folder lacks a key that another one signs with does not replace it, and starts once
// it was copied.
func TestFolderOfItsOwn(t *testing.T) {
	p := newPlace(t)
	a, _ := p.two(t)
	own := filepath.Join(t.TempDir(), "keys")
	copyKeys := func() {
		require.NoError(t, os.RemoveAll(own))
		require.NoError(t, os.Mkdir(own, 0o700))
		files, err := os.ReadDir(p.keys())
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(p.keys(), f.Name()))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(own, f.Name()), text, 0o600))
		}
	}
	copyKeys()
	_, err := a.Rotate(t.Context(), a.mustPackSigner(t).KeyID, store.ByOperator())
	require.NoError(t, err)
	current := a.mustPackSigner(t).KeyID
	cfg := Config{DB: a.db, Dir: own, OwnFolder: true}
	_, err = New(t.Context(), cfg)
	require.ErrorContains(t, err, "lacks the current key "+current)
	require.ErrorContains(t, err, "copy the folder of a control process that has it")
	require.Equal(t, current, a.mustPackSigner(t).KeyID)

	copyKeys()
	other, err := New(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, current, other.mustPackSigner(t).KeyID)

	require.NoError(t, os.Remove(packRole.path(own, current)))
	cfg.OwnFolder = false
	other, err = New(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEqual(t, current, other.mustPackSigner(t).KeyID)
}

// TestOthersChangeKeysMeanwhile: others may change keys while a revocation seals, and a call
// that waits for another's change ends with its context.
func TestOthersChangeKeysMeanwhile(t *testing.T) {
	p := newPlace(t)
	p.sealTime = time.Hour
	a, b := p.two(t)
	first := a.mustPackSigner(t).KeyID
	v, err := a.Revoke(t.Context(), first, Revocation{Seal: func(context.Context, string, string) ([]Unsealed, error) {
		for _, r := range []*Service{a, b} {
			p.now = p.now.Add(time.Minute)
			_, err := r.Rotate(t.Context(), r.mustPackSigner(t).KeyID, store.ByOperator())
			require.NoError(t, err)
			_, err = r.Revoke(t.Context(), first, Revocation{}, store.ByOperator())
			require.NoError(t, err)
		}
		return nil, nil
	}}, store.ByOperator())
	require.NoError(t, err)
	require.Equal(t, "REVOKED", v.Key.State)
	revoked := 0
	for _, e := range a.events(t) {
		if e == "key.revoked" {
			revoked++
		}
	}
	require.Equal(t, 1, revoked)

	done, err := a.keys.lockKeys(t.Context(), "hanging")
	require.NoError(t, err)
	defer done()
	for _, r := range []*Service{a, b} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = r.Rotate(ctx, r.keys.of(packRole).current().signer.KeyID, store.ByOperator())
		require.Error(t, err)
		require.Error(t, ctx.Err(), "it waits until its context ends")
	}
}
