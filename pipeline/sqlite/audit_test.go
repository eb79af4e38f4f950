package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
)

func TestDrift(t *testing.T) {
	conform.Drift(t, func(tb testing.TB) conform.AuditedEngine {
		w, err := Open(tb.Context(), Config{Path: filepath.Join(tb.TempDir(), "warehouse.db")})
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, w.Close()) })
		// change changes one row, as a user with access to the file can.
		change := func(statement string, args ...any) {
			result, err := w.write.ExecContext(tb.Context(), statement, args...)
			require.NoError(tb, err)
			n, err := result.RowsAffected()
			require.NoError(tb, err)
			require.EqualValues(tb, 1, n, statement)
		}
		const ofRow = ` WHERE event_id = ? AND tenant = (SELECT tenant FROM tenants WHERE tenant_id = ?)`
		return conform.AuditedEngine{Warehouse: w, Auditor: w, Spoil: conform.Spoil{
			Delete: func(r pipeline.Row) { change(`DELETE FROM events`+ofRow, eventKey(r.EventID), r.TenantID) },
			Alter: func(r pipeline.Row, quantityMs int64) {
				change(`UPDATE events SET quantity_ms = ?`+ofRow, quantityMs, eventKey(r.EventID), r.TenantID)
			},
			Decide: func(r pipeline.Row, duplicate bool) {
				change(`UPDATE events SET duplicate = ?`+ofRow, duplicate, eventKey(r.EventID), r.TenantID)
				if duplicate {
					change(`INSERT INTO duplicates SELECT tenant, generation, position, log_partition, 1, 0, 0 FROM events`+ofRow, eventKey(r.EventID), r.TenantID)
				} else {
					change(`DELETE FROM duplicates WHERE (tenant, generation, position, log_partition) =
						(SELECT tenant, generation, position, log_partition FROM events`+ofRow+`)`, eventKey(r.EventID), r.TenantID)
				}
			},
		}}
	})
}

// TestHalfADecisionIsDrift: metering reads of the row what sealing reads of the table.
func TestHalfADecisionIsDrift(t *testing.T) {
	w, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	rows := deliveries(0, 4)
	require.NoError(t, w.Load(t.Context(), pipeline.Batch{Rows: rows, Next: rows[3].Next()}))
	from, to := rows[0].Position, rows[3].Next()
	misjudged, err := w.Misjudged(t.Context(), from, to)
	require.NoError(t, err)
	require.Empty(t, misjudged)
	_, err = w.write.ExecContext(t.Context(), `UPDATE events SET duplicate = TRUE WHERE position = 2`)
	require.NoError(t, err)
	misjudged, err = w.Misjudged(t.Context(), from, to)
	require.NoError(t, err)
	require.Len(t, misjudged, 1)
	require.Equal(t, rows[2].EventID, misjudged[0].EventID)
}
