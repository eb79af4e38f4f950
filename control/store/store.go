// Package store is control's database, and the one way in which control changes
// state.
//
// A change is one transaction (Change): the room checks and writes its record,
// takes the next number of the one revision counter, and writes an audit event
// to the outbox and the new state to the feed; Records and Machine do so for it. All of
// it is committed, on disk, or none. Since the counter's row is held until the commit, commit order is
// revision order: whoever has seen revision R has seen everything up to R.
//
// A relay carries the outbox to the event log in the order of the commits. It
// deletes a row only after the log made it durable, so a crash in between puts a
// copy into the log, with the same event id and the same bytes, which nothing
// downstream counts. While the log is away or full the outbox grows and state
// changes go on; the gauge muniment_store_outbox_events shows it.
//
// The database is SQLite (modernc.org/sqlite): WAL, every commit synced, one
// writing connection, so that writers queue here and never meet SQLITE_BUSY, and
// a pool of readers that see whole commits only. Or it is PostgreSQL (pgx), which
// several processes of control share (postgres.go). Both run the same SQL and the
// same migrations: $1 placeholders, ids as TEXT, times as BIGINT milliseconds, JSON
// as TEXT, truth values as 0 and 1, and no order by texts that a locale may sort in
// its own way.
//
// Work that may run late, or in another process, is a job: a leased row of one table
// (jobs.go). Besides that there are three ways of being alone,
// advisory locks on PostgreSQL which end with their connection: changes run one at a time,
// one process relays (both postgres.go), and one opens or changes keys (turn.go).
//
// What stops something is recorded although the disk is full, out of a reserve; when it
// can't be recorded all the same, no node gets a lease (stop.go, reserve.go).
//
// Database and log hold one history between them. A copy of either that is older
// than the other is noticed at the start (history.go), and so is a stop that somebody
// took out of the database (replay.go). Both are backed up, and restored, together
// (control/backup): then the database begins a new life.
//
// Rooms own their tables and their SQL; this room owns the transaction, the
// outbox, the feed and the migrations of them all, because a schema has one
// order. It knows nothing of what a right or a key means, but for one thing: what
// was ever stopped stays in a node's first copy for ever.
//
// # Adding a table
//
//	migrations/0012_dispute.sql  CREATE TABLE disputes (…), and an index for whatever it refers to
//	control/dispute/tables.go    var Tables = store.Tables{{Name: "disputes", Person: []string{"reported_by"}}}
//	control/tables.go            dispute.Tables, before those of the rooms that its tables refer to
//
// So a dropped tenant's rows go by their tenant_id, unless Table.Outlives says why they stay,
// and who is erased is named in these columns no more. A table that no room names fails control's tests.
//
// # Adding a state, or a transition
//
//   - the state is a constant in the room's <noun>.go, and in the enum of its record's State;
//   - the transition is a line of the room's table, and its action a constant:
//     Respond: {From: store.From(Investigating), To: Responded, Event: "dispute.responded"};
//   - an operation calls Machine.Move with it; what it changes besides the state is Move.Edit;
//   - a field of the record is written by its tag, db:"evidence,moves", and the migration's column.
//
// # Adding a job
//
//	const DropJob = "proof.drop"                                                                // in the room, with a payload of ids
//	tx.Enqueue(ctx, store.NewJob{Kind: DropJob, TenantID: api.SystemTenant, Payload: drop{id}}) // in the change that needs it
//	func (r *Room) RunDrop(ctx context.Context, job *store.Job) error                           // does it, and returns soon once ctx is done
//	workers = append(workers, control.Worker{Kind: proof.DropJob, Do: packs.RunDrop})           // where main opens the rooms
//	func TestDropIsKilled(t *testing.T)                                                         // it ends half-way, and begins again
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

	"muniment/gateway/api"
)

//go:embed migrations/*.sql
var migrations embed.FS

// readers is the size of the read pool: reads are short, and never wait for a
// writer.
const readers = 8

// Config of a database.
type Config struct {
	// Path of a SQLite database's file. Its folder must exist, on a local disk.
	Path string
	// URL of a PostgreSQL database, instead of Path:
	// postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=FILE
	URL string
	// TLS is asked, for each connection, how to encrypt it and whom to trust as the host
	// that is dialled; it overrules what the URL says of TLS (sslmode and its like). nil:
	// the URL counts, whose files are read once.
	TLS func(host string) *tls.Config
	// Password is asked for each connection, in place of the URL's; nil: that counts.
	Password func() (string, error)
	// Reserve is how many bytes a file beside the database keeps free for stops; 0: none.
	// PostgreSQL has none.
	Reserve int64
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Logger; nil is slog.Default.
	Logger *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer

	mostKeys           int64         // see idempotency.go
	lookAgain          time.Duration // see postgres.go
	turnWait, turnTold time.Duration // see turn.go
	feedLimit          int           // see feed.go
	releaseWait        time.Duration // likewise
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	cfg   Config
	write *sql.DB // exactly one connection
	read  *sql.DB
	pg    *postgres // nil: SQLite

	incarnation string
	epoch       uint64

	turn   chan struct{}          // one token; see turn.go
	holder atomic.Pointer[string] // what whoever has the token does

	changed  broadcast // raised by a commit that took a revision
	queued   broadcast // raised by a commit that emitted an event
	relayed  broadcast // raised when events have left the outbox
	noted    broadcast // raised by Note
	jobs     broadcast // raised by a commit that queued jobs, and when one ends here
	relaying sync.Mutex
	durable  number      // the newest event that the log has and the outbox may too; under relaying
	full     atomic.Bool // the last change found no room on the disk
	reserve  reserve
	// unrecorded is set while a stop could not be recorded, and no probe since.
	unrecorded atomic.Bool
	stopped    atomic.Uint64 // the number of the newest event of a stop, in this process
	newest     atomic.Int64  // the highest revision that was seen committed
	back       atomic.Bool   // the database went back: nothing of it counts any more
	metrics    metrics
	unsearched *unsearched // what Reconcile has left to SearchStops
}

