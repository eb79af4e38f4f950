package conform

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// release makes the row of an event that releases the record at a position.
func release(tenant string, p, record sealer.Position) pipeline.Row {
	return audit(tenant, p, func(e *sealer.Event) {
		e.Type, e.Subject = pipeline.TypeReleased, sealer.Ref{Kind: pipeline.KindRecord, ID: record.String()}
	})
}

// quarantinedRow is the record of a row as sealing quarantines it.
func quarantinedRow(r pipeline.Row) pipeline.Quarantined {
	return pipeline.Quarantined{Position: r.Position, TenantID: r.TenantID, EventID: r.EventID, Reason: "forged", Record: []byte{7, 0}}
}

// unloaded is a record that the loader quarantined: there is no row of it.
func unloaded(tenant, event string, p sealer.Position) pipeline.Quarantined {
	return pipeline.Quarantined{Position: p, TenantID: tenant, EventID: event, Reason: "header and event disagree", Record: []byte{1}}
}

// quarantine loads quarantined records as sealing does: at the stored position.
func quarantine(tb testing.TB, ctx context.Context, w pipeline.Warehouse, list ...pipeline.Quarantined) {
	p := list[0].Position.Partition
	next, ok, err := w.Resume(ctx, p)
	require.NoError(tb, err)
	if !ok {
		next = sealer.Position{Generation: 1, Partition: p}
	}
	require.NoError(tb, w.Load(ctx, pipeline.Batch{Partition: p, From: next, Quarantined: list, Next: next}))
}

func requireHeld(tb testing.TB, ctx context.Context, w pipeline.Warehouse, tenant string, want ...pipeline.Quarantined) {
	list, err := w.Quarantined(ctx, tenant)
	require.NoError(tb, err)
	require.Equal(tb, want, list, tenant)
}

func checkHeld(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	other := unloaded("", "", sealer.Position{Generation: 1, Partition: 4, Offset: 1})
	next := unloaded("tnt_b", "evt_2", sealer.Position{Generation: 2, Partition: 3, Offset: 0})
	all := []pipeline.Quarantined{unloaded("tnt_a", "evt_1", at(2)), unloaded("", "", at(9)), next, other}
	quarantine(tb, ctx, w, other)
	quarantine(tb, ctx, w, next, all[1], all[0])
	for limit := range len(all) + 2 {
		list, total, err := w.Held(ctx, pipeline.HeldQuery{Limit: limit})
		require.NoError(tb, err)
		require.EqualValues(tb, len(all), total)
		require.Equal(tb, len(all[:min(limit, len(all))]), len(list))
		for i := range list {
			require.Equal(tb, all[i], list[i])
		}
	}
	for i := range all {
		list, total, err := w.Held(ctx, pipeline.HeldQuery{At: &all[i].Position, Limit: 5})
		require.NoError(tb, err)
		require.EqualValues(tb, 1, total)
		require.Equal(tb, all[i:i+1], list)
	}
	nowhere := at(3)
	list, total, err := w.Held(ctx, pipeline.HeldQuery{At: &nowhere, Limit: 5})
	require.NoError(tb, err)
	require.Zero(tb, total)
	require.Empty(tb, list)
}

