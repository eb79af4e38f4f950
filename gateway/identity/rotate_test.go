package identity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/signing"
	"muniment/control/store"
	"muniment/gateway/api"
)

// signing signs without a pause from several sides until end is called, which returns
// what was signed. Every error fails the test, but of who was held up for so long that the
// key of its moment is gone: a delivery would ask again.
func (n *Node) signing(t *testing.T) (end func() []signed) {
	var stop atomic.Bool
	var mu sync.Mutex
	var all []signed
	var sides sync.WaitGroup
	for range 4 {
		sides.Go(func() {
			var own []signed
			for tick := time.NewTicker(500 * time.Microsecond); !stop.Load(); <-tick.C {
				at := time.Now()
				s, err := n.sign(at)
				if err != nil && time.Since(at) >= straggling {
					s, err = n.sign(time.Now())
				}
				if err != nil {
					t.Errorf("nothing signs: %v", err)
					break
				}
				own = append(own, s)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	return func() []signed {
		stop.Store(true)
		sides.Wait()
		require.NotEmpty(t, all)
		return all
	}
}

// requireWindows asks that the windows of a node's keys follow each other, with the
// last one open.
func requireWindows(t *testing.T, keys []signing.SigningKey) {
	t.Helper()
	for i, k := range keys {
		if i == len(keys)-1 {
			require.True(t, k.NotAfter.IsZero(), "the newest key is current")
			continue
		}
		require.False(t, k.NotAfter.Before(keys[i+1].NotBefore.Time), "no gap before %s", keys[i+1].KeyID)
		require.Less(t, k.NotAfter.Sub(keys[i+1].NotBefore.Time), time.Minute, "the window of %s was closed", k.KeyID)
	}
}

// TestRotationWhenAsked rotates three times under load.
func TestRotationWhenAsked(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	dir := t.TempDir()
	n := h.open(dir)
	end := h.follow(n)
	signed := n.signing(t)
	signsWith := func(k signing.SigningKey) {
		s, err := n.sign(time.Now())
		require.NoError(t, err)
		require.Equal(t, k.KeyID, s.keyID)
	}
	for i := range 2 {
		keys := h.keys(n.ID())
		require.Len(t, keys, i+1)
		signsWith(keys[i])
		s, err := h.nodes.Rotate(t.Context(), keys[i].KeyID, store.ByOperator())
		require.NoError(t, err)
		require.NotNil(t, s.Key, "the node follows, and makes its key at once")
		require.Equal(t, keys[i].KeyID, s.Replaced.KeyID)
		// Retired: the window is closed where it ended, and the file destroyed.
		require.Eventually(t, func() bool {
			files := keyFiles(t, dir)
			return len(files) == 1 && filepath.Base(files[0]) == s.Key.KeyID+".key"
		}, time.Minute, 5*time.Millisecond)
		_, err = h.nodes.Rotate(t.Context(), keys[i].KeyID, store.ByOperator())
		require.Equal(t, api.StateConflict, api.From(err).Code)
	}
	all := signed()
	end()
	keys := h.keys(n.ID())
	require.Len(t, keys, 3)
	signsWith(keys[2])
	requireWindows(t, keys)
	h.requireValid(all...)
}

// TestRotationByAge rotates every half second under load.
func TestRotationByAge(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	cfg := h.config(t.TempDir())
	cfg.Invitation, cfg.RotateEvery = h.invite(), 500*time.Millisecond
	n, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	defer n.Close()
	end := h.follow(n)
	signed := n.signing(t)
	require.Eventually(t, func() bool { return len(h.keys(n.ID())) >= 3 }, time.Minute, 10*time.Millisecond)
	h.requireValid(signed()...)
	end()
}

// TestLostAnswers loses the first answers of each kind while keys rotate under load.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, befalls := range []trouble{away, lost} {
		for _, path := range []string{api.PathEnrol, api.PathRetire} {
			t.Run(fmt.Sprint(path, befalls), func(t *testing.T) {
				t.Parallel()
				h := newControl(t)
				dir := t.TempDir()
				n := h.open(dir)
				left := 4
				h.setFault(func(p string) trouble {
					if p != path || left == 0 {
						return none
					}
					left--
					return befalls
				})
				end := h.follow(n)
				signed := n.signing(t)
				_, err := h.nodes.Rotate(t.Context(), h.keys(n.ID())[0].KeyID, store.ByOperator())
				require.NoError(t, err)
				require.Eventually(t, func() bool {
					keys := h.keys(n.ID())
					return len(keys) == 2 && n.current().signer.KeyID == keys[1].KeyID && len(keyFiles(t, dir)) == 1
				}, time.Minute, 5*time.Millisecond)
				h.requireValid(signed()...)
				end()
				require.Zero(t, left)
				requireWindows(t, h.keys(n.ID()))
			})
		}
	}
}

// TestCrashes ends the process at each of its requests, before and after control has
// served it: the next start finds its way, and nothing that was signed is in doubt.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for _, befalls := range []trouble{away, lost} {
		for at := 1; at <= 5; at++ { // start, join, start again, enrol, retire
			t.Run(fmt.Sprint(at, befalls), func(t *testing.T) {
				t.Parallel()
				h := newControl(t)
				cfg := h.config(t.TempDir())
				cfg.Invitation = h.invite()
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				requests := 0
				h.setFault(func(string) trouble {
					if requests++; requests < at {
						return none
					}
					kill()
					if requests == at {
						return befalls
					}
					return away
				})
				var all []signed
				n, err := Open(ctx, cfg)
				if err == nil {
					s, err := n.sign(time.Now())
					require.NoError(t, err)
					all = append(all, s)
					n.Learn([]api.SigningKey{{KeyID: s.keyID, NotAfter: time.Now().Add(api.KeyOverlap)}})
					require.NoError(t, n.Run(ctx)) // rotates, and ends by the crash
					// It may have signed with the old key for moments of the new one.
					require.Eventually(t, func() bool {
						s, err := n.sign(time.Now())
						require.NoError(t, err)
						all = append(all, s)
						keys := h.keys(n.ID())
						if at == 4 && befalls == away {
							return len(keys) == 1
						}
						return len(keys) == 2 && s.at.After(keys[1].NotBefore.Time)
					}, time.Minute, time.Millisecond)
					require.NoError(t, n.Close())
				}
				require.Equal(t, at, requests, "the crash has come")

				h.setFault(nil)
				n, err = Open(t.Context(), cfg)
				require.NoError(t, err)
				defer n.Close()
				end := h.follow(n)
				require.Eventually(t, func() bool {
					s, err := n.sign(time.Now())
					if err == nil {
						all = append(all, s)
					}
					return err == nil && len(keyFiles(t, cfg.Dir)) == 1
				}, time.Minute, 5*time.Millisecond)
				end()
				h.requireValid(all...)
				requireWindows(t, h.keys(n.ID()))
			})
		}
	}
}

