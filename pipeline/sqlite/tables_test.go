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
)

// Whatever is loaded, again, retracted or dropped, in whatever batches: deliveries are counted,
// a row is marked as what the table of duplicates says, and nothing is left of what went.
func TestTablesAgree(t *testing.T) {
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
					"counts":               `SELECT 1 FROM tenants AS t WHERE deliveries <> (SELECT COUNT(*) FROM events AS e WHERE e.tenant = t.tenant AND class = 0)`,
					"marks":                `SELECT 1 FROM events WHERE class = 0 AND duplicate <> (` + here + ` IN (SELECT tenant, generation, position, log_partition FROM duplicates))`,
					"duplicates of none":   `SELECT 1 FROM duplicates WHERE ` + here + ` NOT IN (SELECT tenant, generation, position, log_partition FROM events)`,
					"firsts that are none": `SELECT 1 FROM duplicates WHERE (tenant, first_generation, first_position, first_partition) NOT IN (SELECT tenant, generation, position, log_partition FROM events)`,
					"texts of none":        `SELECT 1 FROM texts WHERE text NOT IN (SELECT text FROM events WHERE class > 0)`,
					"keys of none":         `SELECT 1 FROM keys WHERE ` + here + ` NOT IN (SELECT tenant, generation, position, log_partition FROM events)`,
				} {
					var wrong int
					require.NoError(t, w.read.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM (`+query+`)`).Scan(&wrong))
					require.Zero(t, wrong, what)
				}
				requireBlocks(t, w)
			},
		})
	})
}
