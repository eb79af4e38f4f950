package clickhouse

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// daysOfKeys are those of which keys are there.
func daysOfKeys(t *testing.T, w *Warehouse) (days []string) {
	t.Helper()
	days, err := collect(t.Context(), w.servers, func(scan func(...any) error) (day string, err error) { return day, scan(&day) },
		`SELECT DISTINCT toString(toDate(at)) FROM idempotency_keys ORDER BY 1`)
	require.NoError(t, err)
	return days
}

// lately makes the log of one tenant over the last days, with late events among them, in which most keys are
// used again, and some events come twice.
func lately(n, days int) []pipeline.Row {
	step := time.Duration(days) * 24 * time.Hour / time.Duration(n)
	start := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Duration(days) * 24 * time.Hour)
	return repeatingAt(n, n/10, []string{"key ", "key ", "key ", "row "}, func(random *rand.Rand, i int64) time.Time {
		issued := start.Add(time.Duration(i) * step)
		if random.IntN(5) == 0 { // from a spool
			issued = issued.Add(-time.Duration(random.IntN(days*24)) * time.Hour)
		}
		return issued
	})
}

// TestOldKeysAreDropped: those of the days before what the log holds and two days, and none of the others. What is
// a duplicate stays the same: of late events, of a log that is loaded again, in another process and into a new
// warehouse; whatever the filter says, and whenever keys are dropped.
func TestOldKeysAreDropped(t *testing.T) {
	t.Parallel()
	const kept = 3 * 24 * time.Hour
	rows := lately(900, 12)
	require.Greater(t, len(duplicatesOf(rows)), 100)
	for name, change := range filters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := fresh(t, stacktest.ClickHouse(t))
			change(&cfg)
			w, other := mustOpen(t, cfg), mustOpen(t, cfg)
			load := func(b pipeline.Batch) {
				for _, w := range []*Warehouse{w, other} {
					require.NoError(t, w.Load(t.Context(), b))
				}
			}
			for from := 0; from < len(rows); from += 150 {
				load(batch(rows[from : from+150]))
				_, err := w.DropKeys(t.Context(), kept)
				require.NoError(t, err)
				if from == 450 { // a process that starts fills its filters from what is left
					w, other = mustOpen(t, cfg), mustOpen(t, cfg)
				}
			}
			requireDuplicates(t, w, rows)
			var want []string
			before := time.Now().UTC().Add(-kept - keysKept).Format(time.DateOnly)
			for _, r := range rows {
				if day := r.At.UTC().Format(time.DateOnly); r.Delivery.Idempotency != "" && day >= before && !slices.Contains(want, day) {
					want = append(want, day)
				}
			}
			slices.Sort(want)
			require.Equal(t, want, daysOfKeys(t, w))
			require.GreaterOrEqual(t, len(want), 5, "today may have none yet")
			for from := 0; from < len(rows); from += 300 {
				load(batch(rows[from : from+300]))
			}
			requireDuplicates(t, w, rows, "loaded again")
			misjudged, err := w.Misjudged(t.Context(), at(0), at(int64(len(rows))))
			require.NoError(t, err)
			require.Empty(t, misjudged)
		})
	}
}

// TestRetractionsFindDroppedKeys: of three deliveries with a key the first is retracted, whose keys were dropped, and
// the third repeats the second.
func TestRetractionsFindDroppedKeys(t *testing.T) {
	t.Parallel()
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	long := time.Now().UTC().Truncate(time.Second).Add(-30 * 24 * time.Hour)
	var rows []pipeline.Row
	for i := range int64(3) {
		rows = append(rows, delivery("tnt_a", i, long.Add(time.Duration(i)*time.Minute), "key"))
	}
	require.NoError(t, w.Load(t.Context(), batch(rows)))
	days, err := w.DropKeys(t.Context(), 7*24*time.Hour)
	require.NoError(t, err)
	require.Equal(t, []string{long.Format(time.DateOnly)}, days)
	release := delivery("tnt_a", 3, time.Now().UTC().Truncate(time.Millisecond), "")
	release.Type, release.Delivery, release.SubjectKind, release.SubjectID = pipeline.TypeReleased, nil, pipeline.KindRecord, rows[0].Position.String()
	b := batch([]pipeline.Row{release})
	b.Quarantined = []pipeline.Quarantined{{Position: rows[0].Position, TenantID: "tnt_a", EventID: rows[0].EventID, Reason: "forged", Record: []byte{1}}}
	require.NoError(t, w.Load(t.Context(), b))
	list, err := w.Duplicates(t.Context(), "tnt_a", sealer.Position{}, at(9))
	require.NoError(t, err)
	require.Equal(t, []pipeline.Duplicate{{EventID: rows[2].EventID, Position: rows[2].Position, FirstEventID: rows[1].EventID, First: rows[1].Position}}, list)
}

// TestExpireKeys as long as the process runs, unless the log keeps its records for ever.
func TestExpireKeys(t *testing.T) {
	t.Parallel()
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	now := time.Now().UTC().Truncate(time.Second)
	rows := []pipeline.Row{delivery("tnt_a", 0, now.Add(-30*24*time.Hour), "key"), delivery("tnt_a", 1, now, "key")}
	require.NoError(t, w.Load(t.Context(), batch(rows)))
	run := func(ctx context.Context, kept func(context.Context) (time.Duration, error)) <-chan error {
		return later(func() error { return w.ExpireKeys(ctx, kept, slog.New(slog.DiscardHandler)) })
	}
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, <-run(ctx, func(context.Context) (time.Duration, error) {
		stop()
		return 0, errors.New("the topic keeps its records for ever")
	}))
	require.Len(t, daysOfKeys(t, w), 2)
	ctx, stop = context.WithCancel(t.Context())
	ended := run(ctx, func(context.Context) (time.Duration, error) { return 7 * 24 * time.Hour, nil })
	waittest.Until(t, func() bool { return slices.Equal(daysOfKeys(t, w), []string{now.Format(time.DateOnly)}) }, "the old key is dropped")
	stop()
	require.NoError(t, <-ended)
}

