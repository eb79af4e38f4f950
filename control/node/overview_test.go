package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// TestOverview: those with a spool come first, then those that have been silent for longest; the
// lease is over at the bound, and a node without a spool is left out in the end.
func TestOverview(t *testing.T) {
	stacktest.WithoutPostgres(t)
	f := newFixture(t)
	r, stop := f.mustStart(t)
	defer stop()
	overview := func() Overview {
		t.Helper()
		o, err := r.Overview(t.Context())
		require.NoError(t, err)
		return o
	}
	require.Equal(t, Overview{LeaseMs: 30_000, Nodes: []Member{}}, overview())
	for _, id := range []string{"nod_idle", "nod_late", "nod_full"} {
		r.mustStartNode(t, id)
	}
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO node_names (node_id, name, taken_at) VALUES ('nod_late', 'edge-1', 0)`)
		return err
	}))
	require.NoError(t, r.Polled(t.Context(), api.FeedRequest{NodeID: "nod_late", After: 7}))
	require.NoError(t, r.Polled(t.Context(), api.FeedRequest{NodeID: "nod_full", Epoch: 3, After: 7, Spooled: 12}))
	f.elapsed += 20 * time.Second
	require.NoError(t, r.Polled(t.Context(), api.FeedRequest{NodeID: "nod_idle", After: 8}))
	f.elapsed += 10*time.Second + time.Millisecond
	require.Equal(t, Overview{LeaseMs: 30_000, Total: 3, Registered: true, Nodes: []Member{
		{State: State{NodeID: "nod_full", AppliedRevision: 7}, AgeMs: 30_001, Epoch: 3, Spooled: 12},
		{State: State{NodeID: "nod_late", AppliedRevision: 7}, AgeMs: 30_001, Name: "edge-1"},
		{State: State{NodeID: "nod_idle", AppliedRevision: 8, Live: true}, AgeMs: 10_001},
	}}, overview())
	f.elapsed += forgetAfter * 30 * time.Second
	require.Equal(t, 1, overview().Total, "a spool is shown for ever")
	require.NoError(t, r.Polled(t.Context(), api.FeedRequest{NodeID: "nod_full", Epoch: 3, After: 8}))
	f.elapsed += forgetAfter*30*time.Second + time.Millisecond
	require.Equal(t, Overview{LeaseMs: 30_000, Nodes: []Member{}, Registered: true}, overview(), "none is listed, but there are some")
	for _, id := range []string{"nod_idle", "nod_late", "nod_full"} {
		require.True(t, overview().Registered)
		_, err := r.Expel(t.Context(), id, Expulsion{Revocation: signing.Revocation{Reason: "drill", Force: true}}, store.ByOperator())
		require.NoError(t, err)
	}
	require.False(t, overview().Registered)
}
