package ingest

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
)

// TestListsHaveIndexes: every query on many mappings and held rows finds the newest without scanning
// the others; so do the queries for overlaps and for waiting rows.
func TestListsHaveIndexes(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	rows := 5_000
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		rows = 50_000
	}
	roomtest.Fill(t, r.db, rows, "mappings", `mapping_id, tenant_id, vendor_key, vendor, id_type, vendor_id, right_id, spatial_anchor_id, effective_from, effective_until, state, created_at, updated_at, revision`,
		`'map_' || CAST(i AS TEXT), 'tnt_a', 'vid_' || CAST(i / 10 AS TEXT), CASE WHEN i % 1000 = 5 THEN 'acme' ELSE 'other' END, CASE WHEN i % 900 = 5 THEN 'player' ELSE 'screen' END,
		CAST(i / 10 AS TEXT), CASE WHEN i % 800 = 7 THEN 'rgh_a' ELSE 'rgh_b' END, 'wall', i * 1000, i * 1000 + 1000, CASE WHEN i % 700 = 9 THEN 'RETIRED' ELSE 'ACTIVE' END, 0, 0, 0`)
	roomtest.Fill(t, r.db, rows/10, "mapping_totals", `tenant_id, vendor, id_type, right_id, state, row_count`, `'tnt_' || CAST(i AS TEXT), 'acme', 'player', 'rgh_a', 'ACTIVE', 1`)
	roomtest.Fill(t, r.db, rows, "held_rows", `held_id, tenant_id, key_id, identity_hash, identity_day, content_hash, vendor_key, vendor, id_type, vendor_id, played_at, row_text, data_subjects, telemetry, bytes, state, receipt_id, error, expires_at, created_at, updated_at`,
		`'hld_' || CAST(i AS TEXT), 'tnt_a', 'key_a', CAST(i AS TEXT), '', '', 'vid_' || CAST(i % 300 AS TEXT), 'acme', 'player', CAST(i % 300 AS TEXT), i * 1000, '{}', '', '', 1,
		CASE WHEN i % 700 = 9 THEN 'REPLAYED' ELSE 'HELD' END, '', '', i * 1000, 0, 0`)
	roomtest.Fill(t, r.db, rows, "held_mapped", `tenant_id, vendor_key`, `'tnt_' || CASE WHEN i < 10 THEN 'a' ELSE 'b' END, 'vid_' || CAST(i AS TEXT)`)
	plans := func(requested func(q store.Querier) error) string {
		t.Helper()
		return roomtest.Plans(t, r.db, requested)
	}
	for f, index := range map[filter]string{
		{}:                                 "mappings_by_tenant",
		{vendor: "acme"}:                   "mappings_by_vendor",
		{idType: "player"}:                 "mappings_by_type",
		{vendorID: "7"}:                    "mappings_by_vendor_id",
		{rightID: "rgh_a"}:                 "mappings_by_right",
		{state: "RETIRED"}:                 "mappings_by_state",
		{vendor: "acme", state: "RETIRED"}: "mappings_by_",
	} {
		for _, behind := range []string{"", "map_3"} {
			require.Contains(t, plans(func(q store.Querier) error {
				_, _, err := list(t.Context(), q, tenantID, f, store.Slice{Behind: behind, Limit: 50})
				return err
			}), index, "%+v", f)
		}
		counted := "mapping_totals"
		if f.vendorID != "" {
			counted = "mappings_by_vendor_id"
		}
		require.Contains(t, plans(func(q store.Querier) error {
			_, err := total(t.Context(), q, tenantID, f)
			return err
		}), counted, "%+v", f)
	}
	for _, end := range []store.Instant{{}, at(3)} {
		require.Contains(t, plans(func(q store.Querier) error {
			_, err := lastBefore(t.Context(), q, "vid_7", end)
			return err
		}), "mappings_in_force")
	}
	require.Contains(t, plans(func(q store.Querier) error {
		_, err := listWindows(t.Context(), q, "vid_7", at(3))
		return err
	}), "mappings_in_force")
	for _, until := range []float64{0, 4} {
		m := mappingFor("7", rightA, 3, until)
		m.VendorKey = "vid_7"
		require.Contains(t, plans(func(q store.Querier) error {
			_, err := waits(t.Context(), q, &m)
			return err
		}), "held_rows_waiting")
	}
	require.Contains(t, plans(func(q store.Querier) error {
		_, err := (&HeldRow{vendorKey: "vid_7", PlayedAt: at(1)}).mapped(t.Context(), q)
		return err
	}), "mappings_in_force")
	for _, behind := range []string{"", "vid_3"} {
		plan := plans(func(q store.Querier) error {
			_, err := listMapped(t.Context(), q, tenantID, behind, map[string]bool{"key_b": true}, store.At(time.UnixMilli(0)), 50)
			return err
		})
		for _, index := range []string{"held_mapped", "mappings_in_force", "held_rows_waiting"} {
			require.Contains(t, plan, index)
		}
		for f, index := range map[heldFilter]string{
			{}: "held_rows_by_tenant", {vendorID: "7"}: "held_rows_by_vendor_id", {state: "REPLAYED"}: "held_rows_by_state",
			{reason: "RIGHT_SUSPENDED"}: "held_rows_by_reason", {rightID: "rgh_7"}: "held_rows_by_right"} {
			require.Contains(t, plans(func(q store.Querier) error {
				_, _, err := listHeld(t.Context(), q, tenantID, f, store.Slice{Behind: behind, Limit: 50})
				return err
			}), index)
		}
	}
	require.Contains(t, plans(func(q store.Querier) error {
		_, err := listDue(t.Context(), q, Held, at(0), 50)
		return err
	}), "held_rows_by_end")
	require.Contains(t, plans(func(q store.Querier) error {
		_, err := findHeld(t.Context(), q, tenantID, held("7").Identity)
		return err
	}), "held_rows_by_identity")
}
