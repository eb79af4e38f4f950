package right

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

const tenantID = "tnt_a"

// newService is a service over a database file with one tenant and one open basis.
func newService(t *testing.T) (*Service, Basis) {
	t.Helper()
	db := roomtest.Open(t, t.TempDir(), nil)
	r, err := New(Config{DB: db, Nodes: roomtest.Alone{}})
	require.NoError(t, err)
	b := Basis{TenantID: tenantID, Kind: "CONTRACT", Title: "Frame agreement", HolderOrgID: "org_a"}
	require.NoError(t, r.createBasis(t.Context(), &b, store.ByOperator()))
	return r, b
}

func (s *Service) mustIssue(t require.TestingT, b Basis, parent *string) Right {
	requested := rightFor("CTV", "2026-01-01T00:00:00.000Z -", `{}`)
	requested.TenantID, requested.BasisID = tenantID, b.ID
	got, err := s.issueRight(context.Background(), requested, parent, store.ByKey("key_a"))
	require.NoError(t, err)
	return got.Right
}

// TestRightsAgainstAModel makes random moves on a growing tree of rights. The model is a map of states
// and parents, and a list of the expected events.
func TestRightsAgainstAModel(t *testing.T) {
	stacktest.Both(t)
	service, basis := newService(t)
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		type entry struct {
			state  api.RightState
			parent string
		}
		model, ids := map[string]entry{}, []string{}
		worst := func(id string) api.RightState {
			state := api.RightActive
			for ; id != ""; id = model[id].parent {
				state = severity[max(slices.Index(severity, state), slices.Index(severity, model[id].state))]
			}
			return state
		}
		var logged []string
		before := len(roomtest.Events(t, service.db))
		f, err := service.db.Feed.Changes(ctx, api.FeedRequest{After: 1})
		require.NoError(t, err)
		newest := f.Newest

		for range rapid.IntRange(1, 12).Draw(t, "moves") {
			if len(ids) == 0 || rapid.IntRange(0, 3).Draw(t, "issue?") == 0 {
				parent := rapid.SampledFrom(append([]string{""}, ids...)).Draw(t, "parent")
				requested := rightFor("CTV", "2026-01-01T00:00:00.000Z -", `{}`)
				requested.TenantID, requested.BasisID = tenantID, basis.ID
				var ref *string
				if parent != "" {
					ref = &parent
				}
				got, err := service.issueRight(ctx, requested, ref, store.ByKey("key_a"))
				if parent != "" && worst(parent) != api.RightActive {
					require.Equal(t, api.StateConflict, api.From(err).Code)
					continue
				}
				require.NoError(t, err)
				model[got.ID] = entry{api.RightActive, parent}
				ids, logged = append(ids, got.ID), append(logged, "right.issued "+got.ID)
				continue
			}
			id := rapid.SampledFrom(ids).Draw(t, "right")
			action := rapid.SampledFrom([]Action{Suspend, Resume, Revoke}).Draw(t, "action")
			was := model[id]
			got, err := service.move(ctx, tenantID, id, action, nil, store.ByKey("key_a"))
			switch {
			case action == Suspend && was.state == api.RightActive:
				was.state = api.RightSuspended
				logged = append(logged, "right.suspended "+id)
			case action == Resume && was.state == api.RightSuspended:
				was.state = api.RightActive
				logged = append(logged, "right.resumed "+id)
			case action == Revoke && was.state != api.RightRevoked:
				was.state = api.RightRevoked
				logged = append(logged, "right.revoked "+id)
			case action == Revoke:
			default:
				require.Equal(t, api.StateConflict, api.From(err).Code)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, was.state, got.State)
			model[id] = was
		}

		for id, want := range model {
			r, err := rights.Find(ctx, service.db.Read(), tenantID, id)
			require.NoError(t, err)
			v, err := view(ctx, service.db.Read(), *r, service.db.Now())
			require.NoError(t, err)
			require.Equal(t, want.state, v.State)
			require.Equal(t, worst(id), v.EffectiveState)
			require.Equal(t, want.state != worst(id), v.BlockedBy != nil)
		}
		var got []string
		last := newest
		for _, e := range roomtest.Events(t, service.db)[before:] {
			got = append(got, e.Type+" "+e.Subject.ID)
			var record Right
			require.NoError(t, json.Unmarshal(e.Data, &record))
			require.Equal(t, e.Subject.ID, record.ID)
			require.Greater(t, record.Revision, last, "revisions rise in the order of the events")
			last = record.Revision
		}
		require.Equal(t, logged, got, "each change has one event, and nothing else has")
	})
}

func TestOneOfManySuspensionsWins(t *testing.T) {
	stacktest.Both(t)
	service, basis := newService(t)
	r := service.mustIssue(t, basis, nil)
	errs := make([]error, 16)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = service.move(t.Context(), tenantID, r.ID, Suspend, nil, store.ByKey("key_a")) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		require.Equal(t, api.StateConflict, api.From(err).Code)
	}
	require.Equal(t, 1, won)
	require.Len(t, roomtest.Events(t, service.db), 3, "basis.created, right.issued, and one right.suspended")
}

