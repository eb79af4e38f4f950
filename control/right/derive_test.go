package right

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// TestDeriveTakesTheRestFromTheParent derives rights from requests with holder and scope only.
func TestDeriveTakesTheRestFromTheParent(t *testing.T) {
	const window = "2026-01-01T00:00:00.000Z 2027-01-01T00:00:00.000Z"
	parent := mustIssue(t, "CTV", window, `{"regions":["US","CA"]}`, nil)
	from := lineage{basis: openBasis(), parent: &parent}
	d := Derivation{ID: "rgh_new", TenantID: "tnt_a", ParentID: parent.ID, HolderOrgID: "org_b", Scope: json.RawMessage(`{ "regions": ["CA"] }`), ContentHash: new("hash")}
	got, err := derive(d, from, now)
	require.NoError(t, err)
	require.Equal(t, Right{
		ID: "rgh_new", TenantID: "tnt_a", BasisID: "bas_a", Substrate: "CTV", Scope: json.RawMessage(`{"regions":["CA"]}`),
		EffectiveFrom: now, EffectiveUntil: parent.EffectiveUntil, ParentRightID: &parent.ID, Ancestors: []string{parent.ID},
		ContentHash: new("hash"), HolderOrgID: "org_b", State: api.RightActive, CreatedAt: now, UpdatedAt: now,
	}, got)

	early, err := derive(d, from, at("2025-12-31T23:59:59.999Z"))
	require.NoError(t, err)
	require.Equal(t, parent.EffectiveFrom, early.EffectiveFrom, "not before its parent")
	last := store.At(parent.EffectiveUntil.Add(-time.Millisecond))
	_, err = derive(d, from, last)
	require.NoError(t, err)

	conflict := func(from lineage, now store.Instant) string {
		_, err := derive(d, from, now)
		require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
		return err.Error()
	}
	require.Contains(t, conflict(from, parent.EffectiveUntil), "has ended")
	require.Contains(t, conflict(lineage{basis: openBasis(), parent: &parent, blocker: "rgh_root"}, now), "rgh_root")
	deepest := parent
	deepest.Ancestors = make([]string, maxDepth)
	require.Contains(t, conflict(lineage{basis: openBasis(), parent: &deepest}, now), "32 times")
	d.Scope = json.RawMessage(`{"regions":["MX"]}`)
	_, err = derive(d, from, now)
	require.Equal(t, "scope.regions", api.From(err).Field)
}

// TestOneChangeOfSeveralRooms derives a right and revokes its parent in one change,
// and then in one that fails: nothing is left of that.
func TestOneChangeOfSeveralRooms(t *testing.T) {
	service, basis := newService(t)
	parent := service.mustIssue(t, basis, nil)
	ctx, by := t.Context(), store.ByKey("key_a")
	id := api.NewID(api.PrefixRight, now.Time)
	change := func(tx *store.Tx) error {
		child, err := Derive(ctx, tx, Derivation{ID: id, TenantID: tenantID, ParentID: parent.ID, HolderOrgID: "org_b", Scope: json.RawMessage(`{}`)}, by)
		if err != nil {
			return err
		}
		require.Equal(t, id, child.ID)
		require.Equal(t, api.RightActive, child.EffectiveState)
		revoked, err := Move(ctx, tx, tenantID, parent.ID, Revoke, new("why"), by)
		if err != nil {
			return err
		}
		require.Equal(t, child.Revision, revoked.Revision, "one change is one revision")
		again, err := Move(ctx, tx, tenantID, parent.ID, Revoke, new("again"), by)
		require.Equal(t, revoked, again)
		return err
	}
	before := len(roomtest.Events(t, service.db))
	require.ErrorIs(t, service.db.Change(ctx, func(tx *store.Tx) error {
		require.NoError(t, change(tx))
		return context.Canceled
	}), context.Canceled)
	require.Len(t, roomtest.Events(t, service.db), before)
	_, err := Find(ctx, service.db.Read(), tenantID, id)
	require.Equal(t, api.ResourceNotFound, api.From(err).Code)

	require.NoError(t, service.db.Change(ctx, change))
	var logged []string
	for _, e := range roomtest.Events(t, service.db)[before:] {
		logged = append(logged, e.Type+" "+e.Subject.ID)
	}
	require.Equal(t, []string{"right.issued " + id, "right.revoked " + parent.ID}, logged)
	child, err := FindView(ctx, service.db.Read(), tenantID, id, service.db.Now())
	require.NoError(t, err)
	require.Equal(t, api.RightRevoked, child.EffectiveState)
	require.Equal(t, parent.ID, *child.BlockedBy)
	_, err = Find(ctx, service.db.Read(), "tnt_other", id)
	require.Equal(t, api.NotFound("right"), api.From(err))
}
