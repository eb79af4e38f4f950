package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrate creates a PostgreSQL database if there is none, brings its schema up to date, as Open
// does, and returns the names of the migrations that it applied. A dry run changes nothing and
// returns the names of those that it would apply. A schema that a newer program has migrated is
// refused.
func Migrate(ctx context.Context, cfg Config, dryRun bool) (names []string, err error) {
	config, err := connection(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("cannot migrate control's database %s: %w", cfg.name(), err)
	}
	if names, err = cfg.migrate(ctx, config, dryRun); err != nil {
		return nil, fmt.Errorf("cannot migrate control's database %s: %w", cfg.name(), err)
	}
	return names, nil
}

func (cfg *Config) migrate(ctx context.Context, config *pgx.ConnConfig, dryRun bool) (names []string, err error) {
	db := cfg.pool(config)
	defer db.Close()
	db.SetMaxOpenConns(1)
	there := true
	if err := db.PingContext(ctx); sqlState(err) == noSuchDatabase {
		there = false
	} else if err != nil {
		return nil, err
	}
	switch {
	case dryRun && !there:
		names, _, err = behind(0)
		return names, err
	case dryRun:
		return pending(ctx, db)
	case !there:
		if err := cfg.create(ctx, config); err != nil {
			return nil, err
		}
	}
	return migratePostgres(ctx, db)
}

// SQLSTATE codes of PostgreSQL, appendix A of its manual.
const (
	noSuchDatabase    = "3D000"
	duplicateDatabase = "42P04"
)

func sqlState(err error) string {
	if known, ok := errors.AsType[*pgconn.PgError](err); ok {
		return known.Code
	}
	return ""
}

// create makes the database, over a connection to the database that every server has.
func (cfg *Config) create(ctx context.Context, config *pgx.ConnConfig) error {
	maintenance := config.Copy()
	maintenance.Database = "postgres"
	db := cfg.pool(maintenance)
	defer db.Close()
	_, err := db.ExecContext(ctx, "CREATE DATABASE "+pgx.Identifier{config.Database}.Sanitize())
	if sqlState(err) == duplicateDatabase { // made by another process just now
		return nil
	}
	return err
}

// migratePostgres takes a lock, so processes that start together migrate one after the other.
func migratePostgres(ctx context.Context, db *sql.DB) ([]string, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, err
	}
	return migrate(ctx, goose.DialectPostgres, db, goose.WithSessionLocker(locker))
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
	names, newest, err := behind(have)
	if err != nil {
		return nil, err
	}
	return names, refuseNewer(have, newest)
}

// behind lists the migrations behind a version, and returns the newest of all.
func behind(have int64) (names []string, newest int64, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, 0, err
	}
	for _, file := range files {
		number, err := goose.NumericComponent(file)
		if err != nil {
			return nil, 0, err
		}
		newest = max(newest, number)
		if number > have {
			names = append(names, filepath.Base(file))
		}
	}
	return names, newest, nil
}
