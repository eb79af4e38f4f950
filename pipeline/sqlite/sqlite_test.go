package sqlite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// mustOpen opens the warehouse in a file; the test closes it.
func mustOpen(tb testing.TB, path string) *Warehouse {
	tb.Helper()
	w, err := Open(tb.Context(), Config{Path: path})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, w.Close()) })
	return w
}

// engine is a warehouse in a file of its own.
func engine(tb testing.TB) conform.WarehouseEngine {
	path := filepath.Join(tb.TempDir(), "warehouse.db")
	return conform.WarehouseEngine{
		Warehouse: mustOpen(tb, path),
		// The one before stays open: what it has not written to the file is not seen.
		Reopen: func() pipeline.Warehouse { return mustOpen(tb, path) },
	}
}

func TestConformance(t *testing.T) { conform.Warehouse(t, conform.Draws, engine) }

func TestExactlyOnce(t *testing.T) { conform.ExactlyOnce(t, engine) }

func TestOpenRefusesANewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warehouse.db")
	w := mustOpen(t, path)
	_, err := w.write.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	require.NoError(t, err)
	_, err = Open(t.Context(), Config{Path: path})
	require.ErrorContains(t, err, "newer")
}

func TestOpenIsForItsOwnerAndForOddPaths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?mode=memory&c=%41#d.db")
	w := mustOpen(t, path)
	row := deliveries(0, 1)[0]
	require.NoError(t, w.Load(t.Context(), pipeline.Batch{Rows: []pipeline.Row{row}, Next: row.Next()}))
	for _, file := range []string{path, path + "-wal"} {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
}

func TestOpenRefusesWhatIsNoWarehouse(t *testing.T) {
	folder := t.TempDir()
	noise := filepath.Join(folder, "noise.db")
	require.NoError(t, os.WriteFile(noise, make([]byte, 5000), 0o600))
	for _, cfg := range []Config{
		{},
		{Path: filepath.Join(folder, "missing", "w.db")},
		{Path: noise},
	} {
		_, err := Open(t.Context(), cfg)
		require.Error(t, err, "%+v", cfg)
	}
}

// Every commit has to reach the disk; a pragma that is misspelt or comes too late
// is silently none.
func TestWriterIsDurable(t *testing.T) {
	w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		var have string
		require.NoError(t, w.write.QueryRow("PRAGMA "+pragma).Scan(&have))
		require.Equal(t, want, have, pragma)
	}
}

// A question is answered, from before, while a batch is being written.
func TestReadersDontWaitForTheWriter(t *testing.T) {
	w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
	rows := deliveries(0, 3)
	tenant := rows[0].TenantID
	require.NoError(t, w.Load(t.Context(), pipeline.Batch{Rows: rows, Next: rows[2].Next()}))

	tx, err := w.write.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = tx.Exec(`DELETE FROM events`)
	require.NoError(t, err)
	n, err := w.CountEvents(t.Context(), tenant)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	require.NoError(t, tx.Rollback())
	_, err = w.read.Exec(`DELETE FROM events`)
	require.ErrorContains(t, err, "readonly")
}

