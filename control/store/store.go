// Package store is control's database, and the one way in which control changes
// state.
//
// A change is one transaction (Change). The service checks and writes its record, takes the next
// number of the one revision counter, and writes an audit event to the outbox and the new state to
// the feed; Records and Machine do this for it. Either all of it is committed to disk, or none. The
// counter's row is locked until the commit, so commit order is revision order: a reader that has
// seen revision R has seen every revision up to R. Changes wait for each other: stops go first, with
// one other change behind each round of them, and the tenants take turns (changequeue.go).
//
// A relay appends the outbox to the event log in commit order. It deletes a row only after the log
// has made it durable. A crash in between puts a copy into the log, with the same event id and
// bytes, and nothing downstream counts it. While the log is unavailable or full, the outbox grows
// and changes go on; the gauge muniment_store_outbox_events shows its length.
//
// The database is either SQLite (modernc.org/sqlite) or PostgreSQL (pgx), which several control
// processes may share (postgres.go). SQLite runs in WAL mode with every commit synced. It has one
// writing connection, so writers queue here and never see SQLITE_BUSY, and pools of readers. Both
// engines run the same SQL and the same migrations: $1 placeholders, ids as TEXT, times as BIGINT
// milliseconds, JSON as TEXT, booleans as 0 and 1, and no ordering that depends on the locale.
//
// Work that may run late, or in another process, is a job: a leased row of one table (jobs.go).
// Three more kinds of work are exclusive, by advisory locks on PostgreSQL that end with their
// connection: changes run one at a time, one process relays (both postgres.go), and one process
// opens or changes keys (keylock.go).
//
// A stop (a suspension, revocation or expulsion) can be recorded although the disk is full, because
// a reserve is kept for it (control/reserve). If it still can't be recorded, no node gets a lease (stop.go).
//
// A database only moves forward: a process that meets an older state of it, or another server, ends
// (epoch.go), and the next start compares it with the log (control/rollback).
//
// Services own their tables and their SQL. This package owns the transaction, the outbox, the feed
// and the migrations, because a schema has one order. It doesn't know what a right or a key means,
// except that a record that was ever stopped stays in a node's first copy for good.
//
// # Adding a table
//
//	migrations/0015_dispute.sql  CREATE TABLE disputes (…), and an index for whatever it refers to
//	control/dispute/tables.go    var Tables = store.Tables{{Name: "disputes"}}, with the columns that may name a person, if any: in Public those that are in events too, in Personal all others
//	control/control.go           dispute.Tables, before the tables that it refers to
//
// Dropping a tenant deletes its rows by tenant_id, unless Table.Outlives says why they stay. An
// erasure removes a person from the columns in Personal, an export of the person shows them, and the
// preview counts them: the list is the only one. A table that no service lists, and a column with text
// that is neither in it nor exempt for a reason, fail control's tests.
//
// # Adding a state, or a transition
//
//   - the state is a constant in the service's <noun>.go, and in the enum of its record's State;
//   - the transition is a line of the service's table, and its action a constant: Respond: {From:
//     store.From(Investigating), To: Responded, Event: disputeResponded};
//   - an operation calls Machine.Move with it; Move.Edit changes further fields;
//   - a field of the record is stored by its tag, db:"evidence,moves", and the migration's column.
//
// # Adding a job
//
//	const DropJob = "proof.drop"                                                                // in the service, with a payload of ids
//	tx.Enqueue(ctx, store.NewJob{Kind: DropJob, TenantID: api.SystemTenant, Payload: drop{id}}) // in the change that needs it
//	func (s *Service) RunDrop(ctx context.Context, job *store.Job) error                        // does it, and returns soon once ctx is done
//	workers = append(workers, control.Worker{Kind: proof.DropJob, Do: packs.RunDrop})           // where main opens the services
//	func TestDropIsKilled(t *testing.T)                                                         // it ends half-way, and is run again
package store

import (
	"context"
	"crypto/tls"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/prometheus/client_golang/prometheus"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"muniment.example/control/reserve"
)

//go:embed migrations/*.sql
var migrations embed.FS

// The sizes of the pools of readers, which never wait for a writer. Reads are short, and a search is not: none takes
// the connection of the other, nor that of what all deliveries and stops wait for. A tenant has fewer places for
// Heavy operations than there are searchers (control's tenantHeavyLimit).
const (
	readers      = 8
	vitalReaders = 4
	searchers    = 6
)

