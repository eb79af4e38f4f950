package right

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// TestFiltersHaveIndexes: every filter on many rights finds the newest without scanning the others.
// With two filters, an index serves one of them. What ends in a time is found by that.
func TestFiltersHaveIndexes(t *testing.T) {
	service, basis := newService(t)
	rows := 5_000
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		rows = 50_000
	}
	const columns = `tenant_id, scope, effective_from, ancestors, holder_org_id, created_at, updated_at, revision, right_id, effective_until, basis_id, parent_right_id, substrate, state`
	fill := func(rows int, id, parent string) {
		roomtest.Fill(t, service.db, rows, "rights", columns, `'`+tenantID+`', '{}', 0, '', 'org_a', 0, 0, 0, '`+id+`' || CAST(i AS TEXT), i * 1000,
			CASE WHEN i % 1000 = 5 THEN 'bas_a' ELSE '`+basis.ID+`' END, `+parent+`,
			CASE WHEN i % 500 = 7 THEN 'DOOH' ELSE 'CTV' END, CASE WHEN i % 700 = 9 THEN 'REVOKED' ELSE 'ACTIVE' END`)
	}
	fill(rows/10, "rgh_b", "NULL")
	fill(rows, "rgh_a", "'rgh_b' || CAST(i % 400 + 1 AS TEXT)")
	soon := ending{after: store.At(time.UnixMilli(20_000)), by: store.At(time.UnixMilli(25_000))}
	for f, index := range map[filter]string{
		{}:                                     "rights_by_tenant",
		{basisID: "bas_a"}:                     "rights_by_basis",
		{substrate: "DOOH"}:                    "rights_by_substrate",
		{state: "REVOKED"}:                     "rights_by_state",
		{parentID: "rgh_b7"}:                   "rights_by_parent",
		{parentID: "rgh_b7", substrate: "CTV"}: "rights_by_",
		{basisID: "bas_a", state: "ACTIVE"}:    "rights_by_",
		{substrate: "DOOH", state: "ACTIVE"}:   "rights_by_",
		{ends: soon}:                           "rights_by_end",
		{ends: soon, substrate: "DOOH"}:        "rights_by_",
	} {
		for _, behind := range []string{"", "rgh_a3"} {
			plan := roomtest.Plans(t, service.db, func(q store.Querier) error {
				_, _, err := listRights(t.Context(), q, tenantID, f, store.Slice{Behind: behind, Limit: 50})
				return err
			})
			require.Contains(t, plan, index, "%+v", f)
			if behind != "" {
				require.Contains(t, plan, "right_id", "%+v: a page behind others", f)
			}
		}
	}
	roomtest.Fill(t, service.db, rows, "bases", `tenant_id, kind, title, holder_org_id, created_at, updated_at, revision, basis_id, effective_until`,
		`'`+tenantID+`', 'CONTRACT', '', 'org_a', 0, 0, 0, 'bas_b' || CAST(i AS TEXT), i * 1000`)
	for e, index := range map[ending]string{{}: "bases_by_tenant", soon: "bases_by_end"} {
		require.Contains(t, roomtest.Plans(t, service.db, func(q store.Querier) error {
			_, _, err := listBases(t.Context(), q, tenantID, e, store.Slice{Behind: "bas_z", Limit: 50})
			return err
		}), index)
	}
	roomtest.Fill(t, service.db, rows, "right_moves", `right_id, tenant_id, revision, state, moved_at`,
		`'rgh_m' || CAST(i % 2 AS TEXT), '`+tenantID+`', i, CASE WHEN i % 4 < 2 THEN 'SUSPENDED' ELSE 'ACTIVE' END, i * 1000`)
	require.Contains(t, roomtest.Plans(t, service.db, func(q store.Querier) error {
		_, err := suspendedAt(t.Context(), q, api.RightMoment{RightID: "rgh_m1", At: time.UnixMilli(20_000)})
		return err
	}), "right_moves_by_time")

	r := service.mustIssue(t, basis, nil)
	require.NotContains(t, roomtest.Plans(t, service.db, func(q store.Querier) error {
		_, err := view(t.Context(), q, r, service.db.Now())
		return err
	}), "bases", "that of a right in force says nothing more")
}