func checkReleases(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	genuine, forged, repeat := audit("tnt_a", at(0)), delivery("tnt_a", at(1), noon, "key"), delivery("tnt_a", at(2), noon, "key")
	copied := again(forged, at(6))
	// The headers of a record that was never loaded may name any event.
	moved, unreadable := unloaded("tnt_a", genuine.EventID, at(3)), unloaded("", "", at(4))
	load(tb, ctx, w, genuine, forged, repeat)
	quarantine(tb, ctx, w, moved, unreadable, quarantinedRow(forged))
	requireHeld(tb, ctx, w, "tnt_a", quarantinedRow(forged), moved, unreadable)

	// No release: of another tenant, of another type, about something else, elsewhere.
	byOther, byPlace := release("tnt_b", at(10), at(1)), release("tnt_a", at(13), at(0))
	byType := audit("tnt_a", at(11), func(e *sealer.Event) { e.Subject = sealer.Ref{Kind: pipeline.KindRecord, ID: at(1).String()} })
	byKind := audit("tnt_a", at(12), func(e *sealer.Event) {
		e.Type, e.Subject = pipeline.TypeReleased, sealer.Ref{Kind: "right", ID: at(1).String()}
	})
	load(tb, ctx, w, byOther, byType, byKind, byPlace)
	requireHeld(tb, ctx, w, "tnt_a", quarantinedRow(forged), moved, unreadable)
	require.Len(tb, everything(tb, ctx, w, "tnt_a"), 6)

	row, header, noise := release("tnt_a", at(14), at(1)), release("tnt_a", at(15), at(3)), release(pipeline.SystemTenant, at(16), at(4))
	load(tb, ctx, w, row)
	requireHeld(tb, ctx, w, "tnt_a", moved, unreadable)
	load(tb, ctx, w, header)
	requireHeld(tb, ctx, w, "tnt_a", unreadable)
	load(tb, ctx, w, noise)
	left := []pipeline.Row{genuine, repeat, byType, byKind, byPlace, row, header}
	check := func(w pipeline.Warehouse) {
		requireHeld(tb, ctx, w, "tnt_a")
		_, total, err := w.Held(ctx, pipeline.HeldQuery{})
		require.NoError(tb, err)
		require.Zero(tb, total)
		requireRows(tb, left, everything(tb, ctx, w, "tnt_a"))
		_, err = w.Event(ctx, "tnt_a", forged.EventID)
		require.ErrorIs(tb, err, pipeline.ErrNoEvent)
		n, err := w.CountEvents(ctx, "tnt_a")
		require.NoError(tb, err)
		require.EqualValues(tb, len(left), n)
		// What repeated it repeats nothing.
		duplicates, err := w.Duplicates(ctx, "tnt_a", sealer.Position{}, at(100))
		require.NoError(tb, err)
		require.Empty(tb, duplicates)
		totals, err := w.MeterTotals(ctx, pipeline.MeterQuery{TenantID: "tnt_a"})
		require.NoError(tb, err)
		require.EqualValues(tb, 1, totals.Metered)
		require.EqualValues(tb, 1, totals.Receipts)
		rows, err := w.Metering(ctx, pipeline.MeterQuery{TenantID: "tnt_a"})
		require.NoError(tb, err)
		require.Len(tb, rows, 1)
		require.EqualValues(tb, 1, rows[0].Receipts)
		require.Equal(tb, "METERED", rows[0].Reason)
	}
	check(w)
	// The log once more, in one batch and in many, with another copy of the event.
	log := []pipeline.Row{genuine, forged, repeat, copied, byOther, byType, byKind, byPlace, row, header, noise}
	load(tb, ctx, w, log...)
	check(w)
	for _, r := range log {
		load(tb, ctx, w, r)
		check(w)
	}
	quarantine(tb, ctx, w, moved, unreadable, quarantinedRow(forged))
	check(w)
	check(w.Reopen())
}

func checkEarlyRelease(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	genuine, forged, free := audit("tnt_a", at(0)), delivery("tnt_a", at(1), noon, "key"), release("tnt_a", at(2), at(1))
	load(tb, ctx, w, genuine, forged, free)
	require.Len(tb, everything(tb, ctx, w, "tnt_a"), 3, "nothing is quarantined there yet")
	quarantine(tb, ctx, w, quarantinedRow(forged))
	requireHeld(tb, ctx, w, "tnt_a")
	requireRows(tb, []pipeline.Row{genuine, free}, everything(tb, ctx, w, "tnt_a"))
}

