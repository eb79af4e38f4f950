package warehouse

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
)

func TestAuthor(t *testing.T) {
	begin := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	write := func(n int) (rows []pipeline.Row) {
		entries, err := newAuthor(begin, 64).write(n)
		require.NoError(t, err)
		for _, e := range entries {
			row, err := pipeline.NewRow(e)
			require.NoError(t, err)
			rows = append(rows, row)
		}
		return rows
	}
	rows := write(20_000)
	require.Equal(t, rows[:100], write(100), "deterministic")

	tenants, keys, bytes, duplicates := map[string]int{}, map[string]bool{}, 0, 0
	for _, r := range rows {
		tenants[r.TenantID]++
		if key := r.TenantID + r.Delivery.Idempotency; keys[key] {
			duplicates++
		} else {
			keys[key] = true
		}
		bytes += len(r.Event) + len(r.Private)
	}
	require.Len(t, tenants, 64)
	require.Equal(t, 2, duplicates)
	require.InDelta(t, 1500, bytes/len(rows), 70)
}
