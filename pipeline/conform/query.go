package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// counts makes a row of what the gate refused; each count is JSON.
func counts(tenant string, p sealer.Position, when time.Time, counts ...string) pipeline.Row {
	return report(tenant, p, when, counts, nil)
}

// report makes a row of what the gate refused, and of the names that it did not recognise, if any;
// each count is JSON.
func report(tenant string, p sealer.Position, when time.Time, counts, names []string) pipeline.Row {
	return audit(tenant, p, func(e *sealer.Event) {
		e.Type, e.At, e.Actor, e.Subject = pipeline.TypeRefusals, when, sealer.Ref{Kind: "node", ID: "nod_conform"}, sealer.Ref{Kind: "tenant", ID: tenant}
		e.Data = fmt.Appendf(nil, `{"counts":[%s],"from":"","to":""`, strings.Join(counts, ","))
		if len(names) > 0 {
			e.Data = fmt.Appendf(e.Data, `,"unrecognised":[%s]`, strings.Join(names, ","))
		}
		e.Data = append(e.Data, '}')
	})
}

// drawCut draws buckets around noon: some of any length, few or none.
func drawCut(t *rapid.T) []time.Time {
	offsets := rapid.SliceOfNDistinct(rapid.Int64Range(-90_000_000, 90_000_000), 0, 6, rapid.ID[int64]).Draw(t, "buckets")
	slices.Sort(offsets)
	starts := make([]time.Time, len(offsets))
	for i, ms := range offsets {
		starts[i] = noon.Add(time.Duration(ms) * time.Millisecond)
	}
	return starts
}

// drawHours draws hours, most of which some rows are of.
func drawHours(t *rapid.T, log []pipeline.Row) []time.Time {
	hours := map[time.Time]bool{}
	for range rapid.IntRange(0, 4).Draw(t, "hours") {
		at := noon.Add(time.Duration(rapid.IntRange(-30, 30).Draw(t, "hour")) * time.Hour)
		if d := rapid.SampledFrom(log).Draw(t, "row of the hour").Delivery; d != nil {
			at = d.RenderedAt
		}
		hours[at.UTC().Truncate(time.Hour)] = true
	}
	return append([]time.Time{}, slices.SortedFunc(maps.Keys(hours), time.Time.Compare)...)
}

// drawInstant draws a moment around noon, or none; finer than rows have it.
func drawInstant(t *rapid.T, name string) time.Time {
	if rapid.IntRange(0, 2).Draw(t, name+" is open") == 0 {
		return time.Time{}
	}
	return noon.Add(time.Duration(rapid.Int64Range(-90_000_000, 90_000_000).Draw(t, name)) * time.Millisecond).
		Add(time.Duration(rapid.IntRange(0, 1).Draw(t, name+" is finer")))
}

// requireLines compares the answer to a question; nil is an answer without lines.
func requireLines[T any](tb require.TestingT, want, got []T, question any) {
	require.Equal(tb, append([]T{}, want...), append([]T{}, got...), "%+v", question)
}

// drawEvents draws the ids of some rows, some of them twice, and of none.
func drawEvents(t *rapid.T, log []pipeline.Row) []string {
	ids := []string{}
	for range rapid.IntRange(0, 12).Draw(t, "events") {
		ids = append(ids, rapid.SampledFrom(log).Draw(t, "event").EventID)
	}
	return append(ids, rapid.SampledFrom([][]string{nil, {"evt_00000000000000000000000000"}, {""}, {"it's none"}}).Draw(t, "strange event")...)
}