// TestStaleRecordLoses is the race that one writing connection hides, and that a
// server with many has: the record changed after it was read.
func TestStaleRecordLoses(t *testing.T) {
	service, basis := newService(t)
	r := service.mustIssue(t, basis, nil)
	older := r
	older.Revision--
	err := service.db.Change(t.Context(), func(tx *store.Tx) error { return rights.Update(t.Context(), tx, &older, &r) })
	require.Equal(t, api.StateConflict, api.From(err).Code)
}

func TestLists(t *testing.T) {
	service, basis := newService(t)
	var issued []string
	for range 5 {
		issued = append(issued, service.mustIssue(t, basis, nil).ID)
	}
	slices.Sort(issued)
	slices.Reverse(issued)
	var seen []string
	page := store.Slice{Limit: 2}
	for pages := 0; ; pages++ {
		require.Less(t, pages, 3, "the list must end")
		rows, next, err := listRights(t.Context(), service.db.Read(), tenantID, filter{}, page)
		require.NoError(t, err)
		for _, r := range rows {
			seen = append(seen, r.ID)
		}
		if next == "" {
			break
		}
		page.Behind = next
	}
	require.Equal(t, issued, seen)

	child := service.mustIssue(t, basis, &issued[0])
	_, err := service.move(t.Context(), tenantID, issued[1], Revoke, nil, store.ByOperator())
	require.NoError(t, err)
	for f, want := range map[filter][]string{
		{parentID: issued[0]}:                  {child.ID},
		{state: "REVOKED"}:                     {issued[1]},
		{substrate: "AUDIO"}:                   nil,
		{basisID: "bas_other"}:                 nil,
		{basisID: basis.ID, state: "REVOKED"}:  {issued[1]},
		{substrate: "CTV", parentID: child.ID}: nil,
	} {
		rows, _, err := listRights(t.Context(), service.db.Read(), tenantID, f, store.Slice{Limit: 10})
		require.NoError(t, err)
		var ids []string
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		require.Equal(t, want, ids, fmt.Sprintf("%+v", f))
	}
}

// TestListsOfWhatEnds: an end is exclusive, so what ends at the moment from which on somebody looks has ended; what has no end is in none of
// these lists.
func TestListsOfWhatEnds(t *testing.T) {
	stacktest.Both(t)
	service, open := newService(t)
	at := func(text string) store.Instant {
		moment, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return store.At(moment)
	}
	first, second := at("2090-11-10T00:00:00Z"), at("2090-11-20T00:00:00Z")
	names := map[string]string{open.ID: "open", service.mustIssue(t, open, nil).ID: "open"}
	for name, end := range map[string]store.Instant{"first": first, "second": second} {
		b := Basis{TenantID: tenantID, Kind: "CONTRACT", Title: name, HolderOrgID: "org_a", EffectiveUntil: end}
		require.NoError(t, service.createBasis(t.Context(), &b, store.ByOperator()))
		names[b.ID], names[service.mustIssue(t, b, nil).ID] = name, name
	}
	for e, want := range map[ending][]string{
		{}:                               {"first", "open", "second"},
		{by: second}:                     {"first", "second"},
		{by: first}:                      {"first"},
		{after: first}:                   {"second"},
		{after: first, by: second}:       {"second"},
		{after: second}:                  nil,
		{by: at("2090-11-09T00:00:00Z")}: nil,
	} {
		var ofBases, ofRights []string
		bases, _, err := listBases(t.Context(), service.db.Read(), tenantID, e, store.Slice{Limit: 10})
		require.NoError(t, err)
		for _, b := range bases {
			if name := names[b.ID]; name != "" {
				ofBases = append(ofBases, name)
			}
		}
		rights, _, err := listRights(t.Context(), service.db.Read(), tenantID, filter{ends: e}, store.Slice{Limit: 10})
		require.NoError(t, err)
		for _, r := range rights {
			ofRights = append(ofRights, names[r.ID])
		}
		require.ElementsMatch(t, want, ofBases, "%v", e)
		require.ElementsMatch(t, want, ofRights, "%v", e)
	}
}

func TestSnapshotCarriesTheAncestors(t *testing.T) {
	service, basis := newService(t)
	root := service.mustIssue(t, basis, nil)
	child := service.mustIssue(t, basis, &root.ID)
	grandchild := service.mustIssue(t, basis, &child.ID)
	s, err := store.Newest(t.Context(), service.db, api.Rights, grandchild.ID)
	require.NoError(t, err)
	require.Equal(t, []string{child.ID, root.ID}, s.Ancestors)
	require.Equal(t, grandchild.Revision, s.Revision)
}