// dropping drops keys before the first look-up of a load.
type dropping struct {
	driver.Conn
	drop func()
}

func (d *dropping) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	if d.drop != nil && slices.Contains([]string{"SELECT tenant_id, event_id, generation"}, query[:min(len(query), 38)]) {
		drop := d.drop
		d.drop = nil
		drop()
	}
	return d.Conn.Query(ctx, query, args...)
}

// searches notes the look-ups in the rows of events.
type searches struct {
	driver.Conn
	queries []string
}

func (s *searches) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	if strings.Contains(query, "FROM events") && strings.Contains(query, "FROM wanted") {
		s.queries = append(s.queries, query)
	}
	return s.Conn.Query(ctx, query, args...)
}

// TestOnlyLateKeysAreSearchedInEvents: beside a late delivery the keys of others, which may be anybody's, are looked
// up as without it. Both are found to be duplicates, and nobody else's.
func TestOnlyLateKeysAreSearchedInEvents(t *testing.T) {
	t.Parallel()
	cfg := fresh(t, stacktest.ClickHouse(t))
	cfg.maybeAlways = true
	w := mustOpen(t, cfg)
	now := time.Now().UTC().Truncate(time.Second)
	long := now.Add(-30 * 24 * time.Hour)
	rows := []pipeline.Row{delivery("tnt_a", 0, long, "key"), delivery("tnt_b", 1, now, "key"), delivery("tnt_b", 2, long, "late"), delivery("tnt_c", 3, long, "other")}
	require.NoError(t, w.Load(t.Context(), batch(rows)))
	days, err := w.DropKeys(t.Context(), 7*24*time.Hour)
	require.NoError(t, err)
	require.Len(t, days, 1)
	s := &searches{Conn: w.conn}
	w.conn = s
	late := delivery("tnt_a", 4, long.Add(time.Minute), "key")
	require.NoError(t, w.Load(t.Context(), batch([]pipeline.Row{
		late, delivery("tnt_b", 5, now.Add(time.Minute), "key"), delivery("tnt_b", 6, now, "late"), delivery("tnt_c", 7, now, "row other"), delivery("tnt_c", 8, now, "other")})))
	require.Len(t, s.queries, 1)
	require.Contains(t, s.queries[0], "tenant_id IN ('tnt_a') AND at >= "+moment(late.At.UnixMilli()-dayMs))
	var repeats []int64
	for _, tenant := range []string{"tnt_a", "tnt_b", "tnt_c"} {
		list, err := w.Duplicates(t.Context(), tenant, sealer.Position{}, at(9))
		require.NoError(t, err)
		for _, d := range list {
			repeats = append(repeats, d.First.Offset, d.Position.Offset)
		}
	}
	require.Equal(t, []int64{0, 4, 1, 5}, repeats)
}

// TestLookUpsOfLateKeys are those of the late deliveries, each from a day before the earliest with the key.
func TestLookUpsOfLateKeys(t *testing.T) {
	all := lookUps{}
	id := func(name string) keyID { return keyID{tenantID: "tnt_" + name, idempotency: name} }
	for name, at := range map[string]int64{"early": 5 * dayMs, "late": 3 * dayMs, "on time": 4 * dayMs} {
		all.add(keyed{keyID: id(name), at: at + 7})
		all.add(keyed{keyID: id(name), at: at})
	}
	all.add(keyed{keyID: id("early"), at: 2 * dayMs})
	all.add(keyed{keyID: keyID{tenantID: "tnt_a", row: sealer.RowIdentity{Hash: "row"}}, at: 0})
	keys := all.idempotent()
	require.Len(t, keys, 3)
	require.Equal(t, dayMs, keys.oldest())
	late := keys.before(3 * dayMs)
	require.Equal(t, lookUps{id("early"): dayMs, id("late"): 2 * dayMs}, late)
	hashes, err := late.hashes()
	require.NoError(t, err)
	require.Equal(t, 2, hashes.Block().Rows())
}

// TestKeysAreDroppedDuringALookUp: the load fails before it has inserted anything, and succeeds when it is repeated.
func TestKeysAreDroppedDuringALookUp(t *testing.T) {
	t.Parallel()
	cfg := fresh(t, stacktest.ClickHouse(t))
	cfg.maybeAlways = true
	w, other := mustOpen(t, cfg), mustOpen(t, cfg)
	long := time.Now().UTC().Truncate(time.Second).Add(-30 * 24 * time.Hour)
	first, again := delivery("tnt_a", 0, long, "key"), delivery("tnt_a", 1, long.Add(time.Minute), "key")
	require.NoError(t, w.Load(t.Context(), batch([]pipeline.Row{first})))
	d := &dropping{Conn: w.conn}
	d.drop = func() {
		days, err := other.DropKeys(t.Context(), 7*24*time.Hour)
		require.NoError(t, err)
		require.Len(t, days, 1)
	}
	w.conn = d
	require.ErrorIs(t, w.Load(t.Context(), batch([]pipeline.Row{again})), errKeysDropped)
	n, err := w.CountEvents(t.Context(), "tnt_a")
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.NoError(t, w.Load(t.Context(), batch([]pipeline.Row{again})))
	requireDuplicates(t, w, []pipeline.Row{first, again})
}