func checkBuckets(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	rapid.Check(tb, func(t *rapid.T) {
		tenant := fmt.Sprintf("tnt_%d", tenants.Add(1))
		log := drawRows(t, tenant, begin(t, ctx, w))
		feed(t, ctx, w, log) // copies of one event in several batches
		rows := collapse(log)
		q := pipeline.MeterQuery{
			TenantID: tenant, Buckets: drawCut(t), From: drawInstant(t, "from"), To: drawInstant(t, "to"),
			RightID: rapid.SampledFrom([]string{"", "", "rgh_2"}).Draw(t, "one right"),
			By: pipeline.MeterBy{Completion: rapid.Bool().Draw(t, "by completion"),
				Anchor: rapid.Bool().Draw(t, "by anchor"), Placement: rapid.Bool().Draw(t, "by placement")},
		}
		if rapid.IntRange(0, 2).Draw(t, "all events") == 0 {
			q.EventIDs = drawEvents(t, log)
		}
		if rapid.Bool().Draw(t, "as of") {
			q.AsOf = &log[rapid.IntRange(0, len(log)-1).Draw(t, "position")].Position
		}
		if rapid.IntRange(0, 2).Draw(t, "after") == 0 {
			q.After = &log[rapid.IntRange(0, len(log)-1).Draw(t, "after this")].Position
		}
		if rapid.IntRange(0, 2).Draw(t, "of some hours") == 0 {
			q.Hours = drawHours(t, log)
		}
		want := meter(rows, q)
		lines, err := w.Metering(ctx, q)
		require.NoError(t, err)
		requireLines(t, want, lines, q)
		totals, err := w.MeterTotals(ctx, q)
		require.NoError(t, err)
		require.Equal(t, meterTotals(rows, q), totals, "%+v", q)

		q.Skip, q.Limit = rapid.IntRange(0, 5).Draw(t, "skip"), rapid.IntRange(0, 4).Draw(t, "limit")
		lines, err = w.Metering(ctx, q)
		require.NoError(t, err)
		requireLines(t, slice(want, q.Skip, q.Limit), lines, q)
		again, err := w.MeterTotals(ctx, q)
		require.NoError(t, err)
		require.Equal(t, totals, again, "a page doesn't change the totals")
	})
}

// requireSums compares what a tenant's rows add up to with the model: all of them, by all that
// sums may be by, and every other one alone.
func requireSums(tb require.TestingT, ctx context.Context, w pipeline.Warehouse, rows []pipeline.Row, tenant string) {
	some := []string{}
	for i, r := range rows {
		if i%2 == 0 {
			some = append(some, r.EventID)
		}
	}
	for _, q := range []pipeline.MeterQuery{
		{}, {By: pipeline.MeterBy{Completion: true, Anchor: true, Placement: true}}, {EventIDs: some},
	} {
		q.TenantID = tenant
		lines, err := w.Metering(ctx, q)
		require.NoError(tb, err)
		requireLines(tb, meter(rows, q), lines, q)
		totals, err := w.MeterTotals(ctx, q)
		require.NoError(tb, err)
		require.Equal(tb, meterTotals(rows, q), totals, "%+v", q)
	}
}

// checkNamedEvents names a duplicate without what it repeats, an event of another tenant, none,
// and as many as may be named.
func checkNamedEvents(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	first, again, theirs := delivery("tnt_a", at(0), noon, "key"), delivery("tnt_a", at(1), noon, "key"), delivery("tnt_b", at(2), noon, "")
	load(tb, ctx, w, first, again, theirs, audit("tnt_a", at(3)))
	ids := []string{again.EventID, theirs.EventID, again.EventID}
	for i := range int64(pipeline.MaxMeterEvents - len(ids)) {
		ids = append(ids, "evt_"+newID("tnt_a", at(10+i), noon).String())
	}
	sum := func(ids []string) (pipeline.MeterTotals, error) {
		q := pipeline.MeterQuery{TenantID: "tnt_a", EventIDs: ids}
		lines, err := w.Metering(ctx, q)
		if err == nil {
			requireLines(tb, meter([]pipeline.Row{first, again, theirs}, q), lines, len(ids))
		}
		totals, err2 := w.MeterTotals(ctx, q)
		require.Equal(tb, err == nil, err2 == nil)
		return totals, err
	}
	totals, err := sum(ids)
	require.NoError(tb, err)
	rendered := again.Delivery.RenderedAt
	require.Equal(tb, pipeline.MeterTotals{Receipts: 1, Duplicates: 1, First: rendered, Last: rendered}, totals, "whether it is a duplicate doesn't depend on the query")
	totals, err = sum([]string{})
	require.NoError(tb, err)
	require.Zero(tb, totals, "none are named")
	_, err = sum(append(ids, first.EventID))
	require.ErrorContains(tb, err, "10001 events are named")
}

