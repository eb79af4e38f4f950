package main

import (
	"database/sql"
	"path/filepath"
	"testing"

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
	s.receipts(30)
	s.seal()
	shows := func(name string, least float64) func() bool {
		return func() bool {
			v, err := metric(s.server, name)
			return err == nil && v >= least
		}
	}
	// Records and decisions are each less than that.
	until(t, shows("muniment_metering_checked_total", 60), "the check goes through what there is")
	drift, err := metric(s.server, "muniment_metering_drift")
	require.NoError(t, err)
	require.Zero(t, drift)

	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.data, "warehouse.db")+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer db.Close()
	result, err := db.ExecContext(t.Context(), `DELETE FROM events WHERE class = 0 AND position = (SELECT MAX(position) FROM events WHERE class = 0)`)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	until(t, shows("muniment_metering_drift", 2), "a row is missing, and its pack is apart")
	require.Contains(t, s.log(), "log, warehouse and packs are apart")
}
