package store

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrate brings the schema of a PostgreSQL database up to date, as Open does, and
// returns the names of the migrations that it applied. A dry run returns the names of
// those that it would apply, and changes nothing. The schema only ever grows.
func Migrate(ctx context.Context, url string, dryRun bool) (names []string, err error) {
	cfg := Config{URL: url}
	config, err := connection(url)
	if err != nil {
		return nil, fmt.Errorf("cannot migrate control's database %s: %w", cfg.name(), err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	db.SetMaxOpenConns(1)
	do := migratePostgres
	if dryRun {
		do = pending
	}
	if names, err = do(ctx, db); err != nil {
		return nil, fmt.Errorf("cannot migrate control's database %s: %w", cfg.name(), err)
	}
	return names, nil
}

// migratePostgres has processes that start together migrate one after the other.
func migratePostgres(ctx context.Context, db *sql.DB) ([]string, error) {
	turns, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, err
	}
	return migrate(ctx, goose.DialectPostgres, db, goose.WithSessionLocker(turns))
}

// pending lists the migrations that a PostgreSQL database lacks.
func pending(ctx context.Context, db *sql.DB) (names []string, err error) {
	var migrated bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, goose.DefaultTablename).Scan(&migrated); err != nil {
		return nil, err
	}
	have := int64(0)
	if migrated {
		err := db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM `+goose.DefaultTablename+` WHERE is_applied`).Scan(&have)
		if err != nil {
			return nil, err
		}
	}
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		number, err := goose.NumericComponent(file)
		if err != nil {
			return nil, err
		}
		if number > have {
			names = append(names, filepath.Base(file))
		}
	}
	return names, nil
}
