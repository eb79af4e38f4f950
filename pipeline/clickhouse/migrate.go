package clickhouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// versions is the table in which the applied migrations are listed.
const versions = "schema_versions"

// Migrate creates the database when there is none, brings its schema up to date,
// and returns the names of the migrations that it applied. A dry run returns the
// names of those that it would apply, and changes nothing. The schema only ever
// grows; one that a newer version has migrated is refused.
//
// ClickHouse has no transactions around its tables. What a migration that fails
// half-way has done stays, and does no harm when it runs again.
func Migrate(ctx context.Context, cfg Config, dryRun bool) (names []string, err error) {
	opt, err := cfg.options()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot migrate ClickHouse database %s: %w", opt.Auth.Database, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, cfg.timeout())
	defer cancel()
	name := opt.Auth.Database
	probes, err := openProbes(opt)
	if err != nil {
		return nil, err
	}
	defer probes.Close()
	have, err := schemaVersion(ctx, probes, cfg.Cluster, name)
	if err != nil {
		return nil, err
	}
	steps, err := render(cfg.Cluster)
	if err != nil {
		return nil, err
	}
	pending, err := after(have)
	if err != nil || dryRun || len(pending) == 0 {
		return pending, err
	}

	if err := execute(ctx, opt, "", "CREATE DATABASE IF NOT EXISTS "+quoted(name)+onCluster(cfg.Cluster)); err != nil {
		return nil, err
	}
	db := clickhouse.OpenDB(opt)
	defer db.Close()
	store, err := database.NewStoreFromQuerier(versions, querier{cluster: cfg.Cluster})
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider("", db, steps, goose.WithStore(store))
	if err != nil {
		return nil, err
	}
	if _, err := provider.Up(ctx); err != nil {
		return nil, err
	}
	return pending, nil
}

// after lists the migrations behind a version, and refuses one that is unknown.
func after(have int64) (names []string, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	newest := int64(0)
	for _, file := range files {
		number, err := goose.NumericComponent(file)
		if err != nil {
			return nil, err
		}
		newest = max(newest, number)
		if number > have {
			names = append(names, strings.TrimPrefix(file, "migrations/"))
		}
	}
	if have > newest {
		return nil, fmt.Errorf("schema version %d is newer than %d, the newest that this program knows: run the version of muniment that migrated it, or a newer one", have, newest)
	}
	return names, nil
}

// openProbes makes a small pool for schemaVersion. It names no database, which may not
// be there yet.
func openProbes(opt *clickhouse.Options) (driver.Conn, error) {
	small := withDatabase(opt, "")
	small.MaxOpenConns, small.MaxIdleConns = 2, 1
	return clickhouse.Open(small)
}

// schemaVersion is the newest migration that a database has, 0 for none. It creates
// nothing, and refuses tables that were not made for the cluster, empty for one server.
func schemaVersion(ctx context.Context, probes driver.Conn, cluster, name string) (version int64, err error) {
	var engine string
	err = probes.QueryRow(ctx, `SELECT engine FROM system.tables WHERE database = ? AND name = ?`, name, versions).Scan(&engine)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, err
	case cluster == "" && strings.HasPrefix(engine, "Replicated"):
		return 0, errors.New("its tables are replicated, and no cluster is named: without it a write waits for no replica but one")
	case cluster != "" && strings.HasPrefix(engine, "Replacing"):
		return 0, fmt.Errorf("its tables are not replicated: they were not made for cluster %s", cluster)
	}
	err = probes.QueryRow(ctx, `SELECT max(version_id) FROM `+quoted(name)+`.`+versions).Scan(&version)
	return version, err
}

func execute(ctx context.Context, opt *clickhouse.Options, database, statement string) error {
	db := clickhouse.OpenDB(withDatabase(opt, database))
	defer db.Close()
	_, err := db.ExecContext(ctx, statement)
	return err
}

// render returns the migrations as they are run on one server, or on a cluster.
func render(cluster string) (fs.FS, error) {
	if cluster == "" {
		return fs.Sub(migrations, "migrations")
	}
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	rendered := fstest.MapFS{}
	for _, file := range files {
		text, err := fs.ReadFile(migrations, file)
		if err != nil {
			return nil, err
		}
		rendered[strings.TrimPrefix(file, "migrations/")] = &fstest.MapFile{Data: []byte(replicated(string(text), cluster))}
	}
	return rendered, nil
}

// replicated makes of a migration for one server the one for a cluster.
func replicated(text, cluster string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.Replace(line, "ENGINE = ReplacingMergeTree", "ENGINE = ReplicatedReplacingMergeTree", 1)
		for _, create := range []string{"CREATE TABLE IF NOT EXISTS ", "CREATE OR REPLACE VIEW "} {
			if rest, ok := strings.CutPrefix(line, create); ok {
				name, behind, _ := strings.Cut(rest, " ")
				line = create + name + onCluster(cluster) + " " + behind
			}
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

func onCluster(cluster string) string {
	if cluster == "" {
		return ""
	}
	return " ON CLUSTER " + quoted(cluster)
}

// quoted is a name as an identifier.
func quoted(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}

// querier is goose's table of versions, replicated on a cluster.
type querier struct{ cluster string }

func (q querier) CreateTable(table string) string {
	text := `CREATE TABLE IF NOT EXISTS ` + table + ` (
	version_id Int64,
	is_applied UInt8,
	tstamp     DateTime('UTC') DEFAULT now()
) ENGINE = ReplacingMergeTree
ORDER BY version_id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1`
	if q.cluster == "" {
		return text
	}
	return replicated(text, q.cluster)
}

func (querier) InsertVersion(table string) string {
	return `INSERT INTO ` + table + ` (version_id, is_applied) VALUES ($1, $2)`
}

func (querier) DeleteVersion(table string) string {
	return `DELETE FROM ` + table + ` WHERE version_id = $1`
}

func (querier) GetMigrationByVersion(table string) string {
	return `SELECT tstamp, is_applied FROM ` + table + ` FINAL WHERE version_id = $1`
}

func (querier) ListMigrations(table string) string {
	return `SELECT version_id, is_applied FROM ` + table + ` FINAL ORDER BY version_id DESC`
}

func (querier) GetLatestVersion(table string) string {
	return `SELECT max(version_id) FROM ` + table
}
