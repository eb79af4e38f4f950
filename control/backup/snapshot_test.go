package backup

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
)

// busy is a context under which something happens each time that it is asked how it
// is: a copy asks before each of its steps.
type busy struct {
	context.Context
	happens func() error
}

func (b busy) Err() error { return b.happens() }

// TestCopyOfADatabaseInUse copies a database while a writer moves an amount from its
// first page to its last between any two steps: each copy is one committed state,
// and the writer does not keep it from coming to an end.
func TestCopyOfADatabaseInUse(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "a database?.db")                                                               // a name that a URI would misread
	db, err := sql.Open("sqlite", "file:"+escaped(from)+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)") // no disk slows it down
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	const pages = 6 * stepPages
	_, err = db.ExecContext(t.Context(), `
CREATE TABLE first AS SELECT 1000 AS amount;
CREATE TABLE bulk AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i, randomblob(4000) AS b FROM n;
CREATE TABLE last AS SELECT 0 AS amount`, pages)
	require.NoError(t, err)

	for i, name := range []string{"one.db", "two.db"} {
		to := filepath.Join(dir, name)
		var moved atomic.Int64 // the driver asks as well
		require.NoError(t, copyDatabase(busy{t.Context(), func() error {
			if moved.Add(1) > 4*pages/stepPages {
				return errors.New("the copy begins again and again")
			}
			_, err := db.ExecContext(t.Context(), `BEGIN; UPDATE first SET amount = amount - 1; UPDATE last SET amount = amount + 1; COMMIT`)
			return err
		}}, new(pace), from, to))
		require.GreaterOrEqual(t, moved.Load(), int64(pages/stepPages), "nothing was written meanwhile")
		require.NoError(t, checkDatabase(t.Context(), to))
		info, err := os.Stat(to)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		copied, err := openCopy(to)
		require.NoError(t, err)
		var sum, rows int
		require.NoError(t, copied.QueryRow(`SELECT first.amount + last.amount, (SELECT COUNT(*) FROM bulk) FROM first, last`).Scan(&sum, &rows))
		require.Equal(t, [2]int{1000, pages}, [2]int{sum, rows}, "copy %d", i)
		require.NoError(t, copied.Close())
	}
	left, err := filepath.Glob(filepath.Join(dir, "one.db?*"))
	require.NoError(t, err)
	require.Empty(t, left, "a copy is one file")

	require.ErrorIs(t, copyDatabase(t.Context(), new(pace), from, filepath.Join(dir, "one.db")), os.ErrExist)
	require.ErrorIs(t, copyDatabase(t.Context(), new(pace), filepath.Join(dir, "none.db"), filepath.Join(dir, "three.db")), os.ErrNotExist)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, copyDatabase(ctx, new(pace), from, filepath.Join(dir, "four.db")), context.Canceled)
}

func TestDamagedDatabaseIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.db")
	db, err := store.Open(t.Context(), store.Config{Path: path})
	require.NoError(t, err)
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
