package store

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCopyOfADatabaseInUse copies a database while a writer moves an amount between
// two rows as fast as it can: each copy is one committed state, and the writer
// does not keep it from coming to an end.
func TestCopyOfADatabaseInUse(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "a database?.db")                                                               // a name that a URI would misread
	db, err := sql.Open("sqlite", "file:"+escaped(from)+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)") // no disk slows it down
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(query string) {
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	exec(`CREATE TABLE amounts (name TEXT PRIMARY KEY, amount BIGINT)`)
	exec(`INSERT INTO amounts VALUES ('a', 1000), ('z', 0)`)
	exec(`CREATE TABLE bulk AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000) SELECT i, randomblob(4000) AS b FROM n`)

	ctx, stop := context.WithCancel(t.Context())
	moved, writing := make(chan int), make(chan struct{})
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if _, err := db.Exec(`UPDATE amounts SET amount = amount + CASE name WHEN 'a' THEN -1 ELSE 1 END`); err != nil {
				break
			}
			if n == 0 {
				close(writing)
			}
		}
		moved <- n
	}()
	<-writing
	for i, name := range []string{"one.db", "two.db"} {
		to := filepath.Join(dir, name)
		patience, done := context.WithTimeout(t.Context(), 20*time.Second)
		require.NoError(t, copyDatabase(patience, from, to))
		done()
		require.NoError(t, checkDatabase(t.Context(), to))
		info, err := os.Stat(to)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		copied, err := openCopy(to)
		require.NoError(t, err)
		var sum, rows int
		require.NoError(t, copied.QueryRow(`SELECT SUM(amount), (SELECT COUNT(*) FROM bulk) FROM amounts`).Scan(&sum, &rows))
		require.Equal(t, [2]int{1000, 6000}, [2]int{sum, rows}, "copy %d", i)
		require.NoError(t, copied.Close())
	}
	stop()
	require.Greater(t, <-moved, 10, "the writer was not kept waiting")
	left, err := filepath.Glob(filepath.Join(dir, "one.db?*"))
	require.NoError(t, err)
	require.Empty(t, left, "a copy is one file")

	require.ErrorIs(t, copyDatabase(t.Context(), from, filepath.Join(dir, "one.db")), os.ErrExist)
	require.ErrorIs(t, copyDatabase(t.Context(), filepath.Join(dir, "none.db"), filepath.Join(dir, "three.db")), os.ErrNotExist)
	require.ErrorIs(t, copyDatabase(ctx, from, filepath.Join(dir, "four.db")), context.Canceled)
}

func TestDamagedDatabaseIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.db")
	db := mustOpen(t, filepath.Dir(path))
	db.mustEmit(t, "tnt_a", "rgh_a")
	require.NoError(t, db.Close())
	require.NoError(t, checkDatabase(t.Context(), path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := 4096 * 2; at < len(text); at += 4096 {
		text[at] ^= 0x55 // what sort of page it is
	}
	require.NoError(t, os.WriteFile(path, text, 0o600))
	require.ErrorContains(t, checkDatabase(t.Context(), path), "control.db is damaged")
}
