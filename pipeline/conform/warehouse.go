package conform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

var warehouseCases = []testCase[WarehouseEngine]{
	{"an empty warehouse knows nothing", checkEmptyWarehouse},
	{"rows come back as they were loaded", checkWholeRows},
	{"loading again changes nothing", checkReload},
	{"a batch that leaves a gap is refused", checkAhead},
	{"where a row is retracted its key is decided anew", retracting("key")},
	{"where a row is retracted its identity is decided anew", retracting("row 1")},
	{"where a row is retracted its identity of a day is decided anew", retracting("play 1")},
	{"the lowest position wins", checkLowestWins},
	{"the position never goes back", checkResume},
	{"the chain of a position is kept with it", checkChain},
	{"rows and position survive a crash together", checkWarehouseSurvives},
	{"a cancelled load is whole or absent", checkCancelledLoad},
	{"metering and duplicates equal the model", checkModel},
	{"sums by bucket, pages and totals equal the model", checkBuckets},
	{"the edges of buckets are exact", checkBucketEdges},
	{"sums of named events are of no others, and of a bounded number", checkNamedEvents},
	{"refusals equal the model", checkRefusals},
	{"refusals of all tenants by rule", checkRules},
	{"a duplicate is at most a day younger", checkDayEdge},
	{"a row that is sent again is a duplicate, whenever that is", checkRowsAgain},
	{"a duplicate's first may be out of view", checkFirstOutOfView},
	{"bounds of time are exact", checkTimeBounds},
	{"as of a position nothing behind it counts", checkAsOf},
	{"tenants see nothing of each other", checkTenantsApart},
	{"filters equal the model", checkFilters},
	{"events are found by the ends of their ids", checkEnds},
	{"cursors neither skip nor repeat", checkCursors},
	{"paging goes on beside loading", checkPagingBesideLoads},
	{"quarantined records hold their tenant or partition", checkQuarantined},
	{"what is held is listed and counted", checkHeld},
	{"a released record holds no tenant and is no row, whatever is loaded again", checkReleases},
	{"a release may be loaded before its record", checkEarlyRelease},
	{"a release may stand in another partition than its record", checkReleaseElsewhere},
	{"erasing takes a person's private parts and nothing else", checkErase},
	{"who was erased doesn't come back, whatever is loaded again", checkErasedAgain},
	{"erasing beside loading leaves nothing", checkEraseBesideLoads},
	{"persons are loaded when it is known who was erased", checkErasedUnknown},
	{"an erasure covers quarantined records", checkEraseQuarantined},
	{"notes that name a person are erased from events, whoever they are about", checkEraseNotes},
	{"events are found by the person that they name", checkDataSubjects},
	{"of several persons each is erased alone", checkSeveral},
	{"deliveries are counted by the labels that name a person", checkLabelled},
	{"deliveries are counted by the telemetry that names a person", checkTelemetry},
}

// begin is where the next row of partition 3 may stand. The cases that draw rows have one
// warehouse for all draws: each goes on where the one before it ended, as a log does.
func begin(tb require.TestingT, ctx context.Context, w pipeline.Sink) sealer.Position {
	next, ok, err := w.Resume(ctx, 3)
	require.NoError(tb, err)
	if !ok {
		return at(0)
	}
	return next
}

// load loads rows of one partition, in their order, as one batch that ends behind the last
// of them. Where they stand behind what is loaded it begins there: what is between, of other
// tenants, matters to no case.
func load(tb require.TestingT, ctx context.Context, w pipeline.Sink, rows ...pipeline.Row) {
	from, last := rows[0].Position, rows[len(rows)-1].Position
	next, ok, err := w.Resume(ctx, from.Partition)
	require.NoError(tb, err)
	if ok && next.Generation == from.Generation && next.Offset < from.Offset {
		from = next
	}
	require.NoError(tb, w.Load(ctx, pipeline.Batch{Partition: from.Partition, From: from, Rows: rows, Next: last.Next()}))
}

