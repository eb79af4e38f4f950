package clickhouse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// repeating makes the log of one tenant over some days, in which most keys are used again,
// clocks differ by hours, and some events come twice.
func repeating(n int) []pipeline.Row {
	return repeatingAt(n, n/8, []string{"key ", "key ", "row ", "play "}, func(random *rand.Rand, i int64) time.Time {
		return midnight.Add(time.Duration(i)*10*time.Minute - time.Duration(random.IntN(300))*time.Minute)
	})
}

// repeatingAt makes the log of one tenant with n events, of which some come twice, and so many keys of each kind.
func repeatingAt(n, keys int, kinds []string, issued func(random *rand.Rand, i int64) time.Time) (rows []pipeline.Row) {
	random := rand.New(rand.NewPCG(7, uint64(n)))
	for i := range int64(n) {
		if i > 0 && random.IntN(10) == 0 {
			again := rows[random.IntN(len(rows))]
			again.Position = at(i)
			rows = append(rows, again)
			continue
		}
		rows = append(rows, delivery("tnt_a", i, issued(random, i), fmt.Sprint(kinds[random.IntN(len(kinds))], random.IntN(keys))))
	}
	return rows
}

// first is the rule, worked out the plain way.
func first(rows []pipeline.Row, r pipeline.Row) (first pipeline.Row, ok bool) {
	for _, p := range rows {
		switch {
		case p.Offset >= r.Offset:
			return first, ok
		case p.EventID == r.EventID: // a copy is no row
			return pipeline.Row{}, false
		case !ok && keyOf("", p.Delivery) == keyOf("", r.Delivery) && (r.Delivery.Identity.Hash != "" || r.At.Sub(p.At) <= 24*time.Hour):
			first, ok = p, true
		}
	}
	return first, ok
}

func duplicatesOf(rows []pipeline.Row) (list []pipeline.Duplicate) {
	for _, r := range rows {
		if p, ok := first(rows, r); ok {
			list = append(list, pipeline.Duplicate{EventID: r.EventID, Position: r.Position, FirstEventID: p.EventID, First: p.Position})
		}
	}
	return list
}

func requireDuplicates(t *testing.T, w *Warehouse, rows []pipeline.Row, args ...any) {
	t.Helper()
	list, err := w.Duplicates(t.Context(), "tnt_a", sealer.Position{}, at(1<<40))
	require.NoError(t, err)
	require.Equal(t, duplicatesOf(rows), list, args...)
	totals, err := w.MeterTotals(t.Context(), pipeline.MeterQuery{TenantID: "tnt_a"})
	require.NoError(t, err)
	require.EqualValues(t, len(list), totals.Duplicates, args...)
}

// Whatever the filter says, and whenever a process starts, the same are duplicates.
func TestFiltersDecideNothing(t *testing.T) {
	t.Parallel()
	rows := repeating(1200)
	require.Greater(t, len(duplicatesOf(rows)), 300)
	for name, change := range filters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := fresh(t, stacktest.ClickHouse(t))
			change(&cfg)
			w := mustOpen(t, cfg)
			for from := 0; from < len(rows); from += 75 {
				if from%300 == 0 { // another loader takes over
					w = mustOpen(t, cfg)
				}
				b := batch(rows[max(0, from-from%50):min(from+75, len(rows))])
				require.NoError(t, w.Load(t.Context(), b))
			}
			requireDuplicates(t, w, rows)
			for from := 0; from < len(rows); from += 400 { // once more
				require.NoError(t, w.Load(t.Context(), batch(rows[from:min(from+400, len(rows))])))
			}
			requireDuplicates(t, w, rows)
		})
	}
}

// beside calls something before one of the statements of a load.
type beside struct {
	driver.Conn
	left int
	call func()
}

func (c *beside) next() {
	if c.left == 0 {
		c.call()
	}
	c.left--
}

func (c *beside) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	c.next()
	return c.Conn.Query(ctx, query, args...)
}

func (c *beside) PrepareBatch(ctx context.Context, query string, opts ...driver.PrepareBatchOption) (driver.Batch, error) {
	c.next()
	return c.Conn.PrepareBatch(ctx, query, opts...)
}

