package clickhouse

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
)

// busy makes rows of the size of real ones, 1,000 a second of three tenants, all of
// them with keys.
func busy(from, n int) []pipeline.Row {
	rows := make([]pipeline.Row, n)
	for i := range rows {
		n := from + i
		r := delivery(fmt.Sprintf("tnt_%026d", n%3), int64(n), midnight.Add(time.Duration(n)*time.Millisecond), fmt.Sprintf("%043d", n*104729%1_000_003))
		r.Event, r.Private = make([]byte, 1100), make([]byte, 250)
		rows[i] = r
	}
	return rows
}

// BenchmarkLoad loads full batches behind 40 others; look at rows/s.
func BenchmarkLoad(b *testing.B) {
	const size = 5000
	w := mustOpen(b, fresh(b, stacktest.ClickHouse(b)))
	n := 0
	load := func() {
		rows := busy(n, size)
		n += size
		b.StartTimer()
		require.NoError(b, w.Load(b.Context(), batch(rows)))
		b.StopTimer()
	}
	b.StopTimer()
	for range 40 {
		load()
	}
	begun := n
	b.ResetTimer()
	for range b.N {
		load()
	}
	b.ReportMetric(float64(n-begun)/b.Elapsed().Seconds(), "rows/s")
}
