package challenge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
)

// TestFiltersHaveIndexes is as that of rights.
func TestFiltersHaveIndexes(t *testing.T) {
	r := newService(t, t.TempDir())
	roomtest.Right(t, r.db, "rgh_few", "{}")
	roomtest.Right(t, r.db, "rgh_many", "{}")
	roomtest.Fill(t, r.db, 5_000, "challenges", `tenant_id, challenger_org_id, reason, created_at, updated_at, revision, challenge_id, right_id, state`,
		`'tnt_a', 'org_b', 'why', 0, 0, 0, 'chl_' || CAST(i AS TEXT), CASE WHEN i % 700 = 3 THEN 'rgh_few' ELSE 'rgh_many' END,
		CASE WHEN i % 500 = 7 THEN 'OPEN' ELSE 'WITHDRAWN' END`)
	for f, index := range map[filter]string{
		{}:                   "challenges_by_tenant",
		{rightID: "rgh_few"}: "challenges_by_right",
		{state: "OPEN"}:      "challenges_by_state",
	} {
		require.Contains(t, roomtest.Plans(t, r.db, func(q store.Querier) error {
			_, _, err := list(t.Context(), q, tenantID, f, store.Slice{Behind: "chl_4", Limit: 50})
			return err
		}), index, "%+v", f)
	}
}
