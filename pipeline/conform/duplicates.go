package conform

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// repeats is the Duplicate of a row that repeats another.
func repeats(r, first pipeline.Row) pipeline.Duplicate {
	return pipeline.Duplicate{EventID: r.EventID, FirstEventID: first.EventID, Position: r.Position, First: first.Position}
}

func checkDayEdge(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	for i, edge := range []struct {
		older     time.Duration
		duplicate bool
	}{
		{0, true},
		{day - time.Millisecond, true},
		{day, true},
		{day + time.Millisecond, false},
		{-time.Minute, true}, // a clock behind that of the first
		{-2 * day, true},
	} {
		tenant := fmt.Sprintf("tnt_edge%d", i)
		earlier := delivery(tenant, at(int64(10*i)), noon.Add(-edge.older), "key")
		later := delivery(tenant, at(int64(10*i+1)), noon, "key")
		load(tb, ctx, w, earlier)
		load(tb, ctx, w, later)

		lines, err := w.Metering(ctx, pipeline.MeterQuery{TenantID: tenant})
		require.NoError(tb, err)
		var quantity, receipts int64
		for _, line := range lines {
			quantity += line.QuantityMs
			receipts += line.Receipts
		}
		list, err := w.Duplicates(ctx, tenant, sealer.Position{}, later.Position)
		require.NoError(tb, err)
		require.EqualValues(tb, 2, receipts, "%s older", edge.older)
		if edge.duplicate {
			require.EqualValues(tb, 1000, quantity, "%s older", edge.older)
			require.Equal(tb, []pipeline.Duplicate{repeats(later, earlier)}, list)
		} else {
			require.EqualValues(tb, 2000, quantity, "%s older", edge.older)
			require.Empty(tb, list)
		}
	}
}

// checkRowsAgain sends rows again, days later and by clocks that are behind.
func checkRowsAgain(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	var rows []pipeline.Row
	for i, key := range []string{"row 1", "play 1", "row 2", "play 2"} {
		rows = append(rows, delivery("tnt_a", at(int64(i)), noon, key))
	}
	for _, days := range []int{1, 3, 29, 400, -2} {
		for _, key := range []string{"play 1", "row 1", "row 3"} {
			rows = append(rows, delivery("tnt_a", at(int64(len(rows))), noon.AddDate(0, 0, days), key))
		}
	}
	for some := range slices.Chunk(rows, 7) {
		load(tb, ctx, w, some...)
	}
	check := func(w pipeline.Warehouse) {
		list, err := w.Duplicates(ctx, "tnt_a", sealer.Position{}, at(99))
		require.NoError(tb, err)
		require.Len(tb, list, 14)
		requireDuplicates(tb, ctx, w, rows, "tnt_a")
		totals, err := w.MeterTotals(ctx, pipeline.MeterQuery{TenantID: "tnt_a"})
		require.NoError(tb, err)
		require.EqualValues(tb, 5, totals.Metered)
	}
	check(w)
	opened := w.Reopen()
	rows = append(rows, delivery("tnt_a", at(int64(len(rows))), noon.AddDate(1, 0, 0), "row 9"))
	load(tb, ctx, opened, rows...) // all again, by a process that is new
	list, err := opened.Duplicates(ctx, "tnt_a", sealer.Position{}, at(99))
	require.NoError(tb, err)
	require.Len(tb, list, 14)
}

// checkFirstOutOfView sums an hour, a right and a slice that hold only the
// later of two deliveries with one key.
func checkFirstOutOfView(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	earlier := delivery("tnt_a", at(1), noon.Add(-3*time.Hour), "key")
	later := delivery("tnt_a", at(2), noon, "key", under("rgh_2"))
	load(tb, ctx, w, earlier, later)
	want := []pipeline.MeterRow{{RightID: "rgh_2", Substrate: "CTV", BasisID: "bas_1", MeteringBasis: "none", Reason: pipeline.ReasonDuplicate, Receipts: 1}}
	for _, q := range []pipeline.MeterQuery{
		{TenantID: "tnt_a", From: noon.Add(-time.Hour)},
		{TenantID: "tnt_a", RightID: "rgh_2"},
	} {
		lines, err := w.Metering(ctx, q)
		require.NoError(tb, err)
		require.Equal(tb, want, lines)
	}
	list, err := w.Duplicates(ctx, "tnt_a", earlier.Position, later.Position)
	require.NoError(tb, err)
	require.Equal(tb, []pipeline.Duplicate{repeats(later, earlier)}, list)
}