// checkReleaseElsewhere: the system's events stand in a partition of their own, and a
// record may stand in one that is not its tenant's.
func checkReleaseElsewhere(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	in := func(partition int32, offset int64) sealer.Position {
		return sealer.Position{Generation: 1, Partition: partition, Offset: offset}
	}
	genuine, stray := audit("tnt_a", in(3, 0)), audit("tnt_a", in(4, 1))
	noise, twin, strayed := unloaded("", "", in(3, 2)), unloaded("", "", in(4, 2)), unloaded("tnt_a", "evt_1", in(4, 3))
	ofNoise, ofStray := release(pipeline.SystemTenant, in(5, 7), in(3, 2)), release("tnt_a", in(3, 4), in(4, 1))
	load := func(row pipeline.Row, quarantined ...pipeline.Quarantined) {
		load(tb, ctx, w, row)
		if len(quarantined) > 0 {
			quarantine(tb, ctx, w, quarantined...)
		}
	}
	total := func(want int) {
		_, n, err := w.Held(ctx, pipeline.HeldQuery{})
		require.NoError(tb, err)
		require.EqualValues(tb, want, n)
	}
	load(genuine, noise)
	load(audit("tnt_b", in(4, 0)), twin, strayed)
	requireHeld(tb, ctx, w, "tnt_a", noise, strayed)
	load(ofNoise)
	requireHeld(tb, ctx, w, "tnt_a", strayed)
	requireHeld(tb, ctx, w, "tnt_b", twin)
	total(2)
	load(release("tnt_a", in(3, 3), in(4, 3)))
	requireHeld(tb, ctx, w, "tnt_a")
	total(1)

	// What is a row in another partition is none any more. The release comes first, as
	// another loader may be ahead.
	load(ofStray)
	load(stray)
	n, err := w.CountEvents(ctx, "tnt_a")
	require.NoError(tb, err)
	quarantine(tb, ctx, w, quarantinedRow(stray))
	for range 2 {
		total(1)
		_, err = w.Event(ctx, "tnt_a", stray.EventID)
		require.ErrorIs(tb, err, pipeline.ErrNoEvent)
		left, err := w.CountEvents(ctx, "tnt_a")
		require.NoError(tb, err)
		require.Equal(tb, n-1, left)
		load(stray)
		load(genuine, noise)
		load(ofNoise)
	}
	load(release(pipeline.SystemTenant, in(5, 8), in(4, 2)))
	total(0)
	requireHeld(tb, ctx, w, "tnt_b")
	for partition, want := range map[int32]int64{3: 5, 4: 2, 5: 9} {
		next, ok, err := w.Resume(ctx, partition)
		require.NoError(tb, err)
		require.True(tb, ok)
		require.Equal(tb, in(partition, want), next)
	}
}

func checkQuarantined(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	held := func(partition int32, offset int64, tenant string) pipeline.Quarantined {
		return pipeline.Quarantined{
			Position: sealer.Position{Generation: 1, Partition: partition, Offset: offset},
			TenantID: tenant, EventID: "evt_1", Reason: "header and event disagree", Record: []byte{0, 1, 255},
		}
	}
	other := audit("tnt_b", sealer.Position{Generation: 1, Partition: 4, Offset: 0})
	here := []pipeline.Quarantined{held(3, 1, "tnt_a"), held(3, 2, ""), held(3, 3, "tnt_c")}
	there := []pipeline.Quarantined{held(4, 1, "")}
	for range 2 { // quarantining again changes nothing
		require.NoError(tb, w.Load(ctx, pipeline.Batch{Partition: 3, From: at(0), Rows: []pipeline.Row{audit("tnt_a", at(0))}, Quarantined: here, Next: at(4)}))
		require.NoError(tb, w.Load(ctx, pipeline.Batch{Partition: 4, From: other.Position, Rows: []pipeline.Row{other}, Quarantined: there,
			Next: sealer.Position{Generation: 1, Partition: 4, Offset: 2}}))
	}
	for _, c := range []struct {
		tenant string
		want   []pipeline.Quarantined
	}{
		{"tnt_a", []pipeline.Quarantined{here[0], here[1]}},
		{"tnt_b", there},
		{"tnt_c", []pipeline.Quarantined{here[1], here[2], there[0]}},
		{"tnt_d", []pipeline.Quarantined{here[1], there[0]}},
	} {
		list, err := w.Quarantined(ctx, c.tenant)
		require.NoError(tb, err)
		require.Equal(tb, c.want, list, c.tenant)
	}
	next, _, err := w.Resume(ctx, 3)
	require.NoError(tb, err)
	require.Equal(tb, at(4), next, "a quarantined record doesn't stop its partition")
}