// checkBucketEdges puts deliveries on and beside the edges of buckets.
func checkBucketEdges(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	var rows []pipeline.Row
	for i, ms := range []int64{-1, 0, 1, 999, 1000, 1001, 5000} {
		rows = append(rows, delivery("tnt_a", at(int64(i)), noon.Add(time.Second+time.Duration(ms)*time.Millisecond), ""))
	}
	load(tb, ctx, w, rows...)
	zone := time.FixedZone("", 19800)
	lines, err := w.Metering(ctx, pipeline.MeterQuery{
		TenantID: "tnt_a", To: noon.Add(5 * time.Second), Buckets: []time.Time{noon.In(zone), noon.Add(time.Second).In(zone)},
	})
	require.NoError(tb, err)
	require.Len(tb, lines, 2)
	require.EqualValues(tb, 3, lines[0].Receipts, "from its start, without the start of the next")
	require.EqualValues(tb, 2, lines[1].Receipts, "up to the end of the window")
	require.Equal(tb, noon, lines[0].Bucket, "in UTC")
	require.Equal(tb, noon.Add(time.Second), lines[1].Bucket)

	epoch := delivery("tnt_b", at(20), time.Unix(1, 0).UTC(), "")
	load(tb, ctx, w, epoch)
	lines, err = w.Metering(ctx, pipeline.MeterQuery{TenantID: "tnt_b", Buckets: []time.Time{time.Unix(0, 0)}})
	require.NoError(tb, err)
	require.Len(tb, lines, 1)
	require.Equal(tb, time.Unix(0, 0).UTC(), lines[0].Bucket, "1970 is a bucket like any other")
	for _, empty := range [][2]time.Time{{noon, noon}, {noon.Add(time.Hour), noon}} {
		q := pipeline.MeterQuery{TenantID: "tnt_a", From: empty[0], To: empty[1]}
		totals, err := w.MeterTotals(ctx, q)
		require.NoError(tb, err)
		require.Zero(tb, totals)
		q.Buckets = []time.Time{noon}
		lines, err := w.Metering(ctx, q)
		require.NoError(tb, err)
		require.Empty(tb, lines)
	}
}

// oddCounts are what no node writes. None of them may count, or stop the rest from
// counting.
var oddCounts = []string{
	`{"count":"3","rule":"a"}`, `{"count":2.5,"rule":"a"}`, `{"count":null,"rule":"a"}`, `{"rule":"a"}`, `{"count":3}`,
	`{"count":3,"rule":null}`, `{"count":3,"rule":7}`, `{"count":3,"rightId":7,"rule":"a"}`, `{"count":3,"rightId":null,"rule":"a"}`, `{}`, `"a b"`, `7`, `null`, `[]`,
}

// oddNames are the same of names.
var oddNames = []string{
	`{"count":"3","meant":"a","name":"A"}`, `{"count":2.5,"meant":"a","name":"A"}`, `{"meant":"a","name":"A"}`, `{"count":3,"name":"A"}`,
	`{"count":3,"meant":null,"name":"A"}`, `{"count":3,"meant":"a","name":7}`, `{"count":3,"meant":"a"}`, `{"count":3,"rule":"a"}`, `{}`, `"a b"`, `7`, `null`, `[]`,
}

func checkRefusals(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	rapid.Check(tb, func(t *rapid.T) {
		tenant := fmt.Sprintf("tnt_%d", tenants.Add(1))
		var log []pipeline.Row
		start := begin(t, ctx, w)
		for i := range rapid.IntRange(1, 12).Draw(t, "events") {
			p := start
			p.Generation, p.Offset = start.Generation+uint32(i/5), start.Offset+int64(i)
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				log = append(log, delivery(tenant, p, noon, ""))
				continue
			case 1: // a copy counts no second time
				if i > 0 {
					log = append(log, again(log[rapid.IntRange(0, i-1).Draw(t, "of")], p))
					continue
				}
			}
			var list []string
			for range rapid.IntRange(0, 4).Draw(t, "counts") {
				if rapid.IntRange(0, 4).Draw(t, "odd") == 0 {
					list = append(list, rapid.SampledFrom(oddCounts).Draw(t, "count"))
					continue
				}
				one, err := json.Marshal(struct {
					Count   int64  `json:"count"`
					RightID string `json:"rightId,omitempty"`
					Rule    string `json:"rule"`
				}{
					rapid.Int64Range(0, 1<<40).Draw(t, "n"),
					rapid.SampledFrom([]string{"", "rgh_1", "rgh_2"}).Draw(t, "right"),
					rapid.SampledFrom([]string{"a", "b", "it's \"c\""}).Draw(t, "rule"),
				})
				require.NoError(t, err)
				list = append(list, string(one))
			}
			when := noon.Add(time.Duration(rapid.Int64Range(-90_000_000, 90_000_000).Draw(t, "at")) * time.Millisecond)
			var names []string
			for range rapid.IntRange(0, 3).Draw(t, "names") {
				if rapid.IntRange(0, 4).Draw(t, "odd") == 0 {
					names = append(names, rapid.SampledFrom(oddNames).Draw(t, "name"))
					continue
				}
				names = append(names, fmt.Sprintf(`{"count":%d,"meant":%q,"name":%q}`, rapid.Int64Range(0, 1<<40).Draw(t, "n"),
					rapid.SampledFrom([]string{"a", "b"}).Draw(t, "meant"), rapid.SampledFrom([]string{"", "A", `it's "B"`}).Draw(t, "name")))
			}
			log = append(log, report(tenant, p, when, list, names))
		}
		load(t, ctx, w, log...)
		rows := collapse(log)
		q := pipeline.RefusalQuery{
			TenantID: tenant, Buckets: drawCut(t), From: drawInstant(t, "from"), To: drawInstant(t, "to"),
			RightID: rapid.SampledFrom([]string{"", "", "rgh_2"}).Draw(t, "one right"),
			Rule:    rapid.SampledFrom([]string{"", "", "it's \"c\""}).Draw(t, "one rule"),
		}
		if rapid.Bool().Draw(t, "as of") {
			q.AsOf = &log[rapid.IntRange(0, len(log)-1).Draw(t, "position")].Position
		}
		want := refusals(rows, q)
		lines, err := w.Refusals(ctx, q)
		require.NoError(t, err)
		requireLines(t, want, lines, q)
		q.Skip, q.Limit = rapid.IntRange(0, 3).Draw(t, "skip"), rapid.IntRange(0, 3).Draw(t, "limit")
		lines, err = w.Refusals(ctx, q)
		require.NoError(t, err)
		requireLines(t, slice(want, q.Skip, q.Limit), lines, q)
		totals, err := w.RefusalTotals(ctx, q)
		require.NoError(t, err)
		require.Equal(t, refusalTotals(rows, q), totals, "%+v", q)

		misnomers := unrecognised(rows, q)
		named, err := w.Unrecognised(ctx, q)
		require.NoError(t, err)
		requireLines(t, misnomers, named, q)
	})
}

