package store

import (
	"bytes"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/store/storetest"
)

// schema queries the schema for texts. Both engines have the same migrations; SQLite's schema is
// easier to query.
func schema(t *testing.T, query string) []string {
	t.Helper()
	db := mustOpenFile(t, filepath.Join(t.TempDir(), "control.db"))
	list, err := List(t.Context(), db.Read(), "the schema", Text, query)
	require.NoError(t, err)
	return list
}

// TestReferencesAreIndexed: deleting a row looks through whatever refers to it, so what a
// drop costs would grow with the number of all tenants.
func TestReferencesAreIndexed(t *testing.T) {
	const references = `SELECT m.name || '.' || f."from" FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`
	require.NotEmpty(t, schema(t, references))
	require.Empty(t, schema(t, references+` EXCEPT
		SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
		WHERE m.type = 'table' AND c.seqno = 0 AND i.partial = 0`))
}

// TestScrubDelaysNoChange: while a query still reads what was in the file, changes are made.
func TestScrubDelaysNoChange(t *testing.T) {
	db := mustOpenFile(t, filepath.Join(t.TempDir(), "control.db"))
	write := func() {
		require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO probe (only_row, filler) VALUES (1, '') ON CONFLICT (only_row) DO UPDATE SET filler = probe.filler || 'x'`)
			return err
		}))
	}
	write()
	read, err := db.Read().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, read.QueryRow(`SELECT COUNT(*) FROM probe`).Scan(new(int)))
	write()
	for range 3 { // a try returns while the query reads
		emptied, err := db.tryEmptyLog(t.Context())
		require.NoError(t, err)
		require.False(t, emptied)
		write()
	}
	done := make(chan error, 1)
	go func() { done <- db.Scrub(t.Context(), nil, nil) }()
	for range 100 {
		write()
	}
	require.Empty(t, done, "the query still reads")
	require.NoError(t, read.Rollback())
	require.NoError(t, <-done)
}

// TestScrubLeavesRoomForStops: a file is only rewritten where that does not take the disk space that
// is kept for stops; it is scrubbed later.
func TestScrubLeavesRoomForStops(t *testing.T) {
	free := int64(1 << 20)
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "control.db"), Reserve: 1 << 20, free: func(string) (int64, error) { return free, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.ErrorIs(t, db.Scrub(t.Context(), nil, []string{"developer"}), errFull)
	require.NoError(t, db.Scrub(t.Context(), nil, nil), "nothing has to be rewritten")
	free = 1 << 30
	require.NoError(t, db.Scrub(t.Context(), nil, []string{"developer"}))
	db.reserve.Spend()
	require.ErrorIs(t, db.Scrub(t.Context(), nil, []string{"developer"}), errFull)
}

// TestScrubLeavesNothingToOlderSnapshots: a transaction that began before a row was erased still sees it, so the
// files are scrubbed once it has ended, and not before.
func TestScrubLeavesNothingToOlderSnapshots(t *testing.T) {
	onPostgres(t)
	_, at := storetest.Place(t, t.TempDir())
	waits := make(chan string, 100)
	db := mustOpenAt(t, Config{URL: at, Logger: slog.New(slog.NewTextHandler(lines(waits), nil))})
	const mark = "ada.lovelace@example.org"
	change := func(statement string) {
		require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
			_, err := tx.ExecContext(t.Context(), statement)
			return err
		}))
	}
	holding := func() bool { return filesHold(t, storetest.Files(t, at), mark) }
	for name, begin := range map[string]func() *sql.Tx{
		"a snapshot, of no table": func() *sql.Tx {
			tx, err := db.Read().BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
			require.NoError(t, err)
			require.NoError(t, tx.QueryRow(`SELECT 1`).Scan(new(int)))
			return tx
		},
		"a transaction that has written, between its statements": func() *sql.Tx {
			tx, err := db.pg.transactions.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.Exec(`SELECT pg_current_xact_id()`, pgx.QueryExecModeSimpleProtocol) // which leaves no portal with a snapshot
			require.NoError(t, err)
			return tx
		},
	} {
		change(`INSERT INTO probe (only_row, filler) VALUES (1, '` + mark + `') ON CONFLICT (only_row) DO UPDATE SET filler = excluded.filler`)
		older := begin()
		change(`UPDATE probe SET filler = ''`)
		require.True(t, holding(), name)
		done := make(chan error, 1)
		go func() { done <- db.Scrub(t.Context(), Tables{{Name: "probe", Personal: &Personal{}}}, nil) }()
		select {
		case line := <-waits:
			require.Contains(t, line, "transactions that began before its erasure", name)
		case err := <-done:
			require.Fail(t, "a transaction still sees the row", "%s: Scrub ended: %v", name, err)
		}
		require.NoError(t, older.Rollback())
		require.NoError(t, <-done)
		require.False(t, holding(), name)
	}
}

// lines is a writer of a log's lines.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// filesHold reports whether a file below a folder has a text.
func filesHold(t *testing.T, folder, text string) (found bool) {
	require.NoError(t, filepath.WalkDir(folder, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		found = found || bytes.Contains(content, []byte(text))
		return err
	}))
	return found
}

// TestStopBreaksOffARewrite: while the file is rewritten a stop doesn't wait for the end, other changes do, and the rewrite
// is done later.
func TestStopBreaksOffARewrite(t *testing.T) {
	db := mustOpenFile(t, filepath.Join(t.TempDir(), "control.db"))
	fill := func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO feed (kind, id, revision, stopped, snapshot)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT 'x', 'x' || i, 0, 0, hex(randomblob(40000)) FROM n`)
		return err
	}
	require.NoError(t, db.Change(t.Context(), fill))
	rewritten := make(chan bool, 1)
	go func() {
		done, err := db.tryRewrite(t.Context())
		if err != nil {
			t.Error(err)
		}
		rewritten <- done
	}()
	waittest.Until(t, func() bool {
		db.queue.mu.Lock()
		defer db.queue.mu.Unlock()
		return db.queue.yield != nil
	})
	require.NoError(t, db.StopUnconfirmed(t.Context(), func(tx *Tx) error { return tx.Emit(t.Context(), suspended, event("tnt_a", "rgh_a")) }))
	require.False(t, <-rewritten)

	done, err := db.tryRewrite(t.Context())
	require.NoError(t, err)
	require.False(t, done, "the stop's event is not in the log yet")
	require.NoError(t, db.Change(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM outbox`)
		return err
	}))
	done, err = db.tryRewrite(t.Context())
	require.NoError(t, err)
	require.True(t, done)
}
