package right

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment/control/rapidtest"
	"muniment/control/roomtest"
	"muniment/control/store"
	"muniment/deploy/stack/stacktest"
	"muniment/gateway/api"
)

// clocked is a service on a clock that stands still until it is moved.
func clocked(t *testing.T) (*Service, Basis, *time.Time) {
	t.Helper()
	clock := now.Time
	db := roomtest.Open(t, t.TempDir(), func() time.Time { return clock })
	s, err := New(Config{DB: db, Nodes: roomtest.Alone{}})
	require.NoError(t, err)
	b := Basis{TenantID: tenantID, Kind: "CONTRACT", Title: "Frame agreement", HolderOrgID: "org_a"}
	require.NoError(t, s.createBasis(t.Context(), &b, store.ByOperator()))
	return s, b, &clock
}

// asked is what a node knows of a right's suspensions at a moment; asks if it must ask control.
func asked(r *api.Right, at time.Time) (suspended, asks bool) {
	for _, s := range r.Suspensions {
		if s.Holds(at) {
			return true, false
		}
	}
	return false, at.Before(r.SuspensionsSince)
}

// TestHistory suspends and resumes a right at random. The model is whether it was suspended in each
// half hour. Nodes know the last 31 days, at most 64 suspensions, and control all.
func TestHistory(t *testing.T) {
	stacktest.Both(t)
	service, basis, clock := clocked(t)
	dropped, aged := 0, 0
	for _, c := range []struct{ steps, pause int }{{9, 400}, {40, 160}, {140, 3}, {7, 0}} { // at most so many half hours between two moves
		rapidtest.Check(t, 1, 50, func(t *rapid.T) {
			r := service.mustIssue(t, basis, nil)
			drawn := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			began := *clock
			var model []bool
			suspended := false
			for range c.steps {
				for range drawn.IntN(c.pause + 1) {
					model = append(model, suspended)
					*clock = clock.Add(30 * time.Minute)
				}
				a := Suspend
				if suspended {
					a = Resume
				}
				_, err := service.move(context.Background(), tenantID, r.ID, a, nil, store.ByKey("key_a"))
				require.NoError(t, err)
				suspended = !suspended
			}
			model = append(model, suspended)
			node, err := store.Newest(context.Background(), service.db, api.Rights, r.ID)
			require.NoError(t, err)
			require.LessOrEqual(t, len(node.Suspensions), api.MostSuspensions)
			var moments []api.RightMoment
			var want []bool
			for i, s := range model {
				for _, at := range []time.Duration{0, 30*time.Minute - time.Millisecond} {
					m := api.RightMoment{RightID: r.ID, At: began.Add(time.Duration(i)*30*time.Minute + at)}
					moments, want = append(moments, m), append(want, s)
					got, asks := asked(node, m.At)
					if !asks {
						require.Equal(t, s, got, "a node, at %s: %+v", m.At, node)
						continue
					}
					if clock.Sub(m.At) < api.KnownSuspensionAge {
						require.Len(t, node.Suspensions, api.MostSuspensions, "within the last 31 days a node asks only if there are more")
						dropped++
					} else {
						aged++
					}
				}
			}
			all, err := Suspended(context.Background(), service.db, append(moments, api.RightMoment{RightID: "rgh_other", At: began}))
			require.NoError(t, err)
			require.Equal(t, append(want, false), all)
		})
	}
	require.Positive(t, dropped)
	require.Positive(t, aged)
}

// TestHistoryOfAnOlderDatabase: suspensions since the copy come back from the log, in whatever order,
// and nodes get them.
func TestHistoryOfAnOlderDatabase(t *testing.T) {
	service, basis, clock := clocked(t)
	r := service.mustIssue(t, basis, nil)
	for range 6 {
		for _, a := range []Action{Suspend, Resume} {
			*clock = clock.Add(time.Hour)
			_, err := service.move(t.Context(), tenantID, r.ID, a, nil, store.ByKey("key_a"))
			require.NoError(t, err)
		}
	}
	before, err := store.Newest(t.Context(), service.db, api.Rights, r.ID)
	require.NoError(t, err)
	require.Len(t, before.Suspensions, 6)
	logged := roomtest.Events(t, service.db)
	require.NoError(t, service.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM right_moves WHERE revision > $1`, r.Revision+4)
		return err
	}))
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(logged), func(i, j int) { logged[i], logged[j] = logged[j], logged[i] })
	replay := func() (changed int) {
		require.NoError(t, service.db.Change(t.Context(), func(tx *store.Tx) error {
			for i := range logged {
				did, err := ReplayMove(t.Context(), tx, &logged[i])
				require.NoError(t, err)
				if did {
					changed++
				}
			}
			return nil
		}))
		return changed
	}
	require.Equal(t, 8, replay())
	after, err := store.Newest(t.Context(), service.db, api.Rights, r.ID)
	require.NoError(t, err)
	require.Equal(t, before.Suspensions, after.Suspensions)
	require.Greater(t, after.Revision, before.Revision)
	require.Zero(t, replay(), "once more it is known")

	require.NoError(t, service.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM rights`)
		return err
	}))
	require.Zero(t, replay(), "a right without a record has no history")
}