// Open opens the database, makes it when there is none, and brings its schema up
// to date. One that a newer program has migrated is refused. The caller closes it. While
// PostgreSQL is away the error is that of Change.
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
	if cfg.mostKeys == 0 {
		cfg.mostKeys = mostKeys
	}
	if cfg.lookAgain == 0 {
		cfg.lookAgain = lookAgain
	}
	if cfg.feedLimit == 0 {
		cfg.feedLimit = feedLimit
	}
	if cfg.turnWait == 0 {
		cfg.turnWait, cfg.turnTold = turnWait, turnTold
	}
	if cfg.releaseWait == 0 {
		cfg.releaseWait = releaseWait
	}
	db := &DB{cfg: cfg, turn: make(chan struct{}, 1)}
	db.holder.Store(new(string))
	if err := db.open(ctx); err != nil {
		if cfg.URL != "" && Unreachable(err) {
			err = fmt.Errorf("%w: %w", errAway, err)
		}
		err = fmt.Errorf("cannot open control's database %s: %w", cfg.name(), err)
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// name is what an error calls the database: a file, or a database and its server.
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
	open := db.openSQLite
	if db.cfg.URL != "" {
		open = db.openPostgres
	}
	if err := open(ctx); err != nil {
		return err
	}
	db.read.SetMaxOpenConns(readers)
	db.read.SetMaxIdleConns(readers)
	if err := db.live(ctx); err != nil {
		return err
	}
	if db.pg == nil && db.cfg.Reserve > 0 {
		db.reserve.path, db.reserve.size = filepath.Join(filepath.Dir(db.cfg.Path), reserveFile), db.cfg.Reserve
		if err := db.reserve.take(); err != nil { // a start may use what room there is; then Watch refuses
			db.cfg.Logger.Warn("cannot reserve room for stops", "err", err)
		}
	}
	// A process that ended while it could not record a stop goes on as it was.
	if err := db.probe(ctx); err != nil {
		if !db.storageFailed(err) {
			return err
		}
		db.unrecorded.Store(true)
	}
	return db.register()
}

func (db *DB) openSQLite(ctx context.Context) error {
	// SQLite would make the file readable for all; it holds the hashes of keys.
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
	db.read, err = sql.Open("sqlite", dsn(db.cfg.Path, "_pragma", "query_only(1)"))
	return err
}

func dsn(path, key, value string) string {
	q := url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
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

// refuseNewer refuses a schema of which this program, which knows the versions up to known,
// can't know what its columns mean.
func refuseNewer(have, known int64) error {
	if have <= known {
		return nil
	}
	return fmt.Errorf("schema version %d is newer than %d, the newest that this program knows: run the version that migrated it, or a newer one, or restore a backup that this version made", have, known)
}

const prefixIncarnation api.Prefix = "inc_"

// live reads which life of the database this is, and begins the first.
func (db *DB) live(ctx context.Context) error {
	return db.Change(ctx, func(tx *Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT epoch, id FROM incarnations ORDER BY epoch DESC LIMIT 1`).Scan(&db.epoch, &db.incarnation)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		db.epoch, db.incarnation = 1, api.NewID(prefixIncarnation, db.Now())
		return tx.begin(ctx, db.epoch, db.incarnation)
	})
}

// begin writes the row of a new life.
func (tx *Tx) begin(ctx context.Context, epoch uint64, id string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO incarnations (epoch, id, started_at) VALUES ($1, $2, $3)`,
		epoch, id, Millis(tx.db.Now()))
	return err
}

// Close closes all connections. Relay must have returned.
func (db *DB) Close() error {
	db.pg.close()
	var errs []error
	for _, pool := range []*sql.DB{db.read, db.write} {
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	return errors.Join(errs...)
}

// Read is the pool for queries: a query, or a transaction on it, sees one
// committed state. It refuses to write.
func (db *DB) Read() *sql.DB { return db.read }

// Now is the database's clock, in UTC and whole milliseconds, the precision of
// every time that is stored.
func (db *DB) Now() time.Time { return db.cfg.Now().UTC().Truncate(time.Millisecond) }

// Incarnation names this life of the database. A restore makes a new one.
func (db *DB) Incarnation() string { return db.incarnation }

// Changed returns a channel that is closed by the next commit that took a
// revision, or sooner. To miss nothing, take the channel before reading.
func (db *DB) Changed() <-chan struct{} { return db.changed.wait() }

// Millis is how a time is stored.
func Millis(t time.Time) int64 { return t.UnixMilli() }

// broadcast wakes everyone who waits. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // nil: nobody waits
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
