package dispute

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
)

// TestFiltersHaveIndexes is as that of rights.
func TestFiltersHaveIndexes(t *testing.T) {
	r := newService(t, t.TempDir())
	roomtest.Right(t, r.db, "rgh_few", "{}")
	roomtest.Right(t, r.db, "rgh_many", "{}")
	roomtest.Fill(t, r.db, 5_000, "disputes", `tenant_id, raised_by_org_id, reason, evidence, created_at, updated_at, revision, first_rendered_at, last_rendered_at, receipt_ids, dispute_id, right_id, state, outcome`,
		`'tnt_a', 'org_b', 'why', '[]', 0, 0, 0, i, i + 100, '', 'dsp_' || CAST(i AS TEXT), CASE WHEN i % 700 = 3 THEN 'rgh_few' ELSE 'rgh_many' END,
		CASE WHEN i % 500 = 7 THEN 'OPEN' ELSE 'RESOLVED' END, CASE WHEN i % 500 = 7 THEN NULL WHEN i % 100 = 9 THEN 'UPHELD' ELSE 'REJECTED' END`)
	roomtest.Fill(t, r.db, 5_000, "dispute_receipts", `tenant_id, dispute_id, receipt_id`, `'tnt_a', 'dsp_' || CAST(i AS TEXT), 'rcp_' || CAST(i % 1000 AS TEXT)`)
	for f, index := range map[filter]string{
		{}:                   "disputes_by_tenant",
		{rightID: "rgh_few"}: "disputes_by_right",
		{state: "OPEN"}:      "disputes_by_state",
		{receiptID: "rcp_7"}: "dispute_receipts",
	} {
		require.Contains(t, roomtest.Plans(t, r.db, func(q store.Querier) error {
			_, _, err := list(t.Context(), q, tenantID, f, store.Slice{Behind: "dsp_4", Limit: 50})
			return err
		}), index, "%+v", f)
	}
	period := Window{From: store.At(time.UnixMilli(4_000)), To: store.At(time.UnixMilli(4_100))}
	require.Contains(t, roomtest.Plans(t, r.db, func(q store.Querier) error {
		_, err := Holding(t.Context(), q, tenantID, period)
		return err
	}), "disputes_that_exclude")
	require.Contains(t, roomtest.Plans(t, r.db, func(q store.Querier) error {
		_, err := listUpheld(t.Context(), q, tenantID, period)
		return err
	}), "disputes_that_exclude")
}
