package main

import (
	"database/sql"
	"fmt"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/pipeline/clickhouse"
	"muniment/pipeline/drift"
)

// requireNoDrift compares all of a log with a warehouse.
func requireNoDrift(t *testing.T, log pipeline.Reader, warehouse *clickhouse.Warehouse) {
	t.Helper()
	all := prometheus.NewRegistry()
	check, err := drift.New(drift.Config{Log: log, Loaded: warehouse.Resume, Auditor: warehouse, Registerer: all})
	require.NoError(t, err)
	require.NoError(t, check.Whole(t.Context()))
	families, err := all.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "muniment_metering_drift" {
				require.Zero(t, m.GetGauge().GetValue(), m.GetLabel())
			}
		}
	}
}

// TestDriftOfAService: a service that is used shows no drift, and shows it when a row is
// deleted from its warehouse.
func TestDriftOfAService(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.tenant = createTenant(t, s.data, "--scope", "*")
	s.client.Key = s.tenant.APIKey
	s.rights = issueRights(t, s.client)
	s.post("/v1/delivery", map[string]any{"rightId": s.rights["DOOH"], "spatialAnchorId": "a", "dwellMs": 5000, "dataSubjectId": person}, nil)
	s.receipts(30)
	shows := func(name string, least float64) func() bool {
		return func() bool {
			v, err := metric(s.server, name)
			return err == nil && v >= least
		}
	}
	stated := s.statedForDrift()
	// Records and decisions are each less than that.
	until(t, shows("muniment_metering_checked_total", 60), "the check goes through what there is")
	drift, err := metric(s.server, "muniment_metering_drift")
	require.NoError(t, err)
	require.Zero(t, drift)
	s.agrees()
	require.Equal(t, 1, erased(t, s.server, s.client.Key, person).Counts.PrivateParts)
	s.agrees()

	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.data, "warehouse.db")+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer db.Close()
	change := func(statement string) {
		result, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
		n, err := result.RowsAffected()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	}
	change(`UPDATE events SET quantity_ms = quantity_ms + 1000 WHERE class = 0 AND position = (SELECT MIN(position) FROM events WHERE class = 0 AND quantity_ms > 0)`)
	until(t, shows("muniment_metering_drift", 2), "a statement and its pack are apart")
	s.differs(stated)
	change(`UPDATE events SET quantity_ms = quantity_ms - 1000 WHERE class = 0 AND position = (SELECT MIN(position) FROM events WHERE class = 0 AND quantity_ms > 0)`)
	until(t, func() bool { v, err := metric(s.server, "muniment_metering_drift"); return err == nil && v == 0 }, "it is as it was")
	s.agrees()
	change(`DELETE FROM events WHERE class = 0 AND position = (SELECT MAX(position) FROM events WHERE class = 0)`)
	until(t, shows("muniment_metering_drift", 3), "a row is missing, and its pack and statement are apart")
	require.Contains(t, s.log(), "log, warehouse, packs and statements disagree")
}

// TestDriftOfStatementsOnTheStack: a statement whose rows somebody has changed in ClickHouse is found.
func TestDriftOfStatementsOnTheStack(t *testing.T) {
	s, c := scaledOut(t)
	s.settle()
	s.receipts(30)
	stated := s.statedForDrift()
	s.agrees()
	require.NoError(t, query("ALTER TABLE "+path.Base(c.ClickHouse)+".events UPDATE quantity_ms = quantity_ms + 1000 WHERE quantity_ms > 0 SETTINGS mutations_sync = 2"))
	s.differs(stated)
}

// reconciliation is what the service answers of today.
type reconciliation struct {
	Packs struct {
		Sealed, Loaded struct{ Entries, Receipts, QuantityMs int64 }
	}
	Statements  []struct{ Stated, Recomputed struct{ Receipts int64 } }
	Differences []struct{ Code, ID string }
}

func (s *service) reconciliation() (r reconciliation) {
	s.t.Helper()
	now := time.Now()
	s.get(fmt.Sprintf("/v1/settlement/reconciliation?from=%s&to=%s", now.Add(-time.Hour).UTC().Format(time.RFC3339), now.Add(time.Hour).UTC().Format(time.RFC3339)), &r)
	return r
}

// agrees: all that was delivered is sealed, loaded and stated alike.
func (s *service) agrees() {
	s.t.Helper()
	r := s.reconciliation()
	require.Empty(s.t, r.Differences)
	require.Equal(s.t, r.Packs.Sealed, r.Packs.Loaded)
	require.Positive(s.t, r.Packs.Sealed.Receipts)
	require.Len(s.t, r.Statements, 1)
	require.Equal(s.t, r.Statements[0].Stated, r.Statements[0].Recomputed)
	require.Positive(s.t, r.Statements[0].Stated.Receipts)
}

// differs: a pack and the statement are not what their rows are.
func (s *service) differs(statementID string) {
	s.t.Helper()
	r := s.reconciliation()
	var codes []string
	for _, d := range r.Differences {
		codes = append(codes, d.Code)
	}
	require.Equal(s.t, []string{"PACK_DIFFERS", "STATEMENT_DIFFERS"}, codes)
	require.Equal(s.t, statementID, r.Differences[1].ID)
	require.NotEqual(s.t, r.Packs.Sealed, r.Packs.Loaded)
}

// statedForDrift issues a statement about what was delivered.
func (s *service) statedForDrift() (statementID string) {
	s.t.Helper()
	now := time.Now()
	s.registerRules(now.Add(-2 * time.Hour))
	request := periodOf(now.Add(-time.Hour), now)
	request["to"] = time.Now().UTC().Format(time.RFC3339Nano)
	made := s.draft(request)
	s.post("/v1/settlement/statements/"+made.ID+"/issue", nil, nil)
	return made.ID
}