// checkRules sums refusals of several tenants by rule, in a window.
func checkRules(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	counter, ok := w.Warehouse.(pipeline.RuleCounter)
	require.True(tb, ok, "it counts refusals of all tenants")
	one, other := fmt.Sprintf("tnt_%d", tenants.Add(1)), fmt.Sprintf("tnt_%d", tenants.Add(1))
	day := noon.AddDate(3, 0, 0) // of no other case
	p := begin(tb, ctx, w)
	var log []pipeline.Row
	for _, e := range []struct {
		tenant string
		after  time.Duration
		counts []string
	}{
		{one, -time.Millisecond, []string{`{"count":100,"rule":"speed"}`}}, // before the window
		{one, 0, []string{`{"count":2,"rightId":"rgh_1","rule":"speed"}`, `{"count":1,"rule":"consent"}`}},
		{other, time.Hour, append([]string{`{"count":5,"rule":"consent"}`, `{"count":3,"rule":"speed"}`}, oddCounts...)},
		{other, 2 * time.Hour, []string{`{"count":100,"rule":"speed"}`}}, // at its end
	} {
		row := counts(e.tenant, p, day.Add(e.after), e.counts...)
		log = append(log, row)
		p = row.Next()
	}
	log = append(log, again(log[1], p)) // a copy counts no second time
	load(tb, ctx, w, log...)
	lines, err := counter.RefusalsByRule(ctx, day, day.Add(2*time.Hour))
	require.NoError(tb, err)
	require.Equal(tb, []pipeline.RefusalRow{{Rule: "consent", Refusals: 6}, {Rule: "speed", Refusals: 5}}, lines)
	lines, err = counter.RefusalsByRule(ctx, day.AddDate(1, 0, 0), day.AddDate(1, 0, 1))
	require.NoError(tb, err)
	require.Empty(tb, lines)
}

// checkEnds finds events by ends of their ids, in the order of the log, and by nothing that is no end of one.
func checkEnds(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	var log []pipeline.Row
	for i := range int64(12) {
		log = append(log, delivery("tnt_a", at(i), noon.Add(time.Duration(i)*time.Minute), ""))
	}
	log = append(log, audit("tnt_a", at(12)), delivery("tnt_b", at(13), noon, ""))
	load(tb, ctx, w, log...)
	for _, i := range []int{0, 5, 12} {
		id := log[i].EventID
		for _, n := range []int{1, 2, 6, 7, 8, 25, 26, 27, len(id)} {
			end := id[len(id)-n:]
			for _, q := range []pipeline.EventQuery{
				{EventIDEnd: end},
				{EventIDEnd: end, RenderedFrom: noon.Add(-time.Hour), RenderedTo: noon.Add(10 * time.Minute), Newest: true},
			} {
				q.TenantID, q.Limit = "tnt_a", 2
				got, err := w.Events(ctx, q)
				require.NoError(tb, err)
				requireRows(tb, events(log, q), got)
			}
		}
	}
	for _, end := range []string{"_", "evt_0", "uuuuuu", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "'"} {
		got, err := w.Events(ctx, pipeline.EventQuery{TenantID: "tnt_a", EventIDEnd: end, Limit: 2})
		require.NoError(tb, err)
		require.Empty(tb, got, end)
	}
}