// feed loads rows as loaders do after crashes and rebalances: in order, cut anywhere, and
// between two new runs a run of what was loaded once more, whole or in part. The last of an
// earlier run may be what is new.
func feed(t *rapid.T, ctx context.Context, w pipeline.Sink, rows []pipeline.Row) {
	for done := 0; done < len(rows); {
		from, to := done, rapid.IntRange(done+1, len(rows)).Draw(t, "up to")
		if done > 0 && rapid.Bool().Draw(t, "replay") {
			from = rapid.IntRange(0, done-1).Draw(t, "again from")
			to = rapid.IntRange(from+1, len(rows)).Draw(t, "again up to")
		}
		load(t, ctx, w, rows[from:to]...)
		done = max(done, to)
	}
}

// requireRows compares rows, and takes no bytes for empty ones. What a delivery is searched
// by stands in its event, and a warehouse need not return it beside that.
func requireRows(tb require.TestingT, want, got []pipeline.Row) {
	plain := func(rows []pipeline.Row) []pipeline.Row {
		rows = slices.Clone(rows)
		for i, r := range rows {
			rows[i].Event, rows[i].Private = append([]byte{}, r.Event...), append([]byte{}, r.Private...)
			if r.Delivery != nil {
				d := *r.Delivery
				d.SpatialAnchorID, d.SpatialPlacementID, d.CorrelationID = "", "", ""
				rows[i].Delivery = &d
			}
		}
		return rows
	}
	require.Equal(tb, len(want), len(got), "number of rows")
	require.Equal(tb, plain(want), plain(got))
}

// everything lists all rows of a tenant.
func everything(tb require.TestingT, ctx context.Context, w pipeline.Warehouse, tenant string) []pipeline.Row {
	rows, err := w.Events(ctx, pipeline.EventQuery{TenantID: tenant, Limit: math.MaxInt32})
	require.NoError(tb, err)
	return rows
}

func checkEmptyWarehouse(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	_, ok, err := w.Resume(ctx, 3)
	require.NoError(tb, err)
	require.False(tb, ok)
	require.Empty(tb, everything(tb, ctx, w, "tnt_a"))
	_, err = w.Event(ctx, "tnt_a", "evt_1")
	require.ErrorIs(tb, err, pipeline.ErrNoEvent)
	n, err := w.CountEvents(ctx, "tnt_a")
	require.NoError(tb, err)
	require.Zero(tb, n)
	lines, err := w.Metering(ctx, pipeline.MeterQuery{TenantID: "tnt_a"})
	require.NoError(tb, err)
	require.Empty(tb, lines)
	_, err = w.Events(ctx, pipeline.EventQuery{TenantID: "tnt_a"})
	require.Error(tb, err, "a limit is required")
	_, err = w.Events(ctx, pipeline.EventQuery{TenantID: "tnt_a", SubjectIDs: make([]string, pipeline.MaxSubjects+1), Limit: 1})
	require.Error(tb, err, "too many subjects")
}

func checkWholeRows(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	plain := audit("tnt_a", at(0))
	odd := audit("tnt_a", at(1), func(e *sealer.Event) {
		e.Data = []byte(`{"text":"\u0000'\n\\\"ü"}`)
		e.Actor, e.Subject = sealer.Ref{Kind: "kéy", ID: "c'd"}, sealer.Ref{Kind: "sübject", ID: "a'b\"c"}
	})
	odd.Node, odd.Epoch, odd.Seq = "", math.MaxUint64, math.MaxUint64-1
	large := audit("tnt_a", at(2), func(e *sealer.Event) {
		e.Data = fmt.Appendf(nil, `{"text":"%s"}`, strings.Repeat("0123456789abcdef", 1<<15))
	})
	metered := delivery("tnt_a", at(3), noon, "key")
	refused := delivery("tnt_a", at(4), noon.Add(time.Millisecond), "", unseen)
	refused.Private = nil
	want := []pipeline.Row{plain, odd, large, metered, refused}
	load(tb, ctx, w, want...)

	for _, w := range []pipeline.Warehouse{w, w.Reopen()} {
		requireRows(tb, want, everything(tb, ctx, w, "tnt_a"))
		for _, r := range want {
			got, err := w.Event(ctx, "tnt_a", r.EventID)
			require.NoError(tb, err)
			requireRows(tb, []pipeline.Row{r}, []pipeline.Row{got})
		}
		n, err := w.CountEvents(ctx, "tnt_a")
		require.NoError(tb, err)
		require.EqualValues(tb, len(want), n)
	}
}

