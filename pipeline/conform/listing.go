package conform

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

func checkTenantsApart(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	// The same event id and the same hash in both, side by side.
	mine := delivery("tnt_a", at(1), noon, "key")
	theirs := delivery("tnt_b", at(0), noon, "", func(d *sealer.Delivery, r *sealer.Receipt) {
		d.Idempotency, r.ReceiptID = mine.Delivery.Idempotency, mine.Delivery.ReceiptID
	})
	only := audit("tnt_b", at(2))
	held := pipeline.Quarantined{Position: at(3), TenantID: "tnt_b", EventID: "evt_x", Reason: "forged", Record: []byte{1}}
	require.NoError(tb, w.Load(ctx, pipeline.Batch{
		Partition: 3, From: at(0), Rows: []pipeline.Row{theirs, mine, only}, Quarantined: []pipeline.Quarantined{held}, Next: at(4),
	}))

	requireRows(tb, []pipeline.Row{mine}, everything(tb, ctx, w, "tnt_a"))
	requireRows(tb, []pipeline.Row{theirs, only}, everything(tb, ctx, w, "tnt_b"))
	_, err := w.Event(ctx, "tnt_a", only.EventID)
	require.ErrorIs(tb, err, pipeline.ErrNoEvent)
	n, err := w.CountEvents(ctx, "tnt_a")
	require.NoError(tb, err)
	require.EqualValues(tb, 1, n)
	lines, err := w.Metering(ctx, pipeline.MeterQuery{TenantID: "tnt_a"})
	require.NoError(tb, err)
	require.Equal(tb, meter([]pipeline.Row{mine}, pipeline.MeterQuery{TenantID: "tnt_a"}), lines, "another tenant's key makes no duplicate")
	list, err := w.Duplicates(ctx, "tnt_a", sealer.Position{}, at(9))
	require.NoError(tb, err)
	require.Empty(tb, list)
	quarantined, err := w.Quarantined(ctx, "tnt_a")
	require.NoError(tb, err)
	require.Empty(tb, quarantined)
	for _, stranger := range []string{"", "tnt_", "tnt_A", "tnt_%", "tnt_c"} {
		require.Empty(tb, everything(tb, ctx, w, stranger), "%q", stranger)
	}
}

// pages pages through a query until nothing is left.
func pages(tb require.TestingT, ctx context.Context, w pipeline.Warehouse, q pipeline.EventQuery) []pipeline.Row {
	var all []pipeline.Row
	for {
		page, err := w.Events(ctx, q)
		require.NoError(tb, err)
		require.LessOrEqual(tb, len(page), q.Limit)
		all = append(all, page...)
		require.Less(tb, len(all), 1000, "paging doesn't end")
		if len(page) == 0 {
			return all
		}
		last := page[len(page)-1].Position
		if q.Newest {
			q.Before = &last
		} else {
			q.After = &last
		}
	}
}

func checkCursors(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	var rows []pipeline.Row
	for i := range int64(40) {
		p := at(i)
		p.Generation = uint32(1 + i/15)
		tenant := "tnt_a"
		if i%4 == 3 {
			tenant = "tnt_b"
		}
		if i%3 == 0 {
			rows = append(rows, delivery(tenant, p, noon, ""))
		} else {
			rows = append(rows, audit(tenant, p))
		}
	}
	load(tb, ctx, w, rows...)
	middle, late := rows[10].Position, rows[31].Position
	for _, q := range []pipeline.EventQuery{
		{},
		{Newest: true},
		{Types: []string{"right.issued"}},
		{Types: []string{"delivery.recorded", "right.issued", "right.revoked"}, Newest: true},
		{Types: []string{"right.revoked"}},
		{NoDeliveries: true},
		{NoDeliveries: true, After: &middle, Newest: true},
		{After: &middle, Before: &late},
		{After: &middle, Before: &late, Newest: true},
		{After: &late, Before: &middle},
	} {
		q.TenantID, q.Limit = "tnt_a", len(rows)
		want := events(rows, q)
		for _, limit := range []int{1, 2, 7, len(rows)} {
			q.Limit = limit
			requireRows(tb, want, pages(tb, ctx, w, q))
		}
	}
}

// checkPagingBesideLoads pages upward while rows are loaded: what was there when
// it began must come, and nothing may come twice.
func checkPagingBesideLoads(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	const n, before = 200, 50
	var rows []pipeline.Row
	for i := range int64(n) {
		rows = append(rows, audit("tnt_a", at(i)))
	}
	load(tb, ctx, w, rows[:before]...)
	loaded := make(chan error, 1)
	go func() {
		var err error
		for i := before; i < n && err == nil; i += 10 {
			err = w.Load(ctx, pipeline.Batch{Partition: 3, From: at(int64(i)), Rows: rows[i : i+10], Next: at(int64(i + 10))})
		}
		loaded <- err
	}()
	seen := pages(tb, ctx, w, pipeline.EventQuery{TenantID: "tnt_a", Limit: 7})
	require.NoError(tb, <-loaded)
	require.GreaterOrEqual(tb, len(seen), before)
	requireRows(tb, rows[:len(seen)], seen)
}
