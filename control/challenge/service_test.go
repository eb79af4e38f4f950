package challenge

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/right"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

const tenantID = "tnt_a"

// newService is a service on the database of a folder, with one tenant. Made again on the
// same folder it is another process's.
func newService(t *testing.T, dir string) *Service {
	t.Helper()
	db := roomtest.Open(t, dir, nil)
	r, err := New(Config{DB: db, Nodes: roomtest.Alone{}})
	require.NoError(t, err)
	return r
}

// right puts an ACTIVE one into the database.
func (s *Service) right(t *testing.T, id string) string {
	t.Helper()
	roomtest.Right(t, s.db, id, `{}`)
	return id
}

var byKey = store.ByKey("key_a")

func (s *Service) mustOpen(t *testing.T, rightID string) Challenge {
	t.Helper()
	c, err := s.open(t.Context(), Challenge{TenantID: tenantID, RightID: rightID, ChallengerOrgID: "org_c", Reason: "ours"}, "org_a", byKey)
	require.NoError(t, err)
	return c
}

func (s *Service) do(ctx context.Context, id string, a Action) (Challenge, right.View, error) {
	return s.close(ctx, closing{tenantID: tenantID, id: id, action: a, resolution: new("why"), tenantOrgID: "org_a", by: byKey})
}

func (s *Service) logged(t *testing.T) (list []string) {
	t.Helper()
	for _, e := range roomtest.Events(t, s.db) {
		var data struct{ ActingOrgID, AssertedBy string }
		require.NoError(t, json.Unmarshal(e.Data, &data))
		if e.Subject.Kind == "challenge" {
			require.Equal(t, "org_a", data.AssertedBy)
		}
		list = append(list, e.Type+" "+e.Subject.ID+" "+data.ActingOrgID)
	}
	return list
}

func conflict(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
}

func TestUpholdRevokesInOneChange(t *testing.T) {
	r := newService(t, t.TempDir())
	rightID := r.right(t, "rgh_a")
	first, second, third := r.mustOpen(t, rightID), r.mustOpen(t, rightID), r.mustOpen(t, rightID)
	_, of, err := r.do(t.Context(), first.ID, Overturn)
	require.NoError(t, err)
	require.Equal(t, api.RightActive, of.State)
	closed, of, err := r.do(t.Context(), second.ID, Uphold)
	require.NoError(t, err)
	require.Equal(t, Upheld, closed.State)
	require.Equal(t, api.RightRevoked, of.State)
	require.Equal(t, "challenge "+second.ID+" was upheld", *of.StateReason)
	require.Equal(t, closed.Revision, of.Revision, "one change")
	snapshot, err := store.Newest(t.Context(), r.db, api.Rights, rightID)
	require.NoError(t, err)
	require.Equal(t, api.RightRevoked, snapshot.State, "nodes get the new state")

	// The right is revoked already: it stays as it was, without another event.
	_, again, err := r.do(t.Context(), third.ID, Uphold)
	require.NoError(t, err)
	require.Equal(t, of, again)
	for _, a := range []Action{Uphold, Overturn, Withdraw} {
		_, _, err = r.do(t.Context(), second.ID, a)
		conflict(t, err)
	}
	_, err = r.open(t.Context(), Challenge{TenantID: tenantID, RightID: rightID, ChallengerOrgID: "org_c", Reason: "ours"}, "org_a", byKey)
	conflict(t, err)
	require.Equal(t, []string{
		"challenge.opened " + first.ID + " org_c", "challenge.opened " + second.ID + " org_c", "challenge.opened " + third.ID + " org_c",
		"challenge.overturned " + first.ID + " org_a", "challenge.upheld " + second.ID + " org_a", "right.revoked " + rightID + " ",
		"challenge.upheld " + third.ID + " org_a",
	}, r.logged(t))
}

// TestOneOfManyResolutionsWins has callers resolve and withdraw one challenge at once,
// through two processes where a database has several.
func TestOneOfManyResolutionsWins(t *testing.T) {
	stacktest.Both(t)
	dir := t.TempDir()
	services := []*Service{newService(t, dir)}
	if services[0].db.Shared() {
		services = append(services, newService(t, dir))
	}
	rightID := services[0].right(t, "rgh_a")
	c := services[0].mustOpen(t, rightID)
	errs := make([]error, 32)
	var callers sync.WaitGroup
	for i := range errs {
		a := []Action{Uphold, Overturn, Withdraw}[i%3]
		callers.Go(func() { _, _, errs[i] = services[i%len(services)].do(t.Context(), c.ID, a) })
	}
	callers.Wait()
	require.Len(t, slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err != nil }), 1)
	for _, err := range errs {
		if err != nil {
			conflict(t, err)
		}
	}
	closed, err := challenges.Find(t.Context(), services[0].db.Read(), tenantID, c.ID)
	require.NoError(t, err)
	of, err := right.Find(t.Context(), services[0].db.Read(), tenantID, rightID)
	require.NoError(t, err)
	require.Equal(t, closed.State == Upheld, of.State == api.RightRevoked)
	require.Len(t, services[0].logged(t), map[bool]int{true: 3, false: 2}[closed.State == Upheld])
}