// TestCrashBeforeAnythingIsAsked finds what a first start leaves on disk.
func TestCrashBeforeAnythingIsAsked(t *testing.T) {
	h := newControl(t)
	dir := t.TempDir()
	id := api.NewID(api.PrefixNode, time.Now())
	credential, _ := api.NewBearer(id)
	require.NoError(t, saved{id, credential}.save(dir))
	key, err := makeKey(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".new-1"), []byte("half"), 0o600))
	zeros := keyPath(dir, strings.Repeat("0", 32))
	require.NoError(t, os.WriteFile(zeros, make([]byte, 119), 0o600))
	n := h.open(dir)
	require.Equal(t, id, n.ID())
	require.Equal(t, key.Path, keyFiles(t, dir)[0])
	require.NoFileExists(t, filepath.Join(dir, ".new-1"), "it may be half of a secret, or all of it")
	require.NoFileExists(t, zeros, "a key that was being destroyed")
}

// TestKeyEndsWhileTheNodeIsDown: it signs nothing any more, and vouches for the next.
func TestKeyEndsWhileTheNodeIsDown(t *testing.T) {
	h := newControl(t)
	dir := t.TempDir()
	n := h.open(dir)
	before, err := n.sign(time.Now())
	require.NoError(t, err)
	require.NoError(t, n.Close())
	ended := time.Now().Add(10 * time.Millisecond)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE signing_keys SET not_after = $1 WHERE key_id = $2`, store.At(ended), before.keyID)
		return err
	}))
	require.Eventually(t, func() bool { return time.Now().After(ended) }, time.Minute, time.Millisecond)
	n, err = Open(t.Context(), h.config(dir))
	require.NoError(t, err)
	defer n.Close()
	now, err := n.sign(time.Now().Add(time.Millisecond))
	require.NoError(t, err)
	require.NotEqual(t, before.keyID, now.keyID)
	h.requireValid(before, now)
	end := h.follow(n)
	require.Eventually(t, func() bool { return len(keyFiles(t, dir)) == 1 }, time.Minute, 5*time.Millisecond)
	end()
}

// TestLostKeys: the credential alone does not make anyone the node.
func TestLostKeys(t *testing.T) {
	h := newControl(t)
	dir := t.TempDir()
	require.NoError(t, h.open(dir).Close())
	for _, file := range keyFiles(t, dir) {
		require.NoError(t, os.Remove(file))
	}
	cfg := h.config(dir)
	cfg.Invitation = h.invite()
	_, err := Open(t.Context(), cfg)
	require.ErrorContains(t, err, "is not vouched for by the node's newest one")
	require.ErrorContains(t, err, "If the node's keys are lost, move "+dir+" away (only that, not the spool beside it), "+invite)
}

// TestClockOfTheNode is two minutes ahead of control's: nothing rotates, and the
// current key signs on; once it is set right the next key takes over.
func TestClockOfTheNode(t *testing.T) {
	h := newControl(t)
	var ahead atomic.Int64
	cfg := h.config(t.TempDir())
	cfg.Invitation = h.invite()
	cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	n, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	defer n.Close()
	ahead.Store(int64(2 * time.Minute))
	late := h.config(t.TempDir())
	late.Invitation, late.Now = h.invite(), cfg.Now
	_, err = Open(t.Context(), late)
	require.ErrorContains(t, err, "set the node's clock", "it does not join")
	other := h.config(t.TempDir())
	require.NoError(t, h.open(other.Dir).Close())
	other.Now = cfg.Now
	_, err = Open(t.Context(), other)
	require.ErrorContains(t, err, "set the node's clock", "it does not start")
	n.Learn([]api.SigningKey{{KeyID: n.current().signer.KeyID, NotAfter: time.Now().Add(api.KeyOverlap)}})
	_, err = n.step(t.Context())
	require.ErrorContains(t, err, "set the node's clock")
	s, err := n.sign(cfg.Now())
	require.NoError(t, err)
	h.requireValid(s)

	ahead.Store(0)
	n.mu.Lock()
	n.latest = time.Time{}
	n.mu.Unlock()
	_, err = n.step(t.Context())
	require.NoError(t, err)
	require.Len(t, h.keys(n.ID()), 2)

	// A moment before all windows has no key.
	_, _, err = n.Signer(t.Context(), time.Now().Add(-time.Hour))
	require.ErrorContains(t, err, "no key")
}

// TestClockSetBack sets the clock back half a minute across a restart, orderly or not:
// the next rotation comes after everything that was signed before.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for _, orderly := range []bool{true, false} {
		t.Run(fmt.Sprint(orderly), func(t *testing.T) {
			t.Parallel()
			h := newControl(t)
			var ahead atomic.Int64
			cfg := h.config(t.TempDir())
			cfg.Invitation = h.invite()
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			n, err := Open(t.Context(), cfg)
			require.NoError(t, err)
			end := h.follow(n)
			ahead.Store(int64(30 * time.Second))
			before, err := n.sign(cfg.Now())
			require.NoError(t, err)
			if orderly {
				end()
				require.NoError(t, n.Close())
			} else {
				require.Eventually(t, func() bool {
					at, err := readHighWater(cfg.Dir)
					return err == nil && at.After(before.at)
				}, time.Minute, 10*time.Millisecond)
				end()
				require.NoError(t, n.claim.Close())
			}

			ahead.Store(0)
			n, err = Open(t.Context(), cfg)
			require.NoError(t, err)
			defer n.Close()
			n.Learn([]api.SigningKey{{KeyID: before.keyID, NotAfter: time.Now().Add(api.KeyOverlap)}})
			_, err = n.step(t.Context())
			require.NoError(t, err)
			require.Len(t, h.keys(n.ID()), 2)
			now, err := n.sign(cfg.Now())
			require.NoError(t, err)
			require.Equal(t, before.keyID, now.keyID, "the next key does not sign yet")
			ahead.Store(int64(time.Minute))
			_, err = n.step(t.Context())
			require.NoError(t, err)
			require.Len(t, keyFiles(t, cfg.Dir), 1, "the old key is retired")
			later, err := n.sign(cfg.Now())
			require.NoError(t, err)
			require.NotEqual(t, before.keyID, later.keyID)
			h.requireValid(before, now, later)
		})
	}
}

// TestOverlapIsTheLimit has control never answer: the current key signs no longer than
// its window would last if it had got the request.
func TestOverlapIsTheLimit(t *testing.T) {
	h := newControl(t)
	n := h.open(t.TempDir())
	h.setFault(func(string) trouble { return lost })
	old := n.current()
	require.Error(t, n.enrol(t.Context()))
	h.setFault(nil)
	keys := h.keys(n.ID())
	require.Len(t, keys, 2)
	require.Equal(t, keys[0].NotAfter.UTC(), old.until)
	s, err := n.sign(old.until.Add(-time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, keys[0].KeyID, s.keyID)
	h.requireValid(s)
	_, err = n.sign(old.until)
	require.Error(t, err)
}
