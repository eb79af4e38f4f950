package clickhouse

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
)

func TestDrift(t *testing.T) {
	t.Parallel()
	server := stacktest.ClickHouse(t)
	conform.Drift(t, func(tb testing.TB) conform.AuditedEngine {
		w := mustOpen(tb, fresh(tb, server))
		// change changes one row, as a user with write access to the database can.
		change := func(statement string, args ...any) {
			require.NoError(tb, w.conn.Exec(tb.Context(), statement, args...))
		}
		return conform.AuditedEngine{Warehouse: w, Auditor: w, Spoil: conform.Spoil{
			Delete: func(r pipeline.Row) {
				change(`DELETE FROM events WHERE tenant_id = ? AND event_id = ?`, r.TenantID, r.EventID)
			},
			Alter: func(r pipeline.Row, quantityMs int64) {
				change(fmt.Sprintf(`ALTER TABLE events%s UPDATE quantity_ms = %d WHERE tenant_id = '%s' AND event_id = '%s' SETTINGS mutations_sync = 2`,
					onCluster(w.cluster), quantityMs, r.TenantID, r.EventID))
			},
			Decide: func(r pipeline.Row, duplicate bool) {
				if duplicate {
					change(`INSERT INTO duplicates (tenant_id, event_id, generation, log_partition, position, first_event_id) VALUES (?, ?, ?, ?, ?, 'evt_any')`,
						r.TenantID, r.EventID, r.Generation, r.Partition, r.Offset)
				} else {
					change(`DELETE FROM duplicates WHERE tenant_id = ? AND event_id = ?`, r.TenantID, r.EventID)
				}
			},
		}}
	})
}
