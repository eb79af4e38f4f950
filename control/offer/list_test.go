package offer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
)

// TestFiltersHaveIndexes is as that of rights. A list of EXPIRED offers also reads all
// PROPOSED ones, some of which are due but not stored as EXPIRED yet.
func TestFiltersHaveIndexes(t *testing.T) {
	r := newService(t, t.TempDir(), &clock{at: now.Time})
	roomtest.Right(t, r.db, "rgh_few", "{}")
	roomtest.Fill(t, r.db, 5_000, "offers", `tenant_id, from_org_id, to_org_id, scope, created_at, updated_at, revision, expires_at, offer_id, right_id, state`,
		`'tnt_a', 'org_a', 'org_b', '{}', 0, 0, 0, i, 'off_' || CAST(i AS TEXT), CASE WHEN i % 700 = 3 THEN 'rgh_few' ELSE '`+rightID+`' END,
		CASE WHEN i % 500 = 7 THEN 'PROPOSED' ELSE 'REJECTED' END`)
	for f, index := range map[filter]string{
		{}:                                      "offers_by_tenant",
		{rightID: "rgh_few"}:                    "offers_by_right",
		{state: "PROPOSED"}:                     "offers_",
		{state: "WITHDRAWN"}:                    "offers_by_state",
		{rightID: "rgh_few", state: "REJECTED"}: "offers_by_",
	} {
		require.Contains(t, roomtest.Plans(t, r.db, func(q store.Querier) error {
			_, _, err := list(t.Context(), q, tenantID, f, store.At(time.UnixMilli(2000)), store.Slice{Behind: "off_4", Limit: 50})
			return err
		}), index, "%+v", f)
	}
}
