package systemtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/drift"
)

// RequireNoDrift compares all of a log with a warehouse.
func RequireNoDrift(t *testing.T, log pipeline.Reader, warehouse *clickhouse.Warehouse) {
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

// reconciliation is what the service answers of today.
type reconciliation struct {
	Packs struct {
		Sealed, Loaded struct{ Entries, Receipts, QuantityMs int64 }
	}
	Statements  []struct{ Stated, Recomputed struct{ Receipts int64 } }
	Differences []struct{ Code, ID string }
}

func (s *Service) reconciliation() (r reconciliation) {
	s.T.Helper()
	now := time.Now()
	s.Get(fmt.Sprintf("/v1/settlement/reconciliation?from=%s&to=%s", now.Add(-time.Hour).UTC().Format(time.RFC3339), now.Add(time.Hour).UTC().Format(time.RFC3339)), &r)
	return r
}

// agrees: all that was delivered is sealed, loaded and stated alike.
func (s *Service) Agrees() {
	s.T.Helper()
	r := s.reconciliation()
	require.Empty(s.T, r.Differences)
	require.Equal(s.T, r.Packs.Sealed, r.Packs.Loaded)
	require.Positive(s.T, r.Packs.Sealed.Receipts)
	require.Len(s.T, r.Statements, 1)
	require.Equal(s.T, r.Statements[0].Stated, r.Statements[0].Recomputed)
	require.Positive(s.T, r.Statements[0].Stated.Receipts)
}

// differs: a pack and the statement are not what their rows are.
func (s *Service) Differs(statementID string) {
	s.T.Helper()
	r := s.reconciliation()
	var codes []string
	for _, d := range r.Differences {
		codes = append(codes, d.Code)
	}
	require.Equal(s.T, []string{"PACK_DIFFERS", "STATEMENT_DIFFERS"}, codes)
	require.Equal(s.T, statementID, r.Differences[1].ID)
	require.NotEqual(s.T, r.Packs.Sealed, r.Packs.Loaded)
}

// StatedForDrift issues a statement about what was delivered.
func (s *Service) StatedForDrift() (statementID string) {
	s.T.Helper()
	now := time.Now()
	s.RegisterRules(now.Add(-2 * time.Hour))
	request := PeriodOf(now.Add(-time.Hour), now)
	request["to"] = time.Now().UTC().Format(time.RFC3339Nano)
	made := s.Draft(request)
	s.Post("/v1/settlement/statements/"+made.ID+"/issue", nil, nil)
	return made.ID
}