// checkReload has several loaders bring one log at once: each goes on where the warehouse
// stands, and brings earlier runs again, as one that was thought dead does, with batches of
// any cut. The log has copies of events, and keys that repeat within a day and behind it.
func checkReload(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	const n, loaders = 150, 4
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var log []pipeline.Row
	for i := range int64(n) {
		if i > 0 && random.IntN(5) == 0 {
			log = append(log, again(log[random.IntN(len(log))], at(i)))
			continue
		}
		log = append(log, delivery("tnt_a", at(i), start.Add(time.Duration(i)*15*time.Minute), fmt.Sprint("key ", random.IntN(n/4))))
	}
	bring := func(from, to int) error {
		return w.Load(ctx, pipeline.Batch{Partition: 3, From: at(int64(from)), Rows: log[from:to], Next: at(int64(to))})
	}
	errs := make([]error, loaders)
	var wg sync.WaitGroup
	for l := range loaders {
		random := rand.New(rand.NewPCG(3, uint64(l)))
		wg.Go(func() {
			for {
				next, _, err := w.Resume(ctx, 3)
				if done := int(next.Offset); err != nil || done == n {
					errs[l] = errors.Join(errs[l], err)
					return
				} else {
					from := random.IntN(done + 1)
					errs[l] = errors.Join(errs[l], bring(from, from+random.IntN(done-from+1)), bring(done, min(n, done+1+random.IntN(60))))
				}
			}
		})
	}
	wg.Wait()
	require.NoError(tb, errors.Join(errs...))

	want := collapse(log)
	check := func(w pipeline.Warehouse) {
		requireRows(tb, want, everything(tb, ctx, w, "tnt_a"))
		count, err := w.CountEvents(ctx, "tnt_a")
		require.NoError(tb, err)
		require.EqualValues(tb, len(want), count)
		lines, err := w.Metering(ctx, pipeline.MeterQuery{TenantID: "tnt_a"})
		require.NoError(tb, err)
		require.Equal(tb, meter(want, pipeline.MeterQuery{TenantID: "tnt_a"}), lines)
		requireDuplicates(tb, ctx, w, want, "tnt_a")
		next, _, err := w.Resume(ctx, 3)
		require.NoError(tb, err)
		require.Equal(tb, at(n), next)
	}
	check(w)
	// The whole log after all, and then, by an engine that knows nothing but what it stored,
	// each of its records alone.
	require.NoError(tb, bring(0, n))
	check(w)
	w.Warehouse = w.Reopen()
	for i := range n {
		require.NoError(tb, bring(i, i+1))
	}
	check(w)
}

// requireDuplicates compares all duplicates of a tenant with those of the model.
func requireDuplicates(tb require.TestingT, ctx context.Context, w pipeline.Warehouse, rows []pipeline.Row, tenant string) {
	end := sealer.Position{Generation: math.MaxUint32, Offset: math.MaxInt64}
	list, err := w.Duplicates(ctx, tenant, sealer.Position{}, end)
	require.NoError(tb, err)
	require.Equal(tb, append([]pipeline.Duplicate{}, duplicates(rows, tenant, sealer.Position{}, end)...), append([]pipeline.Duplicate{}, list...))
}

