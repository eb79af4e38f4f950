package identity

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// TestSilentNodes: the key of a node that has been gone for days ends, without an operator, and what it
// signed stays valid. It comes back by itself, with another key. A node that polls keeps its key, and so does
// one that is expected back with what is in its spool.
func TestSilentNodes(t *testing.T) {
	stacktest.WithoutPostgres(t) // the database's clock
	h := newControl(t)
	now := func() time.Time { return time.Now().Add(h.passed()) }
	gone, working, spooling := h.open(t.TempDir()), h.open(t.TempDir()), h.open(t.TempDir())
	polled := func(r *node.Service, n *Node, spooled int64) {
		t.Helper()
		require.NoError(t, r.Polled(t.Context(), api.FeedRequest{NodeID: n.ID(), Epoch: n.Epoch(), Spooled: spooled}))
	}
	ends := func(n *Node) bool {
		t.Helper()
		key := h.keysOf(n.ID())[0]
		require.NotEqual(t, "REVOKED", key.State)
		return !key.NotAfter.IsZero()
	}
	recalled := func() (n int) {
		t.Helper()
		require.NoError(t, h.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM outbox WHERE event LIKE '%"key.recalled"%'`).Scan(&n))
		return n
	}
	polled(h.nodes, gone, 0)
	polled(h.nodes, spooling, 5)
	before, err := gone.sign(time.Now())
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	for range 7 {
		polled(h.nodes, working, 0)
		require.NoError(t, h.nodes.EndSilent(t.Context()))
		require.False(t, ends(gone))
		h.pass(node.SilentFor / 7)
	}
	h.pass(time.Minute)
	polled(h.nodes, working, 0)
	require.NoError(t, h.nodes.EndSilent(t.Context()))
	require.Equal(t, []bool{true, false, false}, []bool{ends(gone), ends(working), ends(spooling)})
	require.Equal(t, 1, recalled())
	h.pass(api.KeyOverlap)
	require.Equal(t, "RETIRED", h.keysOf(gone.ID())[0].State)
	require.NoError(t, h.nodes.EndSilent(t.Context()))
	require.Equal(t, 1, recalled(), "it ended once")
	h.requireValid(before)

	cfg := h.config(gone.cfg.Dir)
	cfg.Now = now
	back, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	after, err := back.sign(now())
	require.NoError(t, err)
	h.requireValid(before, after)
	keys := h.keysOf(gone.ID())
	require.Len(t, keys, 2)
	require.Equal(t, 1, slices.IndexFunc(keys, func(k signing.SigningKey) bool { return k.State == "ACTIVE" }))
	end := h.follow(back)
	require.NoError(t, h.nodes.EndSilent(t.Context()))
	require.Len(t, h.keysOf(gone.ID()), 2)
	end()
	require.NoError(t, back.Close())

	// Control was away for long: what starts then waits until nodes may have polled it.
	h.pass(10 * node.SilentFor)
	restarted := h.cfg
	restarted.Registerer = nil
	again, err := node.New(t.Context(), restarted)
	require.NoError(t, err)
	require.NoError(t, again.EndSilent(t.Context()))
	require.False(t, ends(working))
	h.pass(15 * time.Minute)
	polled(again, working, 0)
	require.NoError(t, again.EndSilent(t.Context()))
	require.False(t, ends(working))
	require.True(t, ends(spooling), "this process does not know of its spool, and it has not polled for months")
}

// TestSilentNodeThatRan: a node that could not reach control for days, and never stopped, gets another key
// once it does, and has one all the time.
func TestSilentNodeThatRan(t *testing.T) {
	stacktest.WithoutPostgres(t)
	h := newControl(t)
	cfg := h.config(t.TempDir())
	cfg.Invitation, cfg.Now = h.invite(), func() time.Time { return time.Now().Add(h.passed()) }
	n, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	h.pass(node.SilentFor + time.Hour)
	require.NoError(t, h.nodes.EndSilent(t.Context()))
	h.follow(n)
	waittest.Until(t, func() bool { return len(h.keysOf(n.ID())) == 2 })
	require.NoError(t, n.Ready())
}
