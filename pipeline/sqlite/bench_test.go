package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/sealer"
)

// deliveries makes rows of the size and shape of real ones, from offset on.
func deliveries(from, n int) []pipeline.Row {
	rows := make([]pipeline.Row, n)
	for i := range rows {
		n := from + i
		issued := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Millisecond)
		id := fmt.Sprintf("%010d%016d", issued.UnixMilli(), n*7919%1_000_003)
		rows[i] = pipeline.Row{
			Entry: sealer.Entry{Position: sealer.Position{Generation: 1, Offset: int64(n)}, Record: sealer.Record{
				TenantID: fmt.Sprintf("tnt_%026d", n%3), EventID: "evt_" + id, Node: "nod_01234567890123456789012345",
				Epoch: 1, Seq: uint64(n), Event: make([]byte, 1100), Private: make([]byte, 250),
			}},
			Type: "delivery.recorded", At: issued, SubjectKind: "right", SubjectID: "rgh_01234567890123456789012345",
			Delivery: &pipeline.Delivery{
				ReceiptID: "rcp_" + id, RightID: "rgh_01234567890123456789012345", RightRevision: 7,
				BasisID: "bas_01234567890123456789012345", Substrate: "CTV", RenderedAt: issued, IssuedAt: issued,
				SigningKeyID: "0123456789012345678901", Metered: true, Reason: "METERED", MeteringBasis: "viewable",
				QuantityMs: 15000, Idempotency: fmt.Sprintf("%043d", n*104729%1_000_003),
			},
		}
	}
	return rows
}

// BenchmarkLoad loads full batches; look at rows/s.
func BenchmarkLoad(b *testing.B) {
	const batch = 5000
	w, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "warehouse.db")})
	require.NoError(b, err)
	defer w.Close()
	n := 0
	for b.Loop() {
		b.StopTimer()
		rows := deliveries(n, batch)
		n += batch
		b.StartTimer()
		require.NoError(b, w.Load(b.Context(), pipeline.Batch{Rows: rows, Next: rows[batch-1].Next()}))
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}
