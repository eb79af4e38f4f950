package service

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// TestDriftOfAService: a service that is used shows no drift, and shows it when a row is
// deleted from its warehouse.
func TestDriftOfAService(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	s.Tenant = systemtest.CreateTenant(t, s.Data, "--scope", "*")
	s.Client.Key = s.Tenant.APIKey
	s.Rights = systemtest.IssueRights(t, s.Client)
	s.Post("/v1/delivery", map[string]any{"rightId": s.Rights["DOOH"], "spatialAnchorId": "a", "dwellMs": 5000, "dataSubjectId": systemtest.Person}, nil)
	s.Receipts(30)
	shows := func(name string, least float64) func() bool {
		return func() bool {
			v, err := systemtest.Metric(s.Server, name)
			return err == nil && v >= least
		}
	}
	stated := s.StatedForDrift()
	// Records and decisions are each less than that.
	waittest.Until(t, shows("muniment_metering_checked_total", 60), "the check goes through what there is")
	drift, err := systemtest.Metric(s.Server, "muniment_metering_drift")
	require.NoError(t, err)
	require.Zero(t, drift)
	s.Agrees()
	require.Equal(t, 1, systemtest.Erased(t, s.Server, s.Client.Key, systemtest.Person).Counts.PrivateParts)
	s.Agrees()

	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.Data, "warehouse.db")+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer db.Close()
	result, err := db.ExecContext(t.Context(), `UPDATE events SET quantity_ms = quantity_ms + 1000 WHERE class = 0 AND position = (SELECT MIN(position) FROM events WHERE class = 0 AND quantity_ms > 0)`)
	require.NoError(t, err)
	changed, err := result.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, changed)
	waittest.Until(t, shows("muniment_metering_drift", 2), "a statement and its pack are apart")
	s.Differs(stated)
	require.Contains(t, s.Log(), "log, warehouse, packs and statements disagree")
}
