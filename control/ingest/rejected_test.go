package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/roomtest"
	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

func rejected(n int) api.RejectedPlay {
	return api.RejectedPlay{Format: "broadsign", Play: fmt.Sprintf(`{"frame_id":%d}`, n), Error: api.RowError{Code: api.ValidationFailed, Field: "pop[0].end_time", Message: "is missing"}}
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
	return auth.WithPrincipal(context.Background(), auth.Principal{Key: &api.Key{TenantID: tenantID}})
}

// TestRejectedPlays: each is kept once until it is dismissed, whatever the player repeats.
func TestRejectedPlays(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	row := api.RejectedPlay{Format: "broadsign", Row: `{"vendorId":"1"}`, Error: api.RowError{Code: api.PreconditionFailed, Message: "no", Violations: json.RawMessage(`[]`)}}
	require.NoError(t, r.keepAll(tenantID, rejected(1), row))
	again := rejected(1)
	again.Error.Message = "is too old"
	require.NoError(t, r.keepAll(tenantID, again, rejected(2), rejected(2)))
	all := map[string]RejectedPlay{}
	for _, p := range r.kept(t, tenantID) {
		all[string(p.Row)+string(p.Play)] = p
	}
	require.Len(t, all, 3)
	first, asRow, second := all[`{"frame_id":1}`], all[`{"vendorId":"1"}`], all[`{"frame_id":2}`]
	require.Nil(t, first.Row)
	require.Nil(t, asRow.Play)
	require.Equal(t, row.Error, asRow.Error)
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

	require.Error(t, r.keepAll(tenantID, rejected(3), api.RejectedPlay{Format: "broadsign", Play: "\x00"}))
	require.Len(t, r.kept(t, tenantID), 1, "all or none")
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