// A row that can't be stored takes its whole batch along.
func TestLoadIsAllOrNothing(t *testing.T) {
	w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
	_, err := w.write.Exec(`CREATE TRIGGER full BEFORE INSERT ON events WHEN NEW.position = 2
		BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`)
	require.NoError(t, err)
	rows := deliveries(0, 4)
	require.ErrorContains(t, w.Load(t.Context(), pipeline.Batch{Rows: rows, Next: rows[3].Next()}), "full")
	_, ok, err := w.Resume(t.Context(), 0)
	require.NoError(t, err)
	require.False(t, ok)
	n, err := w.CountEvents(t.Context(), rows[0].TenantID)
	require.NoError(t, err)
	require.Zero(t, n)

	_, err = w.write.Exec(`DROP TRIGGER full`)
	require.NoError(t, err)
	require.NoError(t, w.Load(t.Context(), pipeline.Batch{Rows: rows, Next: rows[3].Next()}))
	n, err = w.CountEvents(t.Context(), rows[0].TenantID)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// With a tenant that was dropped its rows go, and none of another's.
func TestDroppedTenantsRowsGo(t *testing.T) {
	w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
	rows := deliveries(0, 8)
	gone, stays := rows[0].TenantID, rows[1].TenantID
	require.NotEqual(t, gone, stays)
	count := func(tenantID string) int64 {
		n, err := w.CountEvents(t.Context(), tenantID)
		require.NoError(t, err)
		return n
	}
	load := func(rows ...pipeline.Row) {
		require.NoError(t, w.Load(t.Context(), pipeline.Batch{Rows: rows, Next: rows[len(rows)-1].Next()}))
	}
	dropped := rows[6]
	dropped.EventID, dropped.Type, dropped.SubjectKind, dropped.SubjectID, dropped.Delivery = "evt_dropped", pipeline.TypeDropped, "tenant", gone, nil
	dropped.TenantID = gone
	load(rows[:6]...)
	kept := count(stays)
	require.Positive(t, count(gone))
	forged := dropped
	forged.EventID, forged.TenantID = "evt_forged", stays
	load(forged)
	require.Equal(t, kept+1, count(stays), "an event of one tenant says nothing of another")
	require.Positive(t, count(gone))
	load(dropped)
	require.Zero(t, count(gone))
	require.Equal(t, kept+1, count(stays))
	load(append(rows[:6:6], dropped)...)
	require.Zero(t, count(gone), "when the log is loaded anew, too")
	late := rows[6]
	late.TenantID, late.EventID = gone, "evt_late"
	load(late)
	require.Zero(t, count(gone), "nor does what was under way stay")
	require.Equal(t, kept+1, count(stays))
}

// What one process has loaded another finds, whatever it knew before.
func TestTwoWritersSeeEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warehouse.db")
	one, two := mustOpen(t, path), mustOpen(t, path)
	var want []pipeline.Duplicate
	for i := range 6 {
		row := deliveries(i, 1)[0]
		row.TenantID, row.Delivery.Idempotency = "tnt_a", fmt.Sprint("key ", i/2)
		if i%2 == 1 {
			first := deliveries(i-1, 1)[0]
			want = append(want, pipeline.Duplicate{EventID: row.EventID, FirstEventID: first.EventID, Position: row.Position, First: first.Position})
		}
		w := one
		if i%2 == 1 {
			w = two
		}
		require.NoError(t, w.Load(t.Context(), pipeline.Batch{From: row.Position, Rows: []pipeline.Row{row}, Next: row.Next()}))
	}
	list, err := one.Duplicates(t.Context(), "tnt_a", sealer.Position{}, sealer.Position{Generation: 1, Offset: 9})
	require.NoError(t, err)
	require.Equal(t, want, list)
}

// TestFiltersOutliveTheOtherCaches: to fill them again would take seconds.
func TestFiltersOutliveTheOtherCaches(t *testing.T) {
	w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
	w.writer.spans = []*span{}
	for i := range mostCached + 1 {
		w.writer.tenants[fmt.Sprint(i)] = tenant{}
		w.writer.commons[common{node: fmt.Sprint(i)}] = 0
	}
	version := int64(0)
	require.NoError(t, w.write.QueryRowContext(t.Context(), `PRAGMA data_version`).Scan(&version))
	w.writer.version = version
	require.NoError(t, w.Load(t.Context(), pipeline.Batch{Next: sealer.Position{Offset: 1}}))
	require.NotNil(t, w.writer.spans)
	require.Empty(t, w.writer.tenants)
	require.Empty(t, w.writer.commons)
}

// TestSpansWithoutFilters: whatever has a filter, the same are duplicates.
func TestSpansWithoutFilters(t *testing.T) {
	var rows []pipeline.Row
	random := rand.New(rand.NewPCG(1, 2))
	for i, r := range deliveries(0, 300) {
		r.TenantID, r.At = "tnt_a", r.At.Add(time.Duration(i)*time.Hour)
		hash := deliveries(random.IntN(100), 1)[0].Delivery.Idempotency
		switch random.IntN(3) {
		case 0:
			r.Delivery.Idempotency = hash
		case 1:
			r.Delivery.Idempotency, r.Delivery.Identity = "", sealer.RowIdentity{Hash: hash}
		case 2:
			r.Delivery.Idempotency, r.Delivery.Identity = "", sealer.RowIdentity{Hash: hash, Day: "2026-11-21"}
		}
		rows = append(rows, r)
	}
	duplicates := func(of limits) []pipeline.Duplicate {
		w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
		w.writer.limits = of
		for some := range slices.Chunk(rows, 7) {
			require.NoError(t, w.Load(t.Context(), pipeline.Batch{From: some[0].Position, Rows: some, Next: some[len(some)-1].Next()}))
			inMemory := 0
			for i, s := range w.writer.spans {
				require.False(t, s.filter != nil && i < len(w.writer.spans)-of.filters && !s.dayless)
				if s.filter != nil {
					inMemory++
				}
			}
			require.LessOrEqual(t, inMemory, max(of.filters, of.daylessFilters))
		}
		list, err := w.Duplicates(t.Context(), "tnt_a", sealer.Position{}, rows[len(rows)-1].Position)
		require.NoError(t, err)
		return list
	}
	want := duplicates(defaultLimits)
	require.Greater(t, len(want), 50)
	require.Equal(t, want, duplicates(limits{rows: 20, filters: 1000, daylessFilters: 1000}))
	require.Equal(t, want, duplicates(limits{rows: 20, filters: 1, daylessFilters: 1}))
	require.Equal(t, want, duplicates(limits{rows: 20, filters: 2, daylessFilters: 9}))
}