// Config of a database.
type Config struct {
	// Path of a SQLite database's file. Its folder must exist, on a local disk.
	Path string
	// URL of a PostgreSQL database, instead of Path:
	// postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=FILE
	URL string
	// TLS returns the configuration of each connection to a host. It overrides the TLS settings of
	// the URL (sslmode and the like). nil: the URL's settings count, and its files are read once.
	TLS func(host string) *tls.Config
	// Password returns the password of each connection. nil: the URL's password.
	Password func() (string, error)
	// Reserve is the size, in bytes, of the file beside the database that keeps disk space free for
	// stops; 0: none. SQLite only.
	Reserve int64
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Logger; nil is slog.Default.
	Logger *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
	// OnFailure is called once when the database went back to an older state, or is on another server
	// (ErrWentBack): the process must end, and a start checks the database against the log. It must not
	// block. Optional.
	OnFailure func(error)

	server                  *server                         // see session.go
	confirmWithin           time.Duration                   // see stop.go
	stopsFirstFor           time.Duration                   // see change.go
	maxLifetime             time.Duration                   // see connection.go
	maxKeys                 int64                           // see idempotency.go
	pollInterval            time.Duration                   // see postgres.go
	lockWait, lockWarnAfter time.Duration                   // see keylock.go
	feedLimit               int                             // see feed.go
	releaseWait             time.Duration                   // likewise
	free                    func(dir string) (int64, error) // default Free
}

// DB is an open database: it runs transactions, which are changes, stops and reads. Its parts do what
// goes on around them. It is safe for concurrent use.
type DB struct {
	Feed     *Feed
	Outbox   *Outbox
	Jobs     *Jobs
	Attempts *Attempts
	Notes    *Notes

	cfg   Config
	write *sql.DB // exactly one connection
	queue changeQueue
	read  *sql.DB
	vital *sql.DB   // see Vital
	seek  *sql.DB   // see Search
	pg    *postgres // nil: SQLite

	epoch   Epoch       // changed by a start alone
	checked atomic.Bool // against the log, to which the outbox is relayed

	changed   broadcast // raised by a commit that took a revision
	queued    broadcast // raised by a commit that emitted an event
	relayed   broadcast // raised when events were removed from the outbox
	noted     broadcast // raised by Notes.Write
	jobQueued broadcast // raised by a commit that queued jobs, and when one ends here

	keys    *keyLock
	full    atomic.Bool // the last change failed because the disk was full
	reserve reserve.File
	// unrecorded is set from a stop that could not be recorded until a probe succeeds.
	unrecorded atomic.Bool
	stopped    atomic.Uint64 // the number of the newest event of a stop, in this process
	newest     atomic.Int64  // the highest revision that was seen committed
	back       atomic.Bool   // the database went back to an older state and is no longer used
}