// checkFilters compares listings under every kind of filter with the model, whole
// and page by page.
func checkFilters(tb testing.TB, ctx context.Context, w WarehouseEngine) {
	rapid.Check(tb, func(t *rapid.T) {
		tenant := fmt.Sprintf("tnt_%d", tenants.Add(1))
		kinds := []string{"right", "key", "it's"}
		ids := []string{"x", "y"}
		// Byte for byte: of another case, with a quote, and one that is a part of another.
		anchors, correlations := []string{"screen 1", "Screen 1", "it's \"3\"", "screen"}, []string{"", "order-1", "order-11", "ORDER-1"}
		types := []string{sealer.TypeDelivery, sealer.TypeDelivery, "right.issued", "right.revoked", pipeline.TypeRefusals}
		var log []pipeline.Row
		start := begin(t, ctx, w)
		for i := range rapid.IntRange(1, 30).Draw(t, "rows") {
			p := start
			p.Generation, p.Offset = start.Generation+uint32(i/11), start.Offset+int64(i)
			when := noon.Add(time.Duration(rapid.Int64Range(-90_000_000, 90_000_000).Draw(t, "at")) * time.Millisecond)
			actor := sealer.Ref{Kind: rapid.SampledFrom(kinds).Draw(t, "actor"), ID: rapid.SampledFrom(ids).Draw(t, "actor id")}
			about := sealer.Ref{Kind: rapid.SampledFrom(kinds).Draw(t, "subject"), ID: rapid.SampledFrom(ids).Draw(t, "subject id")}
			anchor, correlation := rapid.SampledFrom(anchors).Draw(t, "anchor"), rapid.SampledFrom(correlations).Draw(t, "correlation")
			if kind := rapid.SampledFrom(types).Draw(t, "type"); kind != sealer.TypeDelivery {
				log = append(log, audit(tenant, p, func(e *sealer.Event) {
					e.Type, e.At, e.Actor, e.Subject = kind, when, actor, about
					// No delivery, whatever it says.
					e.Data = fmt.Appendf(nil, `{"receipt":{"correlationId":%q,"spatialAnchorId":%q},"rightId":%q}`, correlation, anchor, about.ID)
				}))
				continue
			}
			log = append(log, delivery(tenant, p, when, "", func(d *sealer.Delivery, r *sealer.Receipt) {
				d.Actor, d.RightID, r.SpatialAnchorID = actor, about.ID, anchor
				if correlation != "" {
					r.CorrelationID = &correlation
				}
				r.RenderedAt = when.Add(-time.Duration(rapid.Int64Range(0, 90_000_000).Draw(t, "late")) * time.Millisecond)
			}))
		}
		load(t, ctx, w, log...)

		maybe := func(name string, of []string) string {
			return rapid.SampledFrom(append([]string{"", ""}, of...)).Draw(t, name)
		}
		place := func(name string) *sealer.Position {
			if rapid.IntRange(0, 2).Draw(t, name+" is open") > 0 {
				return nil
			}
			return &log[rapid.IntRange(0, len(log)-1).Draw(t, name)].Position
		}
		q := pipeline.EventQuery{
			TenantID: tenant,
			Types:    rapid.SliceOfN(rapid.SampledFrom(types), 0, 3).Draw(t, "types"), NoDeliveries: rapid.IntRange(0, 3).Draw(t, "deliveries") == 0,
			ActorKind: maybe("actor is", kinds), ActorID: maybe("actor id is", ids),
			SubjectKind: maybe("subject is", kinds), SubjectID: maybe("subject id is", ids),
			SubjectIDs: rapid.SliceOfN(rapid.SampledFrom(append([]string{"nobody", "it's"}, ids...)), 0, 2).Draw(t, "subjects"),
			From:       drawInstant(t, "from"), To: drawInstant(t, "to"),
			RightID: maybe("right is", ids), SpatialAnchorID: maybe("anchor is", anchors), CorrelationID: maybe("correlation is", correlations),
			RenderedFrom: drawInstant(t, "rendered from"), RenderedTo: drawInstant(t, "rendered to"),
			After: place("after"), Before: place("before"),
			Newest: rapid.Bool().Draw(t, "newest"), Limit: len(log),
		}
		want := events(log, q)
		got, err := w.Events(ctx, q)
		require.NoError(t, err)
		requireRows(t, want, got)
		q.Limit = rapid.IntRange(1, 4).Draw(t, "limit")
		requireRows(t, want, pages(t, ctx, w, q))
	})
}
