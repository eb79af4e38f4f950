package backup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"muniment.example/sealer/keyfile"
)

// stepPages is how many pages of SQLite's default size make a piece.
const stepPages = pieceBytes / 4096

// copyDatabase copies a SQLite database, which others may be writing to, into a new file: one
// committed state, on disk when it returns. The copy runs in one read transaction: writers
// continue, and the source's WAL is kept as long.
func copyDatabase(ctx context.Context, p *pace, from, to string) (err error) {
	if _, err := os.Stat(from); err != nil {
		return err // SQLite would make it
	}
	if err := createDurably(to, 0o600, nil); err != nil {
		return err
	}
	file, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	db, err := sql.Open("sqlite", "file:"+escaped(from)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// A reader's snapshot begins with its first query. Without one, each write of
	// another process would make the copy begin again.
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master").Scan(new(int)); err != nil {
		return err
	}
	err = conn.Raw(func(driver any) error {
		source, ok := driver.(interface {
			NewBackup(to string) (*sqlite.Backup, error)
		})
		if !ok {
			return fmt.Errorf("a %T makes no backup", driver)
		}
		backup, err := source.NewBackup("file:" + escaped(to) + "?_pragma=synchronous(off)") // it is synced below
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if more, err = backup.Step(stepPages); err == nil {
				err = flush(file, 0, 0) // to the end of the file
			}
			if err == nil {
				err = p.spend(ctx, pieceBytes)
			}
		}
		return errors.Join(err, backup.Finish())
	})
	if err != nil {
		return err
	}
	return keyfile.Sync(to)
}

func escaped(path string) string { return (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() }

// openCopy opens a SQLite file without writers, without leaving a file beside it.
func openCopy(path string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+escaped(path)+"?mode=ro&immutable=1")
}

// checkDatabase has SQLite check the pages and indexes of a file. A trigger is none of ours,
// and would run with every change.
func checkDatabase(ctx context.Context, path string) error {
	db, err := openCopy(path)
	if err != nil {
		return err
	}
	var said string
	err = db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&said)
	if err == nil && said != "ok" {
		err = errors.New(said)
	}
	var triggers int
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE type = 'trigger'").Scan(&triggers)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("%s is damaged: %w", filepath.Base(path), err)
	}
	if triggers > 0 {
		return fmt.Errorf("%s has a trigger, which no backup has", filepath.Base(path))
	}
	return nil
}