// Open opens the database, creates it if there is none, and brings its schema up to date. A schema
// that a newer program has migrated is refused. The caller closes the database. While PostgreSQL is
// unavailable the error is the same as Change's.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if (cfg.Path == "") == (cfg.URL == "") {
		return nil, errors.New("cannot open control's database: it needs Path or URL")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.maxKeys == 0 {
		cfg.maxKeys = maxKeys
	}
	if cfg.pollInterval == 0 {
		cfg.pollInterval = pollInterval
	}
	if cfg.feedLimit == 0 {
		cfg.feedLimit = feedLimit
	}
	if cfg.lockWait == 0 {
		cfg.lockWait, cfg.lockWarnAfter = lockWait, lockWarnAfter
	}
	if cfg.releaseWait == 0 {
		cfg.releaseWait = releaseWait
	}
	if cfg.confirmWithin == 0 {
		cfg.confirmWithin = confirmWithin
	}
	if cfg.stopsFirstFor == 0 {
		cfg.stopsFirstFor = stopsFirstFor
	}
	if cfg.free == nil {
		cfg.free = reserve.Free
	}
	if cfg.OnFailure == nil {
		cfg.OnFailure = func(error) {}
	}
	db := &DB{keys: newKeyLock()}
	db.Feed, db.Outbox, db.Jobs, db.Attempts, db.Notes = &Feed{db}, &Outbox{db: db}, &Jobs{db}, &Attempts{db}, &Notes{db}
	cfg.server = &server{changed: db.otherServer}
	db.cfg = cfg
	if err := db.open(ctx); err != nil {
		if cfg.URL != "" && Unreachable(err) && !errors.Is(err, errReadOnly) {
			err = fmt.Errorf("%w: %w", errUnreachable, err)
		}
		err = fmt.Errorf("cannot open control's database %s: %w", cfg.name(), err)
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// CheckURL says what is wrong with the URL of a PostgreSQL database, before anything is opened. No error holds a password.
func CheckURL(url string) error {
	_, err := pgx.ParseConfig(url)
	return err
}

// name identifies the database in errors: a file, or a database and its server.
func (cfg *Config) name() string {
	if cfg.URL == "" {
		return cfg.Path
	}
	config, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return "by its URL"
	}
	return fmt.Sprintf("%s on %s", config.Database, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
}

func (db *DB) open(ctx context.Context) error {
	open, reserves := db.openSQLite, db.cfg.URL == "" && db.cfg.Reserve > 0
	if db.cfg.URL != "" {
		open = db.openPostgres
	}
	if reserves {
		db.reserve.Place(filepath.Dir(db.cfg.Path), db.cfg.Reserve)
		if err := db.reserve.ReleaseForStart(); err != nil {
			db.cfg.Logger.Warn("cannot release the reserve for the start", "err", err)
		}
	}
	if err := open(ctx); err != nil {
		return err
	}
	for pool, size := range map[*sql.DB]int{db.read: readers, db.vital: vitalReaders, db.seek: searchers} {
		pool.SetMaxOpenConns(size)
		pool.SetMaxIdleConns(size)
	}
	if err := db.loadEpoch(ctx); err != nil {
		return err
	}
	if reserves {
		if err := db.reserve.Allocate(); err != nil { // the start may use what is left of the disk; Watch then refuses changes
			db.cfg.Logger.Warn("cannot reserve disk space for stops", "err", err)
		}
	}
	// A process that stopped while it could not record a stop starts in the same state.
	if err := db.probe(ctx); err != nil {
		if !db.storageFailed(err) {
			return err
		}
		db.unrecorded.Store(true)
	}
	return db.register()
}

func (db *DB) openSQLite(ctx context.Context) error {
	// SQLite would create the file readable for all users; it holds the hashes of keys.
	f, err := os.OpenFile(db.cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if db.write, err = sql.Open("sqlite", dsn(db.cfg.Path, "_txlock", "immediate")); err != nil {
		return err
	}
	db.write.SetMaxOpenConns(1)
	if _, err := migrate(ctx, goose.DialectSQLite3, db.write); err != nil {
		return err
	}
	for _, pool := range []**sql.DB{&db.read, &db.vital, &db.seek} {
		if *pool, err = sql.Open("sqlite", dsn(db.cfg.Path, "_pragma", "query_only(1)")); err != nil {
			return err
		}
	}
	return nil
}

// busyTimeout is how many milliseconds a statement waits for another process.
const busyTimeout = "5000"

func dsn(path, key, value string) string {
	q := url.Values{"_pragma": {
		"busy_timeout(" + busyTimeout + ")", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "secure_delete(1)",
	}}
	q.Add(key, value)
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// migrate brings a schema up to date, and refuses a newer one.
func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, options ...goose.ProviderOption) (names []string, err error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	p, err := goose.NewProvider(dialect, db, files, append(options, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return nil, err
	}
	have, known, err := p.GetVersions(ctx)
	if err != nil {
		return nil, err
	}
	if err := refuseNewer(have, known); err != nil {
		return nil, err
	}
	done, err := p.Up(ctx)
	for _, m := range done {
		names = append(names, filepath.Base(m.Source.Path))
	}
	return names, err
}

// refuseNewer refuses a schema newer than known, the newest version that this program knows.
func refuseNewer(have, known int64) error {
	if have <= known {
		return nil
	}
	return fmt.Errorf("schema version %d is newer than %d, the newest that this program knows: run the version that migrated it, or a newer one, or restore a backup that this version made", have, known)
}

// Close closes all connections. Relay must have returned.
func (db *DB) Close() error {
	db.pg.close()
	var errs []error
	for _, pool := range []*sql.DB{db.read, db.vital, db.seek, db.write} {
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	return errors.Join(errs...)
}

// Read is the pool for queries: a query, or a transaction on it, sees one
// committed state. It refuses to write. What looks through much of a table uses Search.
func (db *DB) Read() *sql.DB { return db.read }

// Vital is Read for what all deliveries and stops wait for: the feed, the polls and keys of nodes, and the outbox.
// No operation of tenants has its connections.
func (db *DB) Vital() *sql.DB { return db.vital }

// Logger is what the database logs to.
func (db *DB) Logger() *slog.Logger { return db.cfg.Logger }

// Now is the database's clock, in UTC and whole milliseconds, the precision of
// every time that is stored.
func (db *DB) Now() time.Time { return db.cfg.Now().UTC().Truncate(time.Millisecond) }

// Changed returns a channel that is closed by the next commit that took a revision, or sooner. Get
// the channel before reading, so that no commit is missed.
func (db *DB) Changed() <-chan struct{} { return db.changed.wait() }

// Millis is how a time is stored.
func Millis(t time.Time) int64 { return t.UnixMilli() }

// broadcast wakes all waiters. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // nil: no waiters
}

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) raise() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
