package identity

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// TestExpulsion expels a node that follows the feed: it signs nothing once it has learned of that,
// control seals only once everything it signed is in the log, and it does not come back. The
// response to its report of the retired key is lost: it is expelled before it retries.
func TestExpulsion(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	cfg, spooled, checked := h.spooling()
	n, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	end := h.follow(n)
	before, err := n.sign(time.Now())
	require.NoError(t, err)
	h.requireValid(before)

	revocation, sealed := sealing(t, spooled)
	expelled := make(chan error, 1)
	go func() {
		v, err := h.nodes.Expel(t.Context(), n.ID(), node.Expulsion{Revocation: revocation}, store.ByOperator())
		if err == nil && (len(v.Keys) != 1 || v.Keys[0].RevokedAt.IsZero() || v.Epoch != 1) {
			t.Errorf("expelled: %+v", v)
		}
		expelled <- err
	}()
	for range 2 {
		select {
		case <-checked:
		case err := <-expelled:
			require.Fail(t, "expelled before the spool was drained", "%v", err)
		}
	}
	_, err = n.sign(time.Now().Add(time.Second))
	require.ErrorContains(t, err, "was asked to leave")
	require.ErrorContains(t, n.Ready(), "was asked to leave")
	requireLeaving(t, n)
	require.Len(t, h.keysOf(n.ID()), 1, "no other key takes over")
	require.False(t, sealed.Load())
	var retired atomic.Int64
	h.inject(func(path string) fault {
		if path == api.PathRetire && retired.Add(1) == 1 {
			return answerLost
		}
		return noFault
	})
	spooled.Store(false)
	require.NoError(t, <-expelled)
	require.True(t, sealed.Load())
	key := h.keysOf(n.ID())[0]
	require.True(t, before.at.Before(key.NotAfter.Time))
	require.False(t, key.NotAfter.After(key.RevokedAt.Time))
	requireNoKeyFiles(t, cfg.Dir)
	require.EqualValues(t, 2, retired.Load())
	end()
	require.NoError(t, n.Close())

	h.inject(func(path string) fault {
		if path == api.PathJoin {
			t.Error("the node requested to join")
		}
		return noFault
	})
	for _, invitation := range []string{cfg.Invitation, h.invite(), ""} {
		cfg.Invitation = invitation
		_, err = Open(t.Context(), cfg)
		require.ErrorContains(t, err, "the node "+n.ID()+" was expelled")
		require.ErrorContains(t, err, "It can't come back: move "+cfg.Dir+" away (only this folder, not the spool beside it), "+inviteAdvice)
		require.NotContains(t, err.Error(), "If the ")
	}
}

// TestExpulsionOfANodeThatStarts: the node learns at its start that it is to leave, destroys the key
// that it has not enrolled, and retires the other.
func TestExpulsionOfANodeThatStarts(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	dir := t.TempDir()
	n := h.open(dir)
	_, err := makeKey(dir)
	require.NoError(t, err)
	require.NoError(t, n.Close())
	_, err = h.nodes.Expel(t.Context(), n.ID(), node.Expulsion{}, store.ByOperator())
	require.Equal(t, api.StateConflict, api.From(err).Code)
	require.ErrorContains(t, err, "its spool may hold receipts")

	select {
	case <-n.Leaving():
		require.Fail(t, "it has not learned of the expulsion yet")
	default:
	}
	n, err = Open(t.Context(), h.config(dir))
	require.NoError(t, err)
	defer n.Close()
	requireLeaving(t, n)
	require.Len(t, keyFiles(t, dir), 1)
	_, err = n.sign(time.Now().Add(time.Second))
	require.ErrorContains(t, err, "was asked to leave")
	end := h.follow(n)
	_, err = h.nodes.Expel(t.Context(), n.ID(), node.Expulsion{}, store.ByOperator())
	require.NoError(t, err)
	requireNoKeyFiles(t, dir)
	end()
}

func requireLeaving(t *testing.T, n *Node) {
	t.Helper()
	select {
	case <-n.Leaving():
	default:
		require.Fail(t, "the node is not leaving")
	}
}

// requireNoKeyFiles waits until the node has destroyed its keys: it reports them as retired
// before, and control then expels it at once.
func requireNoKeyFiles(t *testing.T, dir string) {
	t.Helper()
	waittest.Until(t, func() bool { return len(keyFiles(t, dir)) == 0 })
}

// TestExpulsionOfANodeWithoutKeys: a leaving node whose keys are revoked makes no other key, neither
// while it runs nor when it starts, as it must to drain its spool.
func TestExpulsionOfANodeWithoutKeys(t *testing.T) {
	t.Parallel()
	h := newControl(t)
	dir := t.TempDir()
	n := h.open(dir)
	_, err := h.nodes.Expel(t.Context(), n.ID(), node.Expulsion{}, store.ByOperator())
	require.Equal(t, api.StateConflict, api.From(err).Code)
	v, err := h.nodes.Revoke(t.Context(), n.SigningKeys()[0], signing.Revocation{Force: true}, store.ByOperator())
	require.NoError(t, err)
	n.Learn([]api.SigningKey{{KeyID: v.Key.KeyID, NotBefore: v.Key.NotBefore.Time, RevokedAt: v.Key.RevokedAt.Time, Last: true}})
	require.False(t, n.isDue())
	require.ErrorContains(t, n.Ready(), "was asked to leave")
	require.NoError(t, n.Close())
	for range 2 { // with the revoked key, and without
		n, err = Open(t.Context(), h.config(dir))
		require.NoError(t, err)
		require.ErrorContains(t, n.Ready(), "was asked to leave")
		require.NoError(t, n.Close())
		require.Empty(t, keyFiles(t, dir))
	}
}
