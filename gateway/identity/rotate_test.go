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

	"muniment.example/bench/waittest"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// startSigning signs continuously in several goroutines until end is called, which returns all
// signatures. An error fails the test, unless the goroutine was held up for longer than
// acquireGrace: then it retries, as deliveries do.
func (n *Node) startSigning(t *testing.T) (end func() []signed) {
	var stop atomic.Bool
	var mu sync.Mutex
	var all []signed
	var signers sync.WaitGroup
	for range 4 {
		signers.Go(func() {
			var own []signed
			for tick := time.NewTicker(20 * time.Millisecond); !stop.Load(); <-tick.C {
				at := time.Now()
				s, err := n.sign(at)
				for err != nil && time.Since(at) >= acquireGrace {
					at = time.Now()
					s, err = n.sign(at)
				}
				if err != nil {
					t.Errorf("cannot sign: %v", err)
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
		signers.Wait()
		require.NotEmpty(t, all)
		return all
	}
}

// requireWindows requires that the windows of a node's keys leave no gap, and that only the last is
// open.
func requireWindows(t *testing.T, keys []signing.SigningKey) {
	t.Helper()
	for i, k := range keys {
		if i == len(keys)-1 {
			require.True(t, k.NotAfter.IsZero(), "the newest key is current")
			continue
		}
		require.False(t, k.NotAfter.Before(keys[i+1].NotBefore.Time), "no gap before %s", keys[i+1].KeyID)
		require.Less(t, k.NotAfter.Sub(keys[i+1].NotBefore.Time), api.KeyOverlap-time.Second, "the window of %s was closed", k.KeyID)
	}
}

// TestRotationByControl rotates twice under load because control requests it.
func TestRotationByControl(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	dir := t.TempDir()
	n := h.open(dir)
	end := h.follow(n)
	signed := n.startSigning(t)
	signsWith := func(k signing.SigningKey) {
		s, err := n.sign(time.Now())
		require.NoError(t, err)
		require.Equal(t, k.KeyID, s.keyID)
	}
	for i := range 2 {
		keys := h.keysOf(n.ID())
		require.Len(t, keys, i+1)
		signsWith(keys[i])
		s, err := h.nodes.Rotate(t.Context(), keys[i].KeyID, store.ByOperator())
		require.NoError(t, err)
		require.NotNil(t, s.Key, "the node makes its key while Rotate waits")
		require.Equal(t, keys[i].KeyID, s.Replaced.KeyID)
		// The old key is retired: its file is destroyed.
		waittest.Until(t, func() bool {
			files := keyFiles(t, dir)
			return len(files) == 1 && filepath.Base(files[0]) == s.Key.KeyID+".key"
		})
		_, err = h.nodes.Rotate(t.Context(), keys[i].KeyID, store.ByOperator())
		require.Equal(t, api.StateConflict, api.From(err).Code)
	}
	all := signed()
	end()
	keys := h.keysOf(n.ID())
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
	signed := n.startSigning(t)
	waittest.Until(t, func() bool { return len(h.keysOf(n.ID())) >= 3 })
	h.requireValid(signed()...)
	end()
}

// TestLostRequests: the first requests of each kind, or their responses, are lost while a key rotates
// under load.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	control := newControl(t)
	for _, injected := range []fault{unreachable, answerLost} {
		for _, path := range []string{api.PathEnrol, api.PathRetire} {
			t.Run(fmt.Sprint(path, injected), func(t *testing.T) {
				t.Parallel()
				h := control.behind(t)
				dir := t.TempDir()
				n := h.open(dir)
				left := 4
				h.inject(func(p string) fault {
					if p != path || left == 0 {
						return noFault
					}
					left--
					return injected
				})
				end := h.follow(n)
				signed := n.startSigning(t)
				_, err := h.nodes.Rotate(t.Context(), h.keysOf(n.ID())[0].KeyID, store.ByOperator())
				require.NoError(t, err)
				waittest.Until(t, func() bool {
					keys := h.keysOf(n.ID())
					return len(keys) == 2 && n.current().signer.KeyID == keys[1].KeyID && len(keyFiles(t, dir)) == 1
				})
				h.requireValid(signed()...)
				end()
				require.Zero(t, left)
				requireWindows(t, h.keysOf(n.ID()))
			})
		}
	}
}

// TestCrashes ends the process at each of its requests, before and after control has served it: the
// next start recovers, and all signatures verify.
func TestCrashes(t *testing.T) {
	t.Parallel()
	control := newControl(t)
	for _, injected := range []fault{unreachable, answerLost} {
		for at := 1; at <= 5; at++ { // start, join, start again, enrol, retire
			t.Run(fmt.Sprint(at, injected), func(t *testing.T) {
				t.Parallel()
				h := control.behind(t)
				cfg := h.config(t.TempDir())
				cfg.Invitation = h.invite()
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				requests := 0
				h.inject(func(string) fault {
					if requests++; requests < at {
						return noFault
					}
					kill()
					if requests == at {
						return injected
					}
					return unreachable
				})
				var all []signed
				n, err := Open(ctx, cfg)
				if err == nil {
					s, err := n.sign(time.Now())
					require.NoError(t, err)
					all = append(all, s)
					n.Learn([]api.SigningKey{{KeyID: s.keyID, NotAfter: time.Now().Add(api.KeyOverlap)}})
					require.NoError(t, n.Run(ctx)) // rotates until the crash
					// The old key may have signed for times in the new key's window.
					waittest.Until(t, func() bool {
						s, err := n.sign(time.Now())
						require.NoError(t, err)
						all = append(all, s)
						keys := h.keysOf(n.ID())
						if at == 4 && injected == unreachable {
							return len(keys) == 1
						}
						return len(keys) == 2 && s.at.After(keys[1].NotBefore.Time)
					})
					require.NoError(t, n.Close())
				}
				require.Equal(t, at, requests, "the process has crashed")

				h.inject(nil)
				n, err = Open(t.Context(), cfg)
				require.NoError(t, err)
				defer n.Close()
				end := h.follow(n)
				waittest.Until(t, func() bool {
					s, err := n.sign(time.Now())
					if err == nil {
						all = append(all, s)
					}
					return err == nil && len(keyFiles(t, cfg.Dir)) == 1
				})
				end()
				h.requireValid(all...)
				requireWindows(t, h.keysOf(n.ID()))
			})
		}
	}
}

// TestCrashBeforeFirstRequest: a start uses or removes the files of an earlier one that was killed.
func TestCrashBeforeFirstRequest(t *testing.T) {
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
	require.NoFileExists(t, filepath.Join(dir, ".new-1"), "it may hold a secret")
	require.NoFileExists(t, zeros, "a key that was being destroyed")
}

// TestKeyEndsWhileTheNodeIsDown: the ended key signs nothing more, and vouches for the next.
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
	waittest.Until(t, func() bool { return time.Now().After(ended) })
	n, err = Open(t.Context(), h.config(dir))
	require.NoError(t, err)
	defer n.Close()
	now, err := n.sign(time.Now().Add(time.Millisecond))
	require.NoError(t, err)
	require.NotEqual(t, before.keyID, now.keyID)
	h.requireValid(before, now)
	end := h.follow(n)
	waittest.Until(t, func() bool { return len(keyFiles(t, dir)) == 1 })
	end()
}

// TestLostKeys: the credential alone does not suffice to enrol a key.
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
	require.ErrorContains(t, err, "If the node's keys are lost, move "+dir+" away (only this folder, not the spool beside it), "+inviteAdvice)
}

// TestClockOfTheNode: while the node's clock is two minutes ahead of control's, no key is rotated,
// and the current key continues to sign. Once the clock is right, the next key takes over.
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
	require.Len(t, h.keysOf(n.ID()), 2)

	// No key signs for a time before all windows.
	_, _, err = n.Signer(t.Context(), time.Now().Add(-time.Hour))
	require.ErrorContains(t, err, "no key")
}

// TestClockSetBack sets the clock back half a minute across a restart, orderly or not: the next
// rotation is dated after everything that was signed before.
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
				waittest.Until(t, func() bool {
					at, err := readHighWater(cfg.Dir)
					return err == nil && at.After(before.at)
				})
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
			require.Len(t, h.keysOf(n.ID()), 2)
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

// TestOverlapIsTheLimit: if no response arrives, the current key signs no longer than its window
// lasts if control has received the request.
func TestOverlapIsTheLimit(t *testing.T) {
	h := newControl(t)
	n := h.open(t.TempDir())
	h.inject(func(string) fault { return answerLost })
	old := n.current()
	require.Error(t, n.enrol(t.Context()))
	h.inject(nil)
	keys := h.keysOf(n.ID())
	require.Len(t, keys, 2)
	require.Equal(t, keys[0].NotAfter.UTC(), old.until)
	s, err := n.sign(old.until.Add(-time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, keys[0].KeyID, s.keyID)
	h.requireValid(s)
	_, err = n.sign(old.until)
	require.Error(t, err)
}