func checkLowestWins(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	original := delivery("tnt_a", at(5), noon, "key")
	place := func(generation uint32, offset int64) pipeline.Row {
		return again(original, sealer.Position{Generation: generation, Partition: 3, Offset: offset})
	}
	for _, bring := range []pipeline.Row{place(1, 5), place(1, 9), place(1, 5), place(2, 3), place(1, 5), place(2, 3), place(3, 0)} {
		load(tb, ctx, w, bring)
		requireRows(tb, []pipeline.Row{original}, everything(tb, ctx, w, "tnt_a"))
		requireDuplicates(tb, ctx, w, nil, "tnt_a")
	}
	// Within one batch too.
	end := begin(tb, ctx, w)
	first := audit("tnt_b", end)
	load(tb, ctx, w, first, again(first, end.Next()))
	requireRows(tb, []pipeline.Row{first}, everything(tb, ctx, w, "tnt_b"))
}

func checkResume(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	place := func(generation uint32, offset int64) sealer.Position {
		return sealer.Position{Generation: generation, Partition: 3, Offset: offset}
	}
	for _, step := range []struct{ from, next, want sealer.Position }{
		{place(1, 90), place(1, 100), place(1, 100)},
		{place(1, 40), place(1, 50), place(1, 100)}, // a loader that was thought dead
		{place(1, 95), place(1, 101), place(1, 101)},
		{place(1, 101), place(1, 101), place(1, 101)},
		{place(2, 3), place(2, 7), place(2, 7)},
		{place(1, 101), place(1, 5000), place(2, 7)},
		{place(2, 7), place(3, 9), place(3, 9)},
	} {
		require.NoError(tb, w.Load(ctx, pipeline.Batch{Partition: 3, From: step.from, Next: step.next}))
		next, ok, err := w.Resume(ctx, 3)
		require.NoError(tb, err)
		require.True(tb, ok)
		require.Equal(tb, step.want, next, "after a load up to %s", step.next)
	}
	_, ok, err := w.Resume(ctx, 4)
	require.NoError(tb, err)
	require.False(tb, ok, "another partition has a position of its own")
}

func checkWarehouseSurvives(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	var want []pipeline.Row
	held := pipeline.Quarantined{Position: at(2), TenantID: "tnt_a", EventID: "evt_x", Reason: "forged", Record: []byte{1, 0}}
	want = append(want, audit("tnt_a", at(0)), delivery("tnt_a", at(1), noon, "key"))
	require.NoError(tb, w.Load(ctx, pipeline.Batch{Partition: 3, From: at(0), Rows: want, Quarantined: []pipeline.Quarantined{held}, Next: at(3)}))
	for i := range int64(3) {
		opened := w.Reopen()
		next, ok, err := opened.Resume(ctx, 3)
		require.NoError(tb, err)
		require.True(tb, ok)
		require.Equal(tb, at(3+i), next)
		requireRows(tb, want, everything(tb, ctx, opened, "tnt_a"))
		requireDuplicates(tb, ctx, opened, want, "tnt_a")
		list, err := opened.Quarantined(ctx, "tnt_a")
		require.NoError(tb, err)
		require.Equal(tb, []pipeline.Quarantined{held}, list)

		want = append(want, delivery("tnt_a", at(3+i), noon, "key"))
		load(tb, ctx, opened, want[len(want)-1])
	}
}

func checkCancelledLoad(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	var rows []pipeline.Row
	for i := range int64(20) {
		rows = append(rows, audit("tnt_a", at(i)))
	}
	b := pipeline.Batch{Partition: 3, From: at(0), Rows: rows, Next: at(20)}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	failed := w.Load(cancelled, b)

	opened := w.Reopen()
	_, moved, err := opened.Resume(ctx, 3)
	require.NoError(tb, err)
	if failed == nil || moved {
		requireRows(tb, rows, everything(tb, ctx, opened, "tnt_a"))
		require.True(tb, moved)
	}
	require.NoError(tb, opened.Load(ctx, b))
	requireRows(tb, rows, everything(tb, ctx, opened, "tnt_a"))
}

