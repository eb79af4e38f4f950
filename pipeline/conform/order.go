package conform

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// checkAhead loads batches that begin behind what is loaded, and some that only seem to.
func checkAhead(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	place := func(generation uint32, offset int64) sealer.Position {
		return sealer.Position{Generation: generation, Partition: 3, Offset: offset}
	}
	bring := func(w pipeline.Warehouse, from sealer.Position, rows ...pipeline.Row) error {
		return w.Load(ctx, pipeline.Batch{Partition: from.Partition, From: from, Rows: rows, Next: rows[len(rows)-1].Next()})
	}
	first := delivery("tnt_a", place(1, 7), noon, "key")
	require.NoError(tb, bring(w, place(1, 5), first), "the first batch begins where the loader says")

	far := delivery("tnt_a", place(1, 20), noon, "far")
	other := unloaded("tnt_a", "evt_x", place(1, 21))
	for _, opened := range []pipeline.Warehouse{w, w.Reopen()} {
		for _, from := range []sealer.Position{place(1, 9), place(1, 20)} {
			require.ErrorIs(tb, bring(opened, from, far), pipeline.ErrAhead, "from %s", from)
		}
		require.ErrorIs(tb, opened.Load(ctx, pipeline.Batch{
			Partition: 3, From: place(1, 21), Quarantined: []pipeline.Quarantined{other}, Next: place(1, 22),
		}), pipeline.ErrAhead)
		requireRows(tb, []pipeline.Row{first}, everything(tb, ctx, opened, "tnt_a"))
		_, held, err := opened.Held(ctx, pipeline.HeldQuery{})
		require.NoError(tb, err)
		require.Zero(tb, held)
		next, _, err := opened.Resume(ctx, 3)
		require.NoError(tb, err)
		require.Equal(tb, place(1, 8), next)
		w.Warehouse = opened
	}

	// What was refused has no key either; and a batch that reaches over the position is no gap.
	near := delivery("tnt_a", place(1, 12), noon, "key")
	require.NoError(tb, bring(w, place(1, 7), first, near))
	elsewhere := audit("tnt_b", sealer.Position{Generation: 1, Partition: 4, Offset: 90})
	require.NoError(tb, bring(w, elsewhere.Position, elsewhere), "another partition has a position of its own")
	third := delivery("tnt_a", place(2, 3), noon, "far")
	require.NoError(tb, bring(w, place(2, 3), third), "a new generation begins where the loader says")
	require.ErrorIs(tb, bring(w, place(2, 5), audit("tnt_a", place(2, 5))), pipeline.ErrAhead)
	require.NoError(tb, bring(w, place(1, 7), first, near), "an older generation is behind")
	rows := []pipeline.Row{first, near, third}
	requireRows(tb, rows, everything(tb, ctx, w, "tnt_a"))
	requireDuplicates(tb, ctx, w, rows, "tnt_a")
}

// retracting retracts a row that others repeat: an hour later, a day later and, by a clock
// that is behind, months before. Nothing else is decided anew.
func retracting(key string) func(testing.TB, context.Context, WarehouseEngine) {
	return func(tb testing.TB, ctx context.Context, w WarehouseEngine) { checkRetraction(tb, ctx, w, key) }
}

func checkRetraction(tb testing.TB, ctx context.Context, w WarehouseEngine, key string) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	row := func(offset int64, after time.Duration, key string) pipeline.Row {
		return delivery("tnt_a", at(offset), start.Add(after), key)
	}
	forged := row(0, 0, key)
	rest := []pipeline.Row{
		row(1, time.Hour, key),
		row(2, 23*time.Hour, key), // in December
		row(3, 24*time.Hour+time.Millisecond, key),
		row(4, -70*day, key),
		row(5, 40*time.Hour, key),
		row(6, 0, "another"), row(7, time.Hour, "another"), row(8, time.Hour, ""),
		delivery("tnt_b", at(9), start, key), row(10, 70*day, key),
	}
	all := append([]pipeline.Row{forged}, rest...)
	load(tb, ctx, w, all[:6]...)
	load(tb, ctx, w, all[6:]...)
	requireDuplicates(tb, ctx, w, all, "tnt_a")
	quarantine(tb, ctx, w, quarantinedRow(forged))
	requireDuplicates(tb, ctx, w, all, "tnt_a")

	// The batch that retracts it repeats the key as well: behind the release and before it.
	late, free, later := row(11, 2*time.Hour, key), release("tnt_a", at(12), at(0)), row(13, 3*time.Hour, key)
	load(tb, ctx, w, late, free, later)
	left := append(rest, late, free, later)
	check := func(w pipeline.Warehouse) {
		requireDuplicates(tb, ctx, w, left, "tnt_a")
		requireDuplicates(tb, ctx, w, left, "tnt_b")
		requireSums(tb, ctx, w, left, "tnt_a")
	}
	check(w)
	load(tb, ctx, w, append(all, late, free, later)...)
	check(w)
	check(w.Reopen())
}

// checkChain requires that the chain of a position is stored with it, and with no other.
func checkChain(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	keeper, ok := w.Warehouse.(pipeline.ChainKeeper)
	if !ok {
		return // it need not be one
	}
	require.Empty(tb, chainOf(tb, ctx, keeper))
	for _, step := range []struct {
		from, next int64
		chain      string
		want       string
	}{
		{0, 10, "ten", "ten"},
		{2, 5, "five", "ten"}, // a loader that was thought dead
		{10, 10, "", "ten"},   // sealing has quarantined something
		{7, 12, "twelve", "twelve"},
		{12, 13, "", ""}, // the log has no chain any more
		{13, 14, "\x00\xff'", "\x00\xff'"},
	} {
		b := pipeline.Batch{Partition: 3, From: at(step.from), Next: at(step.next)}
		if step.chain != "" {
			b.Chain = []byte(step.chain)
		}
		require.NoError(tb, w.Load(ctx, b))
		require.Equal(tb, step.want, string(chainOf(tb, ctx, keeper)), "after a load up to %d", step.next)
	}
	require.Equal(tb, "\x00\xff'", string(chainOf(tb, ctx, w.Reopen().(pipeline.ChainKeeper))))
}

func chainOf(tb testing.TB, ctx context.Context, w pipeline.ChainKeeper) []byte {
	chain, err := w.Chain(ctx, 3)
	require.NoError(tb, err)
	return chain
}
