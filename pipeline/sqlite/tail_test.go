package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// TestTailReadsNothingElse: metering behind a position reads the rows behind it, however many are before.
func TestTailReadsNothingElse(t *testing.T) {
	w, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	defer w.Close()
	for _, after := range []*sealer.Position{{Generation: 1, Offset: 7}, nil} {
		q := pipeline.MeterQuery{TenantID: "tnt_a", After: after, AsOf: &sealer.Position{Generation: 1, Offset: 9}, By: pipeline.MeterBy{Anchor: after == nil}}
		text, args := rowsOf(q, spansOfBuckets(nil, q.From, q.To), selection(q))
		var id, parent, unused int
		var detail string
		require.NoError(t, w.read.QueryRowContext(t.Context(), `EXPLAIN QUERY PLAN `+text, args...).Scan(&id, &parent, &unused, &detail))
		if after == nil {
			require.Contains(t, detail, "USING INDEX deliveries_by_time (tenant=? AND rendered_at>? AND rendered_at<?)")
			continue
		}
		require.Contains(t, detail, "USING PRIMARY KEY (tenant=? AND (generation,position)>(?,?)")
	}
}