// A row is retracted before each statement of a load that brings it again, and rows that
// repeat it: it stays away, and what repeats it repeats the next one, or nothing.
func TestRetractedDuringALoad(t *testing.T) {
	t.Parallel()
	for first, key := range []string{"key", "row 1"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			if full {
				retractDuringLoads(t, key, 0, 1)
			} else { // at every other statement, the one key at those that the other leaves out
				retractDuringLoads(t, key, first, 2)
			}
		})
	}
}

func retractDuringLoads(t *testing.T, key string, at, step int) {
	for ; ; at += step {
		cfg := fresh(t, stacktest.ClickHouse(t))
		w, other := mustOpen(t, cfg), mustOpen(t, cfg)
		forged, next, free := delivery("tnt_a", 0, midnight, key), delivery("tnt_a", 1, midnight, key), delivery("tnt_a", 2, midnight, "other")
		require.NoError(t, w.Load(t.Context(), batch([]pipeline.Row{forged, next, free})))
		more := []pipeline.Row{forged, next, free, delivery("tnt_a", 3, midnight, key), delivery("tnt_a", 4, midnight, "other")}
		retracted := false
		w.conn = &beside{w.conn, at, func() {
			retracted = true
			require.NoError(t, other.Load(t.Context(), retracting(forged)))
		}}
		require.NoError(t, w.Load(t.Context(), batch(more)))
		w.conn = w.conn.(*beside).Conn
		if !retracted {
			require.Greater(t, at, 6, "statements")
			return
		}
		_, err := w.Event(t.Context(), "tnt_a", forged.EventID)
		require.ErrorIs(t, err, pipeline.ErrNoEvent, "before statement %d", at)
		requireDuplicates(t, w, more[1:], "before statement %d", at)
	}
}

// What a load queries and writes of rows costs it nothing where there are none, and little where
// a filter knows them to be new.
func TestStatementsOfALoad(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	conn := w.conn
	offset := int64(0)
	statements := func(keys ...string) int {
		var rows []pipeline.Row
		for _, key := range keys {
			rows = append(rows, delivery("tnt_a", offset, midnight, key))
			offset++
		}
		counted := &beside{Conn: conn}
		w.conn = counted
		counted.call = func() {}
		require.NoError(t, w.Load(t.Context(), batch(rows)))
		return -counted.left
	}
	statements("key 1", "row 1", "play 1") // fills the filters, and learns what is loaded
	plain := statements("key 2", "key 3")
	require.Equal(t, plain+1, statements("key 4", "row 2"), "the insert")
	require.Equal(t, plain+1+1, statements("key 5", "row 3", "play 2"), "and the look-up by day")
	require.Equal(t, plain+1+1+1, statements("key 6", "row 3"), "of what the filter knows the look-up too, and the decision")
}

// A loader is cut off at each of its statements, before the server has it or after, and
// another one loads the batch: all is there once.
func TestCutAtEachStatement(t *testing.T) {
	t.Parallel()
	const most = 16 // and one that a load has not
	for _, before := range []bool{true, false} {
		for left := range most {
			if !full && before != (left%2 == 0) { // at each statement before or after it
				continue
			}
			t.Run(fmt.Sprint(left, before), func(t *testing.T) {
				t.Parallel()
				err := cutAtAStatement(t, left, before)
				switch {
				case left <= 7:
					require.ErrorIs(t, err, errCut)
				case left == most-1:
					require.NoError(t, err, "there are more statements")
				}
			})
		}
	}
}

func cutAtAStatement(t *testing.T, left int, before bool) error {
	rows := repeating(40)
	cfg := fresh(t, stacktest.ClickHouse(t))
	w, successor := mustOpen(t, cfg), mustOpen(t, cfg)
	require.NoError(t, w.Load(t.Context(), batch(rows[:20])))
	b := retracting(rows[0])
	b.Rows = append(rows[20:len(rows):len(rows)], b.Rows...)
	b.From = b.Rows[0].Position
	conn := w.conn
	w.conn = &severed{Conn: conn, left: left, before: before}
	err := w.Load(t.Context(), b)
	w.conn = conn
	require.NoError(t, successor.Load(t.Context(), b))
	requireDuplicates(t, successor, slices.DeleteFunc(slices.Clone(rows), func(r pipeline.Row) bool {
		return r.EventID == rows[0].EventID
	}))
	return err
}
