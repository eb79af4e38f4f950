package storetest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver sqlite
)

// Each test's database is a copy of one that was migrated once: migrating it costs more than most
// tests.

// migrations returns those of control/store, wherever below the top folder the test runs.
func migrations() (fs.FS, error) {
	for dir := "."; ; dir = filepath.Join("..", dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return os.DirFS(filepath.Join(dir, "control", "store", "migrations")), nil
		}
		if here, err := filepath.Abs(dir); err != nil || here == filepath.Dir(here) {
			return nil, errors.Join(errors.New("there is no go.mod above this folder"), err)
		}
	}
}

func migrate(dialect goose.Dialect, driver, name string) error {
	files, err := migrations()
	if err != nil {
		return err
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(dialect, db, files)
	if err == nil {
		_, err = p.Up(context.Background())
	}
	return errors.Join(err, db.Close())
}

// sqliteTemplate is the text of a migrated file.
var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "muniment-template-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "control.db")
	if err := migrate(goose.DialectSQLite3, "sqlite", file+"?_pragma=synchronous(OFF)"); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// copyTemplate makes a file, unless there is one.
func copyTemplate(path string) error {
	text, err := sqliteTemplate()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

var postgresTemplate struct {
	sync.Mutex
	name string
}

// templateOn returns the name of a migrated database of a server, on which no test works. It is made
// by the first process that needs it, and named after the migrations.
func templateOn(server string) (name string, err error) {
	postgresTemplate.Lock()
	defer postgresTemplate.Unlock()
	if postgresTemplate.name != "" {
		return postgresTemplate.name, nil
	}
	if name, err = templateName(); err != nil {
		return "", err
	}
	db, err := sql.Open("pgx", server)
	if err != nil {
		return "", err
	}
	defer db.Close()
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close() // with the lock
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
		return "", err
	}
	var there bool
	if err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil {
		return "", err
	}
	if !there {
		if err := makeTemplate(server, name); err != nil {
			return "", err
		}
	}
	postgresTemplate.name = name
	return name, nil
}

func templateName() (string, error) {
	files, err := migrations()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, file)
		sum.Write(text)
		return err
	})
	return "muniment_template_" + hex.EncodeToString(sum.Sum(nil)[:8]), err
}

// makeTemplate gives the database its name once it is migrated, so that a process that was killed
// leaves none that is not.
func makeTemplate(server, name string) error {
	unfinished := name + "_unfinished"
	if err := errors.Join(
		Administer(server, "DROP DATABASE IF EXISTS "+unfinished+" WITH (FORCE)"),
		Administer(server, "CREATE DATABASE "+unfinished)); err != nil {
		return err
	}
	at, err := withDatabase(server, unfinished)
	if err == nil {
		err = migrate(goose.DialectPostgres, "pgx", at)
	}
	if err == nil {
		err = Administer(server, "ALTER DATABASE "+unfinished+" RENAME TO "+name)
	}
	return err
}