// TestStaleRecordLoses is the race that changes which run one at a time hide.
func TestStaleRecordLoses(t *testing.T) {
	r := newService(t, t.TempDir())
	c := r.mustOpen(t, r.right(t, "rgh_a"))
	older := c
	older.Revision--
	conflict(t, r.db.Change(t.Context(), func(tx *store.Tx) error { return challenges.Update(t.Context(), tx, &older, &c) }))
}

func TestLists(t *testing.T) {
	r := newService(t, t.TempDir())
	var made []string
	for _, id := range []string{"rgh_a", "rgh_b", "rgh_c"} {
		made = append(made, r.mustOpen(t, r.right(t, id)).ID)
	}
	_, _, err := r.do(t.Context(), made[1], Withdraw)
	require.NoError(t, err)
	newest := slices.Sorted(slices.Values(made))
	slices.Reverse(newest)
	ids := func(f filter, behind string, limit int) (ids []string) {
		page, next, err := list(t.Context(), r.db.Read(), tenantID, f, store.Slice{Behind: behind, Limit: limit})
		require.NoError(t, err)
		for _, c := range page {
			ids = append(ids, c.ID)
		}
		if next != "" {
			ids = append(ids, "and more")
		}
		return ids
	}
	require.Equal(t, []string{newest[0], "and more"}, ids(filter{}, "", 1))
	require.Equal(t, newest[2:], ids(filter{}, newest[1], 1))
	require.Equal(t, made[:1], ids(filter{rightID: "rgh_a"}, "", 10))
	require.Equal(t, made[1:2], ids(filter{state: "WITHDRAWN"}, "", 10))
	require.Empty(t, ids(filter{state: "WITHDRAWN", rightID: "rgh_a"}, "", 10))
	n, err := r.Count(t.Context(), tenantID)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}

// TestReplay brings the challenges of an older database to the log's state.
func TestReplay(t *testing.T) {
	r := newService(t, t.TempDir())
	replay := func(e sealer.Event) (changed bool) {
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) (err error) {
			changed, err = Replay(t.Context(), tx, &e)
			return err
		}))
		return changed
	}
	of := map[string]Challenge{}
	for _, a := range []Action{Uphold, Overturn, Withdraw} {
		c := r.mustOpen(t, r.right(t, "rgh_"+string(a)))
		closed, _, err := r.do(t.Context(), c.ID, a)
		require.NoError(t, err)
		of[c.ID] = closed
		// The copy is from before.
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error { return challenges.Update(t.Context(), tx, &closed, &c) }))
	}
	still := r.mustOpen(t, r.right(t, "rgh_other"))
	replayed := 0
	for _, e := range roomtest.Events(t, r.db) {
		if replay(e) {
			replayed++
			require.False(t, replay(e), "nothing new")
		}
	}
	require.Equal(t, len(of), replayed)
	for id, closed := range of {
		now, err := challenges.Find(t.Context(), r.db.Read(), tenantID, id)
		require.NoError(t, err)
		require.Equal(t, closed, *now)
	}
	same, err := challenges.Find(t.Context(), r.db.Read(), tenantID, still.ID)
	require.NoError(t, err)
	require.Equal(t, still, *same)
	require.False(t, replay(sealer.Event{TenantID: tenantID, Type: "challenge.upheld", Subject: sealer.Ref{Kind: "challenge", ID: "chg_unknown"}, Data: []byte(`{}`)}))
	require.False(t, replay(sealer.Event{TenantID: "tnt_other", Type: "challenge.upheld", Subject: sealer.Ref{Kind: "challenge", ID: still.ID}, Data: []byte(`{"state":"UPHELD"}`)}))
	require.False(t, replay(sealer.Event{TenantID: tenantID, Type: "right.revoked", Subject: sealer.Ref{Kind: "right", ID: still.ID}, Data: []byte(`{"state":"REVOKED"}`)}))
}
