package ingest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/right"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// heldOn is a row on a right itself, which is suspended.
func heldOn(rightID string, n int) api.HeldRow {
	text := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"wall","rowId":"play-%d","playedAt":"2026-11-20T12:00:00Z","dwellMs":8.2e3}`, rightID, n)
	return api.HeldRow{
		Identity: api.RowIdentity{Hash: fmt.Sprint("hash of ", rightID, n)}, Reason: api.HeldRightSuspended, RightID: rightID,
		Content: fmt.Sprint("content ", n), PlayedAt: noon, Row: text,
	}
}

func (s *Service) moveRight(t *testing.T, id string, a right.Action) {
	t.Helper()
	require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := right.Move(t.Context(), tx, tenantID, id, a, nil, byKey)
		return err
	}))
}

// wake does what is due.
func (s *Service) wake(t *testing.T) error {
	t.Helper()
	require.NoError(t, s.Wake(t.Context()))
	return s.work(t)
}

// TestRowsOfASuspendedRight wait until it is resumed, or, if it derives from another, that one; each
// is delivered as it was sent, once. After a revocation they are refused.
func TestRowsOfASuspendedRight(t *testing.T) {
	stacktest.Both(t)
	n := newDeliverer()
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver = n.deliver })
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := right.Derive(t.Context(), tx, right.Derivation{ID: "rgh_child", TenantID: tenantID, ParentID: rightA, HolderOrgID: "org_b"}, byKey)
		return err
	}))
	r.moveRight(t, rightA, right.Suspend)
	r.moveRight(t, rightB, right.Suspend)
	row, child, other := heldOn(rightA, 1), heldOn("rgh_child", 2), heldOn(rightB, 3)
	ids := r.mustHold(t, row, child, other)
	require.Equal(t, ids, r.mustHold(t, row, child, other), "they are held already")
	require.NoError(t, r.wake(t))
	require.Empty(t, n.delivered, "as long as it is suspended")
	shown := r.rows(t)[ids[0]]
	require.Equal(t, []any{api.HeldRightSuspended, rightA, "", ""}, []any{shown.Reason, *shown.RightID, shown.Vendor, shown.vendorKey})
	require.Equal(t, at(30*24), shown.ExpiresAt)

	r.moveRight(t, rightA, right.Resume)
	n.suspended[rightA], n.lags = rightA, 1 // the node may not know it yet
	require.NoError(t, r.wake(t))
	require.Equal(t, map[string]int{row.Row: 1, child.Row: 1}, n.delivered)
	require.Equal(t, Replayed, r.rows(t)[ids[0]].State)

	r.moveRight(t, rightB, right.Revoke)
	n.refuse[""] = api.Conflict("the right is REVOKED")
	require.NoError(t, r.wake(t))
	refused := r.rows(t)[ids[2]]
	require.Equal(t, Replayed, refused.State)
	require.Equal(t, api.StateConflict, refused.Error.Code)
	require.Zero(t, r.requireUsage(t).rows)
}

// TestRowsThatWaitForAnother: a row of a vendor's id may have to wait for the mapping, then for the
// right, and for a mapping again.
func TestRowsThatWaitForAnother(t *testing.T) {
	n := newDeliverer()
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver = n.deliver })
	r.moveRight(t, rightA, right.Suspend)
	id := r.mustHold(t, held("1"))[0]
	m := r.mustCreate(t, mappingFor("1", rightA, -1, 0))
	require.NoError(t, r.work(t), "it was not for this play")
	r.mustCreate(t, mappingFor("1", rightA, 0, 1))
	n.suspended["1"], n.lags = rightA, 1
	require.NoError(t, r.work(t))
	require.Equal(t, []any{api.HeldRightSuspended, rightA}, []any{r.rows(t)[id].Reason, *r.rows(t)[id].RightID})
	require.NoError(t, r.wake(t))

	r.moveRight(t, rightA, right.Resume)
	n.unknown = "1"
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE mappings SET effective_until = effective_from WHERE mapping_id <> $1`, m.ID) // as if it had never been
		return err
	}))
	require.NoError(t, r.wake(t))
	require.Equal(t, api.HeldUnmapped, r.rows(t)[id].Reason)
	require.Nil(t, r.rows(t)[id].RightID)
	require.Empty(t, n.delivered)
	n.unknown = ""
	r.mustCreate(t, mappingFor("1", rightB, 0, 1))
	require.NoError(t, r.work(t))
	require.Equal(t, map[string]int{held("1").Row: 1}, n.delivered)
}

// TestExpiryHasAnEvent: of each row that expires, whatever it waited for, and of no other.
func TestExpiryHasAnEvent(t *testing.T) {
	clock := roomtest.NewClock(noon.Add(time.Hour))
	r := newService(t, t.TempDir(), clock, nil)
	r.moveRight(t, rightA, right.Suspend)
	ids := r.mustHold(t, held("1"), heldOn(rightA, 2))
	later := heldOn(rightA, 3)
	later.PlayedAt = noon.Add(time.Millisecond)
	r.mustHold(t, later)
	clock.Set(noon.Add(api.MaxRowAge + replayMargin))
	require.NoError(t, r.Expire(t.Context()))
	require.NoError(t, r.Expire(t.Context()))
	got := map[string]string{}
	for _, e := range roomtest.Events(t, r.db) {
		if e.Type != "held_row.expired" {
			continue
		}
		var data ExpiredRow
		require.NoError(t, json.Unmarshal(e.Data, &data))
		require.Equal(t, []any{e.Subject.ID, "held_row", at(0)}, []any{data.ID, e.Subject.Kind, data.PlayedAt})
		require.NotContains(t, got, data.ID)
		got[data.ID] = string(data.Reason)
		if data.RightID != nil {
			got[data.ID] += " " + *data.RightID
		}
	}
	require.Equal(t, map[string]string{ids[0]: "UNMAPPED", ids[1]: "RIGHT_SUSPENDED " + rightA}, got)
}