func checkModel(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	rapid.Check(tb, func(t *rapid.T) {
		tenant := fmt.Sprintf("tnt_%d", tenants.Add(1))
		log := drawRows(t, tenant, begin(t, ctx, w))
		feed(t, ctx, w, log)
		rows := collapse(log)
		requireRows(t, rows, everything(t, ctx, w, tenant))

		last := log[len(log)-1].Position
		place := func(name string) *sealer.Position {
			p := log[rapid.IntRange(0, len(log)-1).Draw(t, name)].Position
			return &p
		}
		instant := func(name string) time.Time {
			return noon.Add(time.Duration(rapid.Int64Range(-100_000_000, 100_000_000).Draw(t, name)) * time.Millisecond)
		}
		queries := []pipeline.MeterQuery{
			{},
			{From: instant("from"), To: instant("to")},
			{RightID: "rgh_2"},
			{AsOf: place("as of")},
			{RightID: "rgh_1", AsOf: place("as of"), From: instant("from")},
		}
		for _, q := range queries {
			q.TenantID = tenant
			lines, err := w.Metering(ctx, q)
			require.NoError(t, err)
			require.ElementsMatch(t, meter(rows, q), lines, "%+v", q)
			require.Equal(t, meter(rows, q), append([]pipeline.MeterRow(nil), lines...), "order of lines")
		}
		for _, window := range [][2]sealer.Position{{{}, last}, {*place("after"), last}, {{}, *place("up to")}, {*place("after"), *place("up to")}} {
			list, err := w.Duplicates(ctx, tenant, window[0], window[1])
			require.NoError(t, err)
			require.Equal(t, duplicates(rows, tenant, window[0], window[1]), append([]pipeline.Duplicate(nil), list...), "in %v", window)
		}
	})
}

func checkTimeBounds(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	r := delivery("tnt_a", at(0), noon, "")
	load(tb, ctx, w, r)
	rendered := r.Delivery.RenderedAt
	for _, c := range []struct {
		from, to time.Time
		want     int
	}{
		{time.Time{}, time.Time{}, 1},
		{rendered, time.Time{}, 1},
		{rendered.Add(time.Nanosecond), time.Time{}, 0},
		{rendered.Add(-time.Nanosecond), time.Time{}, 1},
		{time.Time{}, rendered, 0},
		{time.Time{}, rendered.Add(time.Nanosecond), 1},
		{time.Time{}, rendered.Add(-time.Nanosecond), 0},
		{rendered, rendered.Add(time.Millisecond), 1},
		{rendered.In(time.FixedZone("", 3600)), rendered.Add(time.Millisecond), 1},
	} {
		lines, err := w.Metering(ctx, pipeline.MeterQuery{TenantID: "tnt_a", From: c.from, To: c.to})
		require.NoError(tb, err)
		require.Len(tb, lines, c.want, "from %s to %s", c.from, c.to)
	}
}

// checkAsOf sums as of each position, after more was loaded.
func checkAsOf(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	var rows []pipeline.Row
	for i := range int64(12) {
		rows = append(rows, delivery("tnt_a", at(i), noon.Add(time.Duration(i)*time.Second), fmt.Sprint("key ", i%4)))
	}
	load(tb, ctx, w, rows...)
	for i := range int64(13) {
		asOf := at(i)
		lines, err := w.Metering(ctx, pipeline.MeterQuery{TenantID: "tnt_a", AsOf: &asOf})
		require.NoError(tb, err)
		want := meter(rows[:i], pipeline.MeterQuery{TenantID: "tnt_a"})
		require.Equal(tb, want, append([]pipeline.MeterRow(nil), lines...), "as of %d", i)
	}
}
