package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/sealertest"
)

// sumsOfRows are the sums, worked out from the rows.
const sumsOfRows = `SELECT tenant, unit, rendered_at - (rendered_at % unit + unit) % unit, common, duplicate,
		COUNT(*), SUM(quantity_ms), SUM(COALESCE(impressions, 10000)), MIN(rendered_at), MAX(rendered_at)
	FROM events, (SELECT DISTINCT unit FROM sums) WHERE class = 0 GROUP BY 1, 2, 3, 4, 5`

const storedSums = `SELECT tenant, unit, start, common, duplicate, receipts, quantity_ms, impressions, first, last FROM sums`

// Whatever is loaded, again, retracted or dropped, in whatever batches: the sums are those of
// the rows, a row is marked as what the table of duplicates says, and nothing is left of what went.
func TestSumsAreThoseOfTheRows(t *testing.T) {
	runs := 0
	rapidtest.Check(t, 10, 300, func(rt *rapid.T) {
		runs++
		path := filepath.Join(t.TempDir(), fmt.Sprint(runs))
		t := rt
		w, err := Open(t.Context(), Config{Path: path})
		require.NoError(t, err)
		defer w.Close()
		noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		var log []pipeline.Row
		var seen []pipeline.Quarantined
		end := func() sealer.Position { return sealer.Position{Generation: 1, Offset: int64(len(log))} }
		t.Repeat(map[string]func(*rapid.T){
			"deliver": func(t *rapid.T) {
				from := end()
				for range rapid.IntRange(1, 8).Draw(t, "rows") {
					if len(log) > 0 && rapid.IntRange(0, 5).Draw(t, "copy") == 0 {
						again := log[rapid.IntRange(0, len(log)-1).Draw(t, "of")]
						again.Position = end()
						log = append(log, again)
						continue
					}
					r := deliveries(len(log), 1)[0]
					r.TenantID = fmt.Sprintf("tnt_%d", rapid.IntRange(0, 1).Draw(t, "tenant"))
					r.At = noon.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "at")) * time.Hour)
					r.Delivery.RenderedAt = r.At.Add(-time.Duration(rapid.IntRange(0, 1000).Draw(t, "late")) * time.Hour / 7)
					if rapid.IntRange(0, 9).Draw(t, "old") == 0 {
						r.Delivery.RenderedAt = time.UnixMilli(rapid.Int64Range(-1e8, 1e8).Draw(t, "rendered"))
					}
					r.Delivery.QuantityMs = rapid.Int64Range(0, 1000).Draw(t, "quantity")
					r.Delivery.Impressions = rapid.SampledFrom([]int64{sealer.Impression, sealer.Impression, 1, 25_000}).Draw(t, "impressions")
					r.Delivery.Completion = rapid.SampledFrom([]string{"none", "complete"}).Draw(t, "completion")
					if hash := r.Delivery.Idempotency; rapid.IntRange(0, 4).Draw(t, "row") == 0 {
						r.Delivery.Idempotency = ""
						r.Delivery.Identity = sealer.RowIdentity{Hash: deliveries(rapid.IntRange(0, 2).Draw(t, "identity"), 1)[0].Delivery.Idempotency,
							Day: rapid.SampledFrom([]string{"", "2026-11-20", "2026-11-21"}).Draw(t, "day")}
					} else {
						r.Delivery.Idempotency = rapid.SampledFrom([]string{"", "a", "b", hash}).Draw(t, "key")
					}
					log = append(log, r)
				}
				require.NoError(t, w.Load(t.Context(), pipeline.Batch{From: from, Rows: log[from.Offset:], Next: end()}))
			},
			"replay": func(t *rapid.T) {
				from := rapid.IntRange(0, len(log)).Draw(t, "from")
				to := rapid.IntRange(from, len(log)).Draw(t, "to")
				require.NoError(t, w.Load(t.Context(), pipeline.Batch{
					From: sealer.Position{Generation: 1, Offset: int64(from)}, Rows: log[from:to], Quarantined: seen, Next: sealer.Position{Generation: 1, Offset: int64(to)},
				}))
			},
			"retract": func(t *rapid.T) {
				if len(log) == 0 {
					return
				}
				r := rapid.SampledFrom(log).Draw(t, "row")
				seen = append(seen, pipeline.Quarantined{Position: r.Position, TenantID: r.TenantID, EventID: r.EventID, Reason: "forged", Record: []byte{1}})
				from := end()
				release := deliveries(len(log), 1)[0]
				release.TenantID, release.Type, release.Delivery = r.TenantID, pipeline.TypeReleased, nil
				release.SubjectKind, release.SubjectID = pipeline.KindRecord, r.Position.String()
				log = append(log, release)
				require.NoError(t, w.Load(t.Context(), pipeline.Batch{From: from, Rows: log[from.Offset:], Quarantined: seen, Next: end()}))
			},
			"drop": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
					return
				}
				from := end()
				dropped := deliveries(len(log), 1)[0]
				dropped.TenantID, dropped.Type, dropped.Delivery = "tnt_1", pipeline.TypeDropped, nil
				dropped.SubjectKind, dropped.SubjectID = "tenant", "tnt_1"
				log = append(log, dropped)
				require.NoError(t, w.Load(t.Context(), pipeline.Batch{From: from, Rows: log[from.Offset:], Next: end()}))
			},
			"reopen": func(t *rapid.T) {
				require.NoError(t, w.Close())
				w, err = Open(t.Context(), Config{Path: path})
				require.NoError(t, err)
			},
			"": func(t *rapid.T) {
				const here = `(tenant, generation, position, log_partition)`
				for what, query := range map[string]string{
					"sums without rows":    storedSums + ` EXCEPT ` + sumsOfRows,
					"rows without sums":    sumsOfRows + ` EXCEPT ` + storedSums,
					"marks":                `SELECT 1 FROM events WHERE class = 0 AND duplicate <> (` + here + ` IN (SELECT tenant, generation, position, log_partition FROM duplicates))`,
					"duplicates of none":   `SELECT 1 FROM duplicates WHERE ` + here + ` NOT IN (SELECT tenant, generation, position, log_partition FROM events)`,
					"firsts that are none": `SELECT 1 FROM duplicates WHERE (tenant, first_generation, first_position, first_partition) NOT IN (SELECT tenant, generation, position, log_partition FROM events)`,
					"texts of none":        `SELECT 1 FROM texts WHERE text NOT IN (SELECT text FROM events)`,
					"keys of none":         `SELECT 1 FROM keys WHERE ` + here + ` NOT IN (SELECT tenant, generation, position, log_partition FROM events)`,
				} {
					var wrong int
					require.NoError(t, w.read.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM (`+query+`)`).Scan(&wrong))
					require.Zero(t, wrong, what)
				}
			},
		})
	})
}

// Sums as of a position are those of the rows before it, whether what is behind is taken out
// of whole units or what is before is added up.
func TestSumsAsOfAPosition(t *testing.T) {
	w, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	defer w.Close()
	const n = 120
	rows := deliveries(0, n)
	begin := time.Date(2026, 10, 1, 0, 30, 0, 0, time.UTC)
	for i := range rows {
		d := rows[i].Delivery
		rows[i].TenantID, d.RightID = "tnt_a", fmt.Sprintf("rgh_%d", i%3)
		d.RenderedAt = begin.Add(time.Duration(i*37%n) * 7 * time.Hour)
		if i%4 == 3 {
			d.Idempotency = rows[i-3].Delivery.Idempotency
		}
	}
	require.NoError(t, w.Load(t.Context(), pipeline.Batch{Rows: rows, Next: sealer.Position{Generation: 1, Offset: n}}))
	offsets := []int64{0, 1, 2, n - 1, n, n + 1}
	for offset := int64(3); offset < n-1; offset += int64(sealertest.Rounds(11, 1)) {
		offsets = append(offsets, offset)
	}
	for _, q := range []pipeline.MeterQuery{
		{}, {RightID: "rgh_1"}, {From: begin.Add(5 * time.Hour)}, {From: begin, To: begin.Add(100 * time.Hour)},
		{Buckets: []time.Time{begin, begin.Add(29 * time.Hour), begin.Add(700 * time.Hour)}},
	} {
		for _, offset := range offsets {
			q.TenantID, q.AsOf = "tnt_a", &sealer.Position{Generation: 1, Offset: offset}
			w.mostBehind = mostBehind
			lines, err := w.Metering(t.Context(), q)
			require.NoError(t, err)
			totals, err := w.MeterTotals(t.Context(), q)
			require.NoError(t, err)
			w.mostBehind = -1
			added, err := w.Metering(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, added, lines, "as of %d: %+v", offset, q)
			total, err := w.MeterTotals(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, total, totals, "as of %d: %+v", offset, q)
		}
	}
}
