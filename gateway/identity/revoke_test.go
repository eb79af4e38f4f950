package identity

import (
	"context"
	"crypto"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// TestRevocation revokes a key under load: the node stops using it before the revocation, and
// continues to sign with another.
func TestRevocation(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	n := h.open(t.TempDir())
	end := h.follow(n)
	signed := n.startSigning(t)
	old := h.keysOf(n.ID())[0].KeyID
	sealed := false
	v, err := h.nodes.Revoke(t.Context(), old, signing.Revocation{Seal: func(context.Context, string, string) ([]signing.Unsealed, error) {
		require.NotEqual(t, old, n.current().signer.KeyID, "it signs nothing more before its signatures are sealed")
		sealed = true
		return nil, nil
	}}, store.ByOperator())
	require.NoError(t, err)
	require.True(t, sealed)
	require.NotNil(t, v.Successor)
	all := signed()
	end()
	last := time.Time{}
	for _, s := range all {
		if s.keyID != old {
			h.requireValid(s)
		} else if s.at.After(last) {
			last = s.at
		}
	}
	keys := h.keysOf(n.ID())
	require.True(t, last.Before(keys[0].NotAfter.Time))
	require.True(t, last.Before(keys[0].RevokedAt.Time))
}

// TestRevocationWaitsForTheSpool revokes a key while its receipts are in the node's spool: the key
// is not retired, and nothing is sealed, until they are in the log.
func TestRevocationWaitsForTheSpool(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	cfg, spooled, checked := h.spooling()
	n, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	defer n.Close()
	end := h.follow(n)
	old := h.keysOf(n.ID())[0].KeyID
	revocation, sealed := sealing(t, spooled)
	revoked := make(chan error, 1)
	go func() {
		_, err := h.nodes.Revoke(t.Context(), old, revocation, store.ByOperator())
		revoked <- err
	}()
	for range 2 {
		select {
		case <-checked:
		case err := <-revoked:
			require.Fail(t, "revoked before the spool was drained", "%v", err)
		}
		keys := h.keysOf(n.ID())
		require.Len(t, keys, 2, "another key has taken over")
		require.Greater(t, keys[0].NotAfter.Sub(keys[1].NotBefore.Time), api.KeyOverlap/2, "the old key is not reported as retired")
		require.Len(t, keyFiles(t, cfg.Dir), 2)
	}
	require.False(t, sealed.Load())
	spooled.Store(false)
	require.NoError(t, <-revoked)
	require.True(t, sealed.Load())
	waittest.Until(t, func() bool { return len(keyFiles(t, cfg.Dir)) == 1 })
	end()
}

// TestLearn: a key is revoked after a delivery has acquired it: it signs nothing from then on, and
// the error is a 503.
func TestLearn(t *testing.T) {
	h := newControl(t)
	n := h.open(t.TempDir())
	acquired, release, err := n.Signer(t.Context(), time.Now())
	require.NoError(t, err)
	require.Equal(t, []string{acquired.KeyID}, n.SigningKeys())
	n.Learn([]api.SigningKey{{KeyID: "0123", RevokedAt: time.Now()}})
	_, err = acquired.Key.Sign(nil, text, crypto.Hash(0))
	require.NoError(t, err)
	n.Learn([]api.SigningKey{{KeyID: acquired.KeyID, RevokedAt: time.Now()}})
	_, err = acquired.Key.Sign(nil, text, crypto.Hash(0))
	require.Equal(t, api.NoSigningKey, api.From(err).Reason)
	release()
	_, err = n.sign(time.Now())
	require.Error(t, err)
	require.Empty(t, n.SigningKeys())
}

// TestRevokedFileStays revokes a key whose file can't be destroyed: another key takes over
// nevertheless, and the node retries to destroy the file.
func TestRevokedFileStays(t *testing.T) {
	h := newControl(t)
	n := h.open(t.TempDir())
	old := n.current()
	require.NoError(t, os.Remove(old.file.Path))
	require.NoError(t, os.Mkdir(old.file.Path, 0o700))
	_, err := h.nodes.Revoke(t.Context(), old.signer.KeyID, signing.Revocation{Force: true}, store.ByOperator())
	require.NoError(t, err)
	n.Learn([]api.SigningKey{{KeyID: old.signer.KeyID, RevokedAt: time.Now()}})
	_, err = n.step(t.Context())
	require.ErrorContains(t, err, old.file.Path)
	require.NotNil(t, n.current(), "another key takes over")
	require.NoError(t, os.Remove(old.file.Path))
	_, err = n.step(t.Context())
	require.NoError(t, err)
}

// TestRevocationOfAStubbornNode forces a revocation while the node can't enrol another key: the node
// signs nothing from when it learns of it until it can enrol one.
func TestRevocationOfAStubbornNode(t *testing.T) {
	t.Parallel()
	h := newControl(t, func(c *node.Config) { c.DrainFor = time.Second })
	dir := t.TempDir()
	n := h.open(dir)
	h.inject(func(path string) fault {
		if path == api.PathEnrol {
			return unreachable
		}
		return noFault
	})
	end := h.follow(n)
	acquired, release, err := n.Signer(t.Context(), time.Now())
	require.NoError(t, err)
	old := acquired.KeyID

	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	_, err = h.nodes.Revoke(ctx, old, signing.Revocation{}, store.ByOperator())
	stop()
	require.Error(t, err)
	_, err = n.sign(time.Now())
	require.NoError(t, err, "the key is not revoked yet")

	revoked := make(chan error, 1)
	go func() {
		_, err := h.nodes.Revoke(t.Context(), old, signing.Revocation{Force: true}, store.ByOperator())
		revoked <- err
	}()
	require.NoError(t, <-revoked)
	waittest.Until(t, func() bool { return n.current() == nil })
	_, err = n.sign(time.Now())
	require.Error(t, err)
	require.ErrorContains(t, n.Ready(), "has no key")
	require.Zero(t, n.secondsLeft())
	waittest.Until(t, n.failing.Load)
	_, err = acquired.Key.Sign(nil, text, nil)
	require.Equal(t, api.NoSigningKey, api.From(err).Reason, "not even for a delivery that has acquired the key")
	release()
	end()
	require.NoError(t, n.Close())

	// The next start enrols another key.
	h.inject(nil)
	n, err = Open(t.Context(), h.config(dir))
	require.NoError(t, err)
	defer n.Close()
	s, err := n.sign(time.Now())
	require.NoError(t, err)
	require.NoError(t, n.Ready())
	require.True(t, math.IsInf(n.secondsLeft(), 1))
	require.NotEqual(t, old, s.keyID)
	h.requireValid(s)
}
