package ingest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

func rejected(n int) api.RejectedPlay {
	return api.RejectedPlay{Hash: fmt.Sprint("hash ", n), Format: "broadsign", Play: fmt.Sprintf(`{"frame_id":%d}`, n), Error: `{"error":"VALIDATION_FAILED","field":"pop[0].end_time","message":"is missing"}`}
}

func (s *Service) keepAll(tenantID string, all ...api.RejectedPlay) error {
	_, err := s.Hold(context.Background(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rejected: all})
	return err
}

// kept lists a tenant's rejected plays, newest first.
func (s *Service) kept(t require.TestingT, tenantID string) []RejectedPlay {
	list, err := s.getRejected(as(tenantID), &struct{ route.Page }{route.Page{Limit: 500}})
	require.NoError(t, err)
	return list.Rejected
}

func as(tenantID string) context.Context {
	return auth.WithPrincipal(context.Background(), auth.Principal{Key: &api.Key{ID: "key_a", TenantID: tenantID}})
}

// TestRejectedPlays: each is kept once until it is dismissed, whatever the player repeats.
func TestRejectedPlays(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	row := api.RejectedPlay{Hash: "hash of the row", Format: "broadsign", Row: `{"vendorId":"1"}`, Error: `{"error":"PRECONDITION_FAILED","message":"no","violations":[]}`}
	require.NoError(t, r.keepAll(tenantID, rejected(1), row))
	again := rejected(1)
	again.Error = strings.Replace(again.Error, "missing", "too old", 1)
	require.NoError(t, r.keepAll(tenantID, again, rejected(2), rejected(2)))
	all := map[string]RejectedPlay{}
	for _, p := range r.kept(t, tenantID) {
		all[string(p.Row)+string(p.Play)] = p
	}
	require.Len(t, all, 3)
	first, asRow, second := all[`{"frame_id":1}`], all[`{"vendorId":"1"}`], all[`{"frame_id":2}`]
	require.Nil(t, first.Row)
	require.Nil(t, asRow.Play)
	require.Equal(t, api.RowError{Code: api.PreconditionFailed, Message: "no", Violations: json.RawMessage(`[]`)}, asRow.Error)
	require.Equal(t, []string{"is missing", "key_a", "broadsign"}, []string{first.Error.Message, first.KeyID, first.Format}, "as it came first")

	ids := []string{first.ID, second.ID, "rej_none"}
	dismiss := func(tenantID string) int64 {
		body, err := r.postDismiss(as(tenantID), &struct{ Body Dismissal }{Dismissal{ids}})
		require.NoError(t, err)
		return body.Dismissed
	}
	require.Zero(t, dismiss("tnt_b"))
	require.Equal(t, int64(2), dismiss(tenantID))
	require.Zero(t, dismiss(tenantID))
	require.Equal(t, []RejectedPlay{asRow}, r.kept(t, tenantID))

	require.Error(t, r.keepAll(tenantID, rejected(3), api.RejectedPlay{Hash: "x", Format: "broadsign", Play: "\x00", Error: `{}`}))
	require.Error(t, r.keepAll(tenantID, rejected(3), api.RejectedPlay{Hash: "x", Format: "broadsign", Error: "no"}))
	require.Len(t, r.kept(t, tenantID), 1, "all or none")
}

// TestDismissal: however many are dismissed at once, one event says how many.
func TestDismissal(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	var all []api.RejectedPlay
	for n := range 1100 {
		all = append(all, rejected(n))
	}
	require.NoError(t, r.keepAll(tenantID, all...))
	var ids []string
	require.NoError(t, EachRejected(t.Context(), r.db.Read(), tenantID, func(p RejectedPlay) error {
		ids = append(ids, p.ID)
		return nil
	}))
	body, err := r.postDismiss(as(tenantID), &struct{ Body Dismissal }{Dismissal{ids[1:]}})
	require.NoError(t, err)
	require.Equal(t, int64(1099), body.Dismissed)
	require.Equal(t, ids[0], r.kept(t, tenantID)[0].ID)
	events, err := store.List(t.Context(), r.db.Read(), "events", store.Text, `SELECT event FROM outbox`)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Contains(t, events[0], `"data":{"dismissed":1099}`)
}

// TestHeldPlaysOfPlayers: what a player has forgotten is kept when it can't be delivered after all.
func TestHeldPlaysOfPlayers(t *testing.T) {
	clock := roomtest.NewClock(noon)
	r := newService(t, t.TempDir(), clock, nil)
	one, other, late := held("1"), held("2"), held("3")
	one.Format, late.Format = "broadsign", "broadsign"
	ids := r.mustHold(t, one, other, late)
	require.NoError(t, r.db.Transact(t.Context(), func(tx *sql.Tx) error {
		why := &api.RowError{Code: api.StateConflict, Message: "the right was revoked"}
		return end(t.Context(), tx, tenantID, []endedRow{{id: ids[0], state: Replayed, refused: why}, {id: ids[1], state: Replayed, refused: why}}, store.At(noon))
	}))
	all := r.kept(t, tenantID)
	require.Len(t, all, 1)
	require.Equal(t, "the right was revoked", all[0].Error.Message)
	require.Contains(t, string(all[0].Row), `"vendorId":"1"`)

	clock.Advance(31 * 24 * time.Hour)
	require.NoError(t, r.Expire(t.Context()))
	all = r.kept(t, tenantID)
	require.Len(t, all, 2)
	require.Contains(t, string(all[0].Row), `"vendorId":"3"`)
	require.Equal(t, "playedAt", all[0].Error.Field)
}

// TestRejectedPlaysHaveABound: above it nothing is kept, so that players keep theirs; those that are kept
// may come again.
func TestRejectedPlaysHaveABound(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	var all []api.RejectedPlay
	for n := range mostRejected {
		all = append(all, rejected(n))
	}
	require.NoError(t, r.keepAll(tenantID, all...))
	require.NoError(t, r.keepAll(tenantID, all[:9]...))
	require.ErrorIs(t, r.keepAll(tenantID, rejected(0), rejected(mostRejected)), errRejectedFull)

	n, err := store.Count(t.Context(), r.db.Read(), "rejected plays", `SELECT COUNT(*) FROM rejected_plays WHERE tenant_id = $1`, tenantID)
	require.NoError(t, err)
	require.Equal(t, int64(mostRejected), n)

	r = newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	long := rejected(1)
	long.Play = `"` + strings.Repeat("x", mostRejectedBytes) + `"`
	require.ErrorIs(t, r.keepAll(tenantID, long), errRejectedFull)
	require.Empty(t, r.kept(t, tenantID))
}
