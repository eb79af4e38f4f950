package identity

import (
	"context"
	"crypto"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/node"
	"muniment/control/signing"
	"muniment/control/store"
	"muniment/gateway/api"
)

// TestRevocation revokes a key under load: it is put out of use first, so nothing that
// it signed comes later, and signing goes on.
func TestRevocation(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	n := h.open(t.TempDir())
	end := h.follow(n)
	signed := n.signing(t)
	old := h.keys(n.ID())[0].KeyID
	sealed := false
	v, err := h.nodes.Revoke(t.Context(), old, signing.Revocation{Seal: func(context.Context, string, string) ([]signing.Unsealed, error) {
		require.NotEqual(t, old, n.current().signer.KeyID, "it signs nothing any more when that is sealed")
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
	keys := h.keys(n.ID())
	require.True(t, last.Before(keys[0].NotAfter.Time))
	require.True(t, last.Before(keys[0].RevokedAt.Time))
}

// TestRevocationWaitsForTheSpool revokes a key while receipts by it wait in the node's
// spool: the key is not retired, and nothing sealed, until they are in the log.
func TestRevocationWaitsForTheSpool(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	cfg, spooled, asked := h.spooling()
	n, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	defer n.Close()
	end := h.follow(n)
	old := h.keys(n.ID())[0].KeyID
	revocation, sealed := sealing(t, spooled)
	revoked := make(chan error, 1)
	go func() {
		_, err := h.nodes.Revoke(t.Context(), old, revocation, store.ByOperator())
		revoked <- err
	}()
	for range 2 {
		select {
		case <-asked:
		case err := <-revoked:
			require.Fail(t, "revoked before the spool was drained", "%v", err)
		}
		keys := h.keys(n.ID())
		require.Len(t, keys, 2, "another key has taken over")
		require.Greater(t, keys[0].NotAfter.Sub(keys[1].NotBefore.Time), api.KeyOverlap/2, "the old one was not reported as out of use")
		require.Len(t, keyFiles(t, cfg.Dir), 2)
	}
	require.False(t, sealed.Load())
	spooled.Store(false)
	require.NoError(t, <-revoked)
	require.True(t, sealed.Load())
	require.Eventually(t, func() bool { return len(keyFiles(t, cfg.Dir)) == 1 }, time.Minute, 5*time.Millisecond)
	end()
}

// TestLearn: a key is revoked while a delivery has the key: it signs nothing from
// then on, and the answer is a 503.
func TestLearn(t *testing.T) {
	h := newControl(t)
	n := h.open(t.TempDir())
	borrowed, done, err := n.Signer(t.Context(), time.Now())
	require.NoError(t, err)
	require.Equal(t, []string{borrowed.KeyID}, n.SigningKeys())
	n.Learn([]api.SigningKey{{KeyID: "0123", RevokedAt: time.Now()}})
	_, err = borrowed.Key.Sign(nil, text, crypto.Hash(0))
	require.NoError(t, err)
	n.Learn([]api.SigningKey{{KeyID: borrowed.KeyID, RevokedAt: time.Now()}})
	_, err = borrowed.Key.Sign(nil, text, crypto.Hash(0))
	require.Equal(t, api.NoSigningKey, api.From(err).Reason)
	done()
	_, err = n.sign(time.Now())
	require.Error(t, err)
	require.Empty(t, n.SigningKeys())
}

// TestRevokedFileStays revokes a key whose file can't be destroyed: another takes over
// all the same, and the file is tried again.
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

// TestRevocationOfAStubbornNode revokes by force while the node can't enrol another
// key: it signs nothing once it has learned of it, until it can.
func TestRevocationOfAStubbornNode(t *testing.T) {
	t.Parallel()
	h := newControl(t, func(c *node.Config) { c.DrainFor = time.Second })
	dir := t.TempDir()
	n := h.open(dir)
	h.setFault(func(path string) trouble {
		if path == api.PathEnrol {
			return away
		}
		return none
	})
	end := h.follow(n)
	borrowed, done, err := n.Signer(t.Context(), time.Now())
	require.NoError(t, err)
	old := borrowed.KeyID

	impatient, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	_, err = h.nodes.Revoke(impatient, old, signing.Revocation{}, store.ByOperator())
	stop()
	require.Error(t, err)
	_, err = n.sign(time.Now())
	require.NoError(t, err, "it was asked, and signs on")

	revoked := make(chan error, 1)
	go func() {
		_, err := h.nodes.Revoke(t.Context(), old, signing.Revocation{Force: true}, store.ByOperator())
		revoked <- err
	}()
	require.NoError(t, <-revoked)
	require.Eventually(t, func() bool { return n.current() == nil }, time.Minute, time.Millisecond)
	_, err = n.sign(time.Now())
	require.Error(t, err)
	require.ErrorContains(t, n.Ready(), "has no key")
	require.Zero(t, n.left())
	require.Eventually(t, n.failing.Load, time.Minute, time.Millisecond)
	_, err = borrowed.Key.Sign(nil, text, nil)
	require.Equal(t, api.NoSigningKey, api.From(err).Reason, "not even who had borrowed it")
	done()
	end()
	require.NoError(t, n.Close())

	// The next start has no key either, and waits for one; then it signs.
	h.setFault(nil)
	n, err = Open(t.Context(), h.config(dir))
	require.NoError(t, err)
	defer n.Close()
	s, err := n.sign(time.Now())
	require.NoError(t, err)
	require.NoError(t, n.Ready())
	require.True(t, math.IsInf(n.left(), 1))
	require.NotEqual(t, old, s.keyID)
	h.requireValid(s)
}
