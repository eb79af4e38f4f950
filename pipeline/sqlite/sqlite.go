// Package sqlite is the embedded warehouse: one SQLite file in WAL mode.
//
// A Load is one transaction with the loader's next position in it, synced before it returns,
// so that after a crash rows and position agree. There is one writer connection and a
// separate pool of readers: a query never waits for loading, and sees a consistent state
// while the next batch is written.
//
// Duplicates are decided once, in the transaction that changes the rows, and stored beside
// them. Metering adds up rows; control keeps sums of what is sealed. The work of a Load doesn't grow with what was loaded before: an
// id is looked up only if the table has one as high, keys are looked up in filters in memory
// first (256 KB for each 100,000 keys: 64 MB at most, or 256 MB if rows have ids of their
// own), and the pages that it writes are the last ones of each table and index, or few.
// Beyond a hundred million rows, each row with an id of its own is also looked up in all
// older ones, which takes some ten microseconds for every 100,000.
//
// Events and private parts of deliveries are most of the bytes: they are compressed, in blocks of one
// tenant (see texts.go). A block that is damaged is an error of each query that reads a text of it;
// sums, which read rows alone, go on, and so do loading and erasing.
//
// What is deleted is overwritten, so that erasing a person leaves nothing in the file; Erase
// finds the person's rows by marks of a keyed hash, as a listing does (see search.go).
//
// If the disk is full or fails, Load returns an error and changes nothing; the loader keeps
// the batch and tries again. The file must be on a local disk: WAL doesn't work over a
// network. A file that a newer version has migrated is refused.
//
// Non-goal: retention (the embedded warehouse keeps everything, except for the rows of
// tenants that were dropped).
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"muniment.example/pipeline"
)

//go:embed migrations/*.sql
var migrations embed.FS

// readers is how many queries run at once; further ones wait. They are more than control lets one tenant run that
// read much (its tenantHeavyLimit).
const readers = 8

// busyTimeout is how many milliseconds a statement waits for another process.
const busyTimeout = "5000"

// Config says where the warehouse is.
type Config struct {
	// Path is the database file. It is created, readable by its owner only, if it doesn't
	// exist; its folder must exist.
	Path string
	// Unsearched leaves out the marks by which listings by actor, subject, right, anchor,
	// correlation and time find their rows: they scan all rows then. It is for measuring what
	// the marks cost.
	Unsearched bool
	// Logger logs migrations, and what is deleted with a damaged block. Default: none.
	Logger *slog.Logger
}

// Warehouse is the embedded warehouse. Safe for concurrent use.
type Warehouse struct {
	// write has one connection, as SQLite has one writer: calls wait in its queue instead of
	// running into the busy timeout.
	write *sql.DB
	read  *sql.DB
	codec codec
	log   *slog.Logger
	// find is findBlock, and single selectEvent, for read.
	find, single *sql.Stmt
	// readers are textReaders that nobody uses: their memory is used again.
	readers sync.Pool
	// emptied: nothing that this process has erased is left in the write-ahead log.
	emptied atomic.Bool
	// writer holds what belongs to Load.
	writer writer
}

var (
	_ pipeline.Warehouse   = (*Warehouse)(nil)
	_ pipeline.ChainKeeper = (*Warehouse)(nil)
)

// Open opens the warehouse at cfg.Path, creates it when it doesn't exist, and
// brings its schema up to date. The caller closes it.
func Open(ctx context.Context, cfg Config) (_ *Warehouse, err error) {
	if cfg.Path == "" {
		return nil, errors.New("sqlite warehouse: Path is empty")
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot open warehouse %s: %w", cfg.Path, err)
		}
	}()
	// SQLite would create the file for everybody to read.
	file, err := os.OpenFile(cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}

	codec, err := newCodec()
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Warehouse{codec: codec, log: cfg.Logger, writer: writer{codec: codec, log: cfg.Logger, unsearched: cfg.Unsearched}}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	// A batch is several megabytes: with SQLite's default of 1,000 pages each commit would
	// make a checkpoint. A block of texts fills a page (see blockBytes).
	if w.write, err = connect(cfg.Path,
		"page_size(8192)", "journal_mode(WAL)", "synchronous(FULL)", "busy_timeout("+busyTimeout+")",
		"wal_autocheckpoint(4000)", "journal_size_limit(67108864)", "cache_size(-65536)",
		"secure_delete(1)"); err != nil {
		return nil, err
	}
	w.write.SetMaxOpenConns(1)
	if err := migrate(ctx, w.write, cfg.Logger); err != nil {
		return nil, err
	}
	if err := w.writer.prepare(ctx, w.write); err != nil {
		return nil, err
	}
	if w.read, err = connect(cfg.Path, "query_only(1)", "busy_timeout("+busyTimeout+")", "mmap_size(268435456)"); err != nil {
		return nil, err
	}
	w.read.SetMaxOpenConns(readers)
	w.read.SetMaxIdleConns(readers)
	if w.find, err = w.read.PrepareContext(ctx, findBlock); err == nil {
		w.single, err = w.read.PrepareContext(ctx, selectEvent)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot prepare queries: %w", err)
	}
	return w, nil
}

// Close waits for running calls and closes the file. Calls after it fail.
func (w *Warehouse) Close() error {
	var errs []error
	for _, db := range []*sql.DB{w.read, w.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	w.codec.close()
	return errors.Join(errs...)
}

// connect opens a pool on the file whose connections all run the pragmas.
func connect(path string, pragmas ...string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dsn := url.URL{
		Scheme:   "file",
		Path:     filepath.ToSlash(path),
		RawQuery: url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}.Encode(),
	}
	return sql.Open("sqlite", dsn.String())
}

// migrate brings the schema up to date, and refuses a newer one.
func migrate(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	steps, err := goose.NewProvider(goose.DialectSQLite3, db, folder)
	if err != nil {
		return err
	}
	have, known, err := steps.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("cannot read schema version: %w", err)
	}
	if have > known {
		return fmt.Errorf("schema version %d is newer than %d, the newest that this program knows: run the version of muniment that migrated it, or a newer one", have, known)
	}
	done, err := steps.Up(ctx)
	if err != nil {
		return fmt.Errorf("cannot migrate schema: %w", err)
	}
	if len(done) > 0 {
		log.InfoContext(ctx, "warehouse schema migrated", "from", have, "to", known)
	}
	return nil
}
