package warehouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"muniment.example/pipeline"
	"muniment.example/pipeline/sqlite"
)

// sqliteWays makes a warehouse, one without what only searches need, and a file with nothing
// but the tables of events and their texts.
func (c *RowCost) sqliteWays(ctx context.Context, report *RowCosts, group int) (_ *ways, err error) {
	dir, err := os.MkdirTemp(c.Dir, "sqlite-")
	if err != nil {
		return nil, err
	}
	f := &sqliteFiles{dir: dir}
	w := &ways{
		warehouse: "SQLite", group: group, settle: func(context.Context) error { return nil },
		close: func(ctx context.Context) error {
			sizes, err := f.sizes(ctx)
			report.Sizes = append(report.Sizes, sizes.of("SQLite", group)...)
			reads, readErr := f.reads(ctx)
			for _, r := range reads {
				r.Warehouse, r.Group = "SQLite", group
				report.Reads = append(report.Reads, r)
			}
			return errors.Join(err, readErr, f.close(), os.RemoveAll(dir))
		},
	}
	if w.all, err = f.ways(ctx, group == largeGroup || c.Large == 0); err != nil {
		return nil, errors.Join(err, f.close(), os.RemoveAll(dir))
	}
	return w, nil
}

// sqliteFiles are the files, and what has them open.
type sqliteFiles struct {
	dir        string
	warehouses []*sqlite.Warehouse
	bare       *sql.DB
	product    *sql.DB // reads the file of the product
	tables     []plainTable
}

// plainTable is one of those that hold what an event is, without its indexes.
type plainTable struct {
	name, where string // the rows of positions from one up to another
	columns     []string
}

func (f *sqliteFiles) ways(ctx context.Context, alsoUnsearched bool) (all []way, err error) {
	whole, err := f.warehouse(ctx, product)
	if err != nil {
		return nil, err
	}
	if err := f.openBare(ctx); err != nil {
		return nil, err
	}
	all = []way{loading(product, whole), {bareInsert, f.prepare}}
	if alsoUnsearched {
		narrow, err := f.warehouse(ctx, unsearched)
		if err != nil {
			return nil, err
		}
		all = append(all, loading(unsearched, narrow))
	}
	return all, nil
}

// warehouse opens a new one.
func (f *sqliteFiles) warehouse(ctx context.Context, name string) (*sqlite.Warehouse, error) {
	w, err := sqlite.Open(ctx, sqlite.Config{Path: f.file(name), Unsearched: name == unsearched})
	if err == nil {
		f.warehouses = append(f.warehouses, w)
	}
	return w, err
}

func (f *sqliteFiles) file(name string) string {
	return filepath.Join(f.dir, strings.NewReplacer(" ", "_", ",", "").Replace(name)+".db")
}

// openFile opens a file with the pragmas that the product writes with.
func openFile(path string) (*sql.DB, error) {
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_txlock": {"immediate"}, "_pragma": {
		"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)", "wal_autocheckpoint(8000)", "journal_size_limit(67108864)", "cache_size(-65536)",
	}}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// openBare makes copies of the tables.
func (f *sqliteFiles) openBare(ctx context.Context) (err error) {
	if f.product, err = openFile(f.file(product)); err != nil {
		return err
	}
	if f.bare, err = openFile(f.file(bareInsert)); err != nil {
		return err
	}
	const rows = "position >= ? AND position < ?"
	f.tables = []plainTable{{name: "events", where: rows + " ORDER BY position"}}
	for i := range f.tables {
		t := &f.tables[i]
		var made, columns string
		if err := f.product.QueryRowContext(ctx, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", t.name).Scan(&made); err != nil {
			return err
		}
		if _, err := f.bare.ExecContext(ctx, made); err != nil {
			return err
		}
		if err := f.product.QueryRowContext(ctx, "SELECT group_concat(name) FROM pragma_table_info(?)", t.name).Scan(&columns); err != nil {
			return err
		}
		t.columns = strings.Split(columns, ",")
	}
	f.tables = append(f.tables, plainTable{name: "texts", columns: []string{"text", "event", "private"}})
	_, err = f.bare.ExecContext(ctx, `CREATE TABLE texts (text INTEGER PRIMARY KEY, event BLOB NOT NULL, private BLOB)`)
	return err
}

// prepare reads what the product has stored of batches, but for their texts.
func (f *sqliteFiles) prepare(ctx context.Context, batches []pipeline.Batch) (steps []func(context.Context) error, err error) {
	for _, b := range batches {
		stored := make([][][]any, len(f.tables))
		for i, t := range f.tables {
			if t.name == "texts" { // the product compresses them
				for _, r := range b.Rows {
					stored[i] = append(stored[i], []any{r.Offset, r.Event, r.Private})
				}
				continue
			}
			if stored[i], err = f.read(ctx, t, b); err != nil {
				return nil, err
			}
			if len(stored[i]) != len(b.Rows) {
				return nil, fmt.Errorf("the product has stored %d of %d rows in %s", len(stored[i]), len(b.Rows), t.name)
			}
		}
		steps = append(steps, func(ctx context.Context) error { return f.add(ctx, stored) })
	}
	return steps, nil
}

func (f *sqliteFiles) read(ctx context.Context, t plainTable, b pipeline.Batch) (all [][]any, err error) {
	rows, err := f.product.QueryContext(ctx, "SELECT "+strings.Join(t.columns, ", ")+" FROM "+t.name+" WHERE "+t.where, b.From.Offset, b.Next.Offset)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		values, into := make([]any, len(t.columns)), make([]any, len(t.columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, values)
	}
	return all, rows.Err()
}

// add inserts in one transaction.
func (f *sqliteFiles) add(ctx context.Context, stored [][][]any) error {
	tx, err := f.bare.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // of no use after Commit
	for i, t := range f.tables {
		insert, err := tx.PrepareContext(ctx, "INSERT INTO "+t.name+" ("+strings.Join(t.columns, ", ")+") VALUES (?"+strings.Repeat(", ?", len(t.columns)-1)+")")
		if err != nil {
			return err
		}
		for _, values := range stored[i] {
			if _, err := insert.ExecContext(ctx, values...); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

// reads measures queries of the product.
func (f *sqliteFiles) reads(ctx context.Context) ([]Read, error) {
	rows, err := f.product.QueryContext(ctx, "SELECT tenant_id FROM tenants ORDER BY tenant LIMIT 16")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var tenants []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		tenants = append(tenants, id)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return measureReads(ctx, f.warehouses[0], tenants)
}

// sizes are what tables and indexes take on disk.
func (f *sqliteFiles) sizes(ctx context.Context) (all sizes, err error) {
	var receipts float64
	if err := f.product.QueryRowContext(ctx, "SELECT max(1, count(*)) FROM events").Scan(&receipts); err != nil {
		return nil, err
	}
	rows, err := f.product.QueryContext(ctx, "SELECT name, sum(pgsize) FROM dbstat GROUP BY name HAVING sum(pgsize) > 8192 ORDER BY 2 DESC, 1")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s OnDisk
		if err := rows.Scan(&s.What, &s.Bytes); err != nil {
			return nil, err
		}
		s.Bytes /= receipts
		all = append(all, s)
	}
	return all, rows.Err()
}

func (f *sqliteFiles) close() error {
	var errs []error
	for _, w := range f.warehouses {
		errs = append(errs, w.Close())
	}
	for _, db := range []*sql.DB{f.product, f.bare} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
