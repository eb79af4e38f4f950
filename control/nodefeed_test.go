package control_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

func mustControl(t *testing.T, cfg control.Config) *control.Control {
	t.Helper()
	c, err := control.New(cfg)
	require.NoError(t, err)
	return c
}

func TestSuspensionTellsOfANodeThatDoesNotFollow(t *testing.T) {
	h := newFixture(t, 50*time.Millisecond)
	_, key := h.tenant()
	rightID := h.right(key, h.basis(key))

	// It polled once, and then no more: it holds a lease for a while yet.
	_, err := h.control().Source().Feed(t.Context(), api.FeedRequest{NodeID: "nod_hung"})
	require.NoError(t, err)
	suspended := h.call(key, "POST", "/v1/rights/"+rightID+"/suspend", "").ok()
	require.Equal(t, "SUSPENDED", get[string](t, suspended, "right", "state"))
	require.Equal(t, false, get[bool](t, suspended, "propagation", "applied"))
	require.Equal(t, []any{map[string]any{"nodeId": "nod_hung", "appliedRevision": 0., "live": true}}, get[[]any](t, suspended, "propagation", "nodes"))
}

// TestRevocationWaitsForTheNodes has a node that follows the feed: it has applied
// a revocation, requested or by an upheld challenge, when the caller gets the response. Only the
// node's next poll, which the commit wakes, can show it.
func TestRevocationWaitsForTheNodes(t *testing.T) {
	for name, revoke := range map[string]func(h *fixture, key, rightID string) answer{
		"revoked": func(h *fixture, key, rightID string) answer {
			return h.call(key, "POST", "/v1/rights/"+rightID+"/revoke", "")
		},
		"challenged": func(h *fixture, key, rightID string) answer {
			return h.call(key, "POST", "/v1/challenges/"+h.challenge(key, rightID)+"/resolve", `{"upheld":true}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, time.Minute)
			_, key := h.tenant()
			rightID := h.right(key, h.basis(key))
			source := h.control().Source()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			f, err := source.Feed(ctx, api.FeedRequest{NodeID: "nod_a"})
			require.NoError(t, err)
			go func() {
				var err error
				for err == nil {
					f, err = source.Feed(ctx, api.FeedRequest{NodeID: "nod_a", After: f.UpTo})
				}
				done <- err
			}()

			revoked := revoke(h, key, rightID).ok()
			revision := get[float64](t, revoked, "right", "revision")
			require.Equal(t, map[string]any{"revision": revision, "applied": true, "nodes": []any{
				map[string]any{"nodeId": "nod_a", "appliedRevision": revision, "live": true},
			}}, get[map[string]any](t, revoked, "propagation"))
			shown := h.call(key, "GET", "/v1/rights/"+rightID+"/propagation", "").ok()
			require.Equal(t, get[map[string]any](t, revoked, "propagation"), get[map[string]any](t, shown, "propagation"))
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
		})
	}
}

// TestFeedIsALongPoll runs on a clock that only moves while everybody waits, and not
// for the network.
func TestFeedIsALongPoll(t *testing.T) {
	stacktest.WithoutPostgres(t)
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		_, key := h.tenant()
		basisID := h.basis(key)
		source := h.control().Source()
		f, err := source.Feed(t.Context(), api.FeedRequest{NodeID: "nod_a"})
		require.NoError(t, err)
		require.Equal(t, f.Newest, f.UpTo)
		require.Len(t, f.Changes, 1, "nothing was ever stopped")
		require.Equal(t, api.BeaconKeys.Name, f.Changes[0].Kind, "but nodes hold all keys of beacons")
		require.Equal(t, h.db.Incarnation(), f.Incarnation)

		// Asked from where the node is, the answer comes with the next commit.
		began := time.Now()
		answers := make(chan api.Feed)
		go func() {
			next, err := source.Feed(t.Context(), api.FeedRequest{NodeID: "nod_a", After: f.UpTo})
			require.NoError(t, err)
			answers <- next
		}()
		synctest.Wait()
		rightID := h.right(key, basisID)
		got := <-answers
		require.Zero(t, time.Since(began))
		require.Len(t, got.Changes, 1)
		require.Equal(t, rightID, got.Changes[0].ID)

		// Without a commit, it comes after half a second with nothing.
		idle, err := source.Feed(t.Context(), api.FeedRequest{NodeID: "nod_a", After: got.UpTo})
		require.NoError(t, err)
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		require.Empty(t, idle.Changes)
		require.Equal(t, got.Newest, idle.Newest)

		// A node that is ahead of the database has to know at once.
		ahead, err := source.Feed(t.Context(), api.FeedRequest{NodeID: "nod_a", After: 1000})
		require.NoError(t, err)
		require.Less(t, ahead.Newest, int64(1000))
		require.Equal(t, 500*time.Millisecond, time.Since(began))

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = source.Feed(gone, api.FeedRequest{NodeID: "nod_a", After: got.UpTo})
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestReadThrough(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant()
	rightID := h.right(key, h.basis(key))
	source := h.control().Source()
	found, err := source.Snapshot(t.Context(), api.Rights.Name, rightID)
	require.NoError(t, err)
	r, err := api.Rights.Read(found.Change)
	require.NoError(t, err)
	require.Equal(t, tenantID, r.TenantID)
	require.Equal(t, api.RightActive, r.State)
	require.JSONEq(t, `{"regions":["US","CA"]}`, string(r.Scope))
	require.Equal(t, r.Revision, found.AsOf)

	for _, none := range [][2]string{{api.Rights.Name, "rgh_none"}, {api.Keys.Name, rightID}, {"mapping", rightID}} {
		found, err = source.Snapshot(t.Context(), none[0], none[1])
		require.NoError(t, err)
		require.Nil(t, found.Change)
		require.Equal(t, r.Revision, found.AsOf)
	}
	keyID := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	found, err = source.Snapshot(t.Context(), api.Keys.Name, keyID)
	require.NoError(t, err)
	k, err := api.Keys.Read(found.Change)
	require.NoError(t, err)
	require.Equal(t, tenantID, k.TenantID)
	require.Equal(t, api.EveryScope, k.Scopes)
}
