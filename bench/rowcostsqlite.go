package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"muniment/pipeline"
	"muniment/pipeline/sqlite"
)

// searchIndex begins the names of the indexes that nothing but a search for receipts reads.
const searchIndex = "search_"

// sqliteWays makes a warehouse with all of its indexes, one without those for searches, one
// with each of them alone, and a file with nothing but the tables of events and their texts.
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
			return errors.Join(err, f.close(), os.RemoveAll(dir))
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

func (f *sqliteFiles) ways(ctx context.Context, each bool) (all []way, err error) {
	indexes, err := f.searches(ctx)
	if err != nil {
		return nil, err
	}
	whole, err := f.warehouse(ctx, product, nil)
	if err != nil {
		return nil, err
	}
	if err := f.openBare(ctx); err != nil {
		return nil, err
	}
	all = []way{loading(product, whole), {bareInsert, f.prepare}}
	if !each {
		return all, nil
	}
	for i := -1; i < len(indexes); i++ {
		name, left := unsearched, indexes
		if i >= 0 {
			name, left = indexes[i], append(append([]string(nil), indexes[:i]...), indexes[i+1:]...)
		}
		one, err := f.warehouse(ctx, name, left)
		if err != nil {
			return nil, err
		}
		all = append(all, loading(name, one))
	}
	return all, nil
}

// searches makes an empty warehouse, and lists its indexes for searches.
func (f *sqliteFiles) searches(ctx context.Context) (names []string, err error) {
	w, err := f.warehouse(ctx, "empty", nil)
	if err != nil {
		return nil, err
	}
	db, err := openFile(f.file("empty"))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	f.warehouses = f.warehouses[:0]
	return names, errors.Join(w.Close(), list(ctx, db, &names, "SELECT name FROM sqlite_master WHERE type = 'index' AND name GLOB ? ORDER BY name", searchIndex+"*"))
}

// warehouse opens a new one, without some of its indexes.
func (f *sqliteFiles) warehouse(ctx context.Context, name string, without []string) (*sqlite.Warehouse, error) {
	open := func() (*sqlite.Warehouse, error) {
		return sqlite.Open(ctx, sqlite.Config{Path: f.file(name), Unsearched: name == unsearched})
	}
	w, err := open()
	if err == nil && len(without) > 0 {
		var db *sql.DB
		if db, err = openFile(f.file(name)); err == nil {
			for _, index := range without {
				_, dropErr := db.ExecContext(ctx, "DROP INDEX "+index)
				err = errors.Join(err, dropErr)
			}
			err = errors.Join(err, db.Close(), w.Close())
		}
		if err == nil {
			w, err = open()
		}
	}
	if err != nil {
		return nil, err
	}
	f.warehouses = append(f.warehouses, w)
	return w, nil
}

func (f *sqliteFiles) file(name string) string {
	return filepath.Join(f.dir, strings.NewReplacer(" ", "_", ",", "").Replace(name)+".db")
}

// openFile opens a file with what the product asks for when it writes.
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
	f.tables = []plainTable{
		{name: "events", where: rows + " ORDER BY position"},
		{name: "texts", where: "text IN (SELECT text FROM events WHERE " + rows + ") ORDER BY text"},
	}
	for i := range f.tables {
		t := &f.tables[i]
		var made string
		if err := f.product.QueryRowContext(ctx, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", t.name).Scan(&made); err != nil {
			return err
		}
		if _, err := f.bare.ExecContext(ctx, made); err != nil {
			return err
		}
		if err := list(ctx, f.product, &t.columns, "SELECT name FROM pragma_table_info(?)", t.name); err != nil {
			return err
		}
	}
	return nil
}

// list appends the texts that a query returns.
func list(ctx context.Context, db *sql.DB, to *[]string, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		*to = append(*to, text)
	}
	return rows.Err()
}

// prepare reads what the product has stored of batches.
func (f *sqliteFiles) prepare(ctx context.Context, batches []pipeline.Batch) (steps []func(context.Context) error, err error) {
	for _, b := range batches {
		stored := make([][][]any, len(f.tables))
		for i, t := range f.tables {
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
