package right

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
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
	require.Equal(t, 4, replay(), "resumptions are no stops")
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

// TestAncestorOfAnOlderDatabase: a copy from before a right was ever suspended has its suspensions back
// from the log; a node that starts then gets them, since rows of what derives from it depend on them.
func TestAncestorOfAnOlderDatabase(t *testing.T) {
	service, basis, clock := clocked(t)
	parent := service.mustIssue(t, basis, nil)
	require.NoError(t, service.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := Derive(t.Context(), tx, Derivation{ID: "rgh_child", TenantID: tenantID, ParentID: parent.ID, HolderOrgID: "org_b"}, store.ByKey("key_a"))
		return err
	}))
	firstCopy := func() []api.Change {
		first, err := service.db.Feed.Changes(t.Context(), api.FeedRequest{})
		require.NoError(t, err)
		return first.Changes
	}
	older, err := store.Newest(t.Context(), service.db, api.Rights, parent.ID)
	require.NoError(t, err)
	require.Empty(t, firstCopy())
	for _, a := range []Action{Suspend, Resume} {
		*clock = clock.Add(time.Hour)
		_, err := service.move(t.Context(), tenantID, parent.ID, a, nil, store.ByKey("key_a"))
		require.NoError(t, err)
	}
	logged := roomtest.Events(t, service.db)
	change := func(fn func(tx *store.Tx) error) { require.NoError(t, service.db.Change(t.Context(), fn)) }
	change(func(tx *store.Tx) error {
		c, err := api.Rights.Change(older)
		require.NoError(t, err)
		for statement, args := range map[string][]any{
			`DELETE FROM right_moves`: nil,
			`UPDATE feed SET stopped = 0, snapshot = $1, revision = $2 WHERE id = $3`: {string(c.Snapshot), c.Revision, parent.ID},
			`UPDATE rights SET revision = $1 WHERE right_id = $2`:                     {c.Revision, parent.ID},
		} {
			_, err := tx.ExecContext(t.Context(), statement, args...)
			require.NoError(t, err)
		}
		return nil
	})
	require.Empty(t, firstCopy())
	change(func(tx *store.Tx) error {
		for i := range logged {
			if _, err := ReplayMove(t.Context(), tx, &logged[i]); err != nil {
				return err
			}
		}
		return nil
	})
	first := firstCopy()
	require.Len(t, first, 1)
	r, err := api.Rights.Read(&first[0])
	require.NoError(t, err)
	require.Equal(t, parent.ID, r.ID)
	require.Len(t, r.Suspensions, 1)
}
