package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// # PostgreSQL
//
// Several processes of control may share one PostgreSQL database. The guarantees of SQLite's one
// writing connection have to hold for all of them:
//
//   - Changes run one at a time. Each begins with an advisory lock that lasts as long as the
//     transaction, so what it reads is committed and commit order is revision order. A process that
//     stalls within a change loses it after stallLimit, or after the URL's
//     idle_in_transaction_session_timeout.
//   - One process relays the outbox: the one that holds another advisory lock, which lasts as long
//     as its connection. A stalled relay that lost the lock without noticing only appends copies.
//   - A commit wakes the polls of every process, by NOTIFY; a process that missed it polls within
//     pollInterval. So does a note (change.go), on a channel of its own, so that it doesn't make
//     every node's poll read the feed again.
//
// If the database is replaced by an older copy while processes run, each of them detects it: see
// epoch.go.

// Advisory locks are numbers.
const (
	lockChange = 0x6d756e69_0001
	lockRelay  = 0x6d756e69_0002
	lockKeys   = 0x6d756e69_0003
)

// Channels of notifications: commits, notes and queued jobs. A notification has no payload; a
// process that receives one reads again.
const (
	channel      = "muniment"
	channelNotes = "muniment_notes"
	channelJobs  = "muniment_jobs"
)

const (
	stallLimit   = 10 * time.Second
	pollInterval = 500 * time.Millisecond
)

// postgres is what a DB has beyond its pools when it is on PostgreSQL.
type postgres struct {
	config       *pgx.ConnConfig
	notes        *sql.DB   // one connection, which doesn't wait for changes
	transactions *sql.DB   // see Transact
	relay        *pgx.Conn // holds lockRelay; nil: another process relays. Under outbox.relaying
	stop         context.CancelFunc
	done         chan struct{} // closed when listen has returned
}

func (db *DB) openPostgres(ctx context.Context) error {
	config, err := connection(db.cfg.URL)
	if err != nil {
		return err
	}
	if err := db.cfg.checkSessions(ctx, config); err != nil {
		return err
	}
	db.write = db.cfg.pool(config)
	db.write.SetMaxOpenConns(1)
	if _, err := migratePostgres(ctx, db.write); err != nil {
		return err
	}
	readOnly := config.Copy()
	readOnly.RuntimeParams["default_transaction_read_only"] = "on"
	db.read, db.vital, db.seek = db.cfg.pool(readOnly), db.cfg.pool(readOnly), db.cfg.pool(readOnly)
	notes := db.cfg.pool(config)
	notes.SetMaxOpenConns(1)
	transactions := db.cfg.pool(config)
	transactions.SetMaxOpenConns(maxTransactions)
	transactions.SetMaxIdleConns(maxTransactions) // dialling costs more than a transaction
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	db.pg = &postgres{config: config, notes: notes, transactions: transactions, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(db.pg.done)
		db.listen(listening)
	}()
	return nil
}

// connection returns the configuration that all connections to a database share.
func connection(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err // without the password
	}
	config.DialFunc = dial
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = deadAfter
	}
	config.RuntimeParams["synchronous_commit"] = "remote_apply" // see session.go
	// A change must see everything that was committed before it got the lock, whatever the server's
	// default isolation is.
	config.RuntimeParams["default_transaction_isolation"] = "read committed"
	for name, value := range map[string]string{
		"application_name":                    "muniment control",
		"lock_timeout":                        fmt.Sprint(stallLimit.Milliseconds()),
		"idle_in_transaction_session_timeout": fmt.Sprint(stallLimit.Milliseconds()),
	} {
		if _, given := config.RuntimeParams[name]; !given {
			config.RuntimeParams[name] = value
		}
	}
	return config, nil
}

func (pg *postgres) close() {
	if pg == nil {
		return
	}
	pg.stop()
	<-pg.done
	_ = pg.notes.Close() // nothing is left in it
	_ = pg.transactions.Close()
}

// lockChanges waits until no other process is within a change. On SQLite, BEGIN has already waited.
func (tx *Tx) lockChanges(ctx context.Context) error {
	if tx.db.pg == nil {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockChange))
	return err
}

// Execer is the writing connection or a change.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// notify notifies every process, within a transaction at its commit. On SQLite there is no other
// process.
func (db *DB) notify(ctx context.Context, q Execer, channel string) error {
	if db.pg == nil {
		return nil
	}
	_, err := q.ExecContext(ctx, `SELECT pg_notify($1, '')`, channel)
	return err
}

// listen raises the broadcasts for commits of other processes.
func (db *DB) listen(ctx context.Context) {
	for failing := false; ctx.Err() == nil; {
		err := db.listenOnce(ctx, &failing)
		if ctx.Err() != nil {
			return
		}
		if !failing {
			db.cfg.Logger.Warn("lost the connection for notifications of the database, polling instead", "err", err)
		}
		failing = true
		db.wake()
		pause(ctx, time.After(db.cfg.pollInterval))
	}
}

// listenOnce listens on one connection until that fails.
func (db *DB) listenOnce(ctx context.Context, failing *bool) error {
	conn, err := db.cfg.connect(ctx, db.pg.config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, name := range []string{channel, channelJobs, channelNotes} {
		if _, err := conn.Exec(ctx, "LISTEN "+name); err != nil {
			return err
		}
	}
	if *failing {
		db.cfg.Logger.Info("the database is back")
	}
	*failing = false
	db.wake() // for notifications that were missed
	for {
		limit, cancel := context.WithTimeout(ctx, db.cfg.pollInterval)
		got, err := conn.WaitForNotification(limit)
		cancel()
		switch {
		case err != nil && (!pgconn.Timeout(err) || ctx.Err() != nil):
			return err
		case err == nil && got.Channel == channelNotes:
			db.noted.raise()
		case err == nil && got.Channel == channelJobs:
			db.jobQueued.raise()
		default:
			db.wake()
		}
	}
}

// wake wakes all waiters.
func (db *DB) wake() {
	db.changed.raise()
	db.queued.raise()
	db.relayed.raise()
	db.noted.raise()
}

// leads says whether this process relays, and tries to become the one that does. On SQLite there is
// no other process.
func (outbox *Outbox) leads(ctx context.Context) (leads bool, err error) {
	if outbox.db.pg == nil {
		return true, nil
	}
	if outbox.db.pg.relay != nil {
		if err := outbox.db.pg.relay.Ping(ctx); err == nil {
			return true, nil
		}
		outbox.resign(ctx)
	}
	conn, err := outbox.db.cfg.connect(ctx, outbox.db.pg.config)
	if err != nil {
		return false, fmt.Errorf("cannot find out which process relays: %w", err)
	}
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(lockRelay)).Scan(&leads)
	if leads {
		outbox.db.pg.relay = conn
		return true, nil
	}
	return false, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// resign lets another process relay.
func (outbox *Outbox) resign(ctx context.Context) {
	if outbox.db.pg == nil || outbox.db.pg.relay == nil {
		return
	}
	_ = outbox.db.pg.relay.Close(context.WithoutCancel(ctx)) // closed either way, and the lock with it
	outbox.db.pg.relay = nil
}

// postgresFull says whether PostgreSQL's disk is full.
func postgresFull(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "53100"
}

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
	err = cfg.checkSessions(ctx, config)
	if sqlState(err) == noSuchDatabase {
		there = false
		err = cfg.checkSessions(ctx, maintenance(config)) // a pooler would make the database, and then mix the sessions
	}
	if err != nil {
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
		if err := cfg.checkSessions(ctx, config); err != nil { // a pooler may treat each database in its own way
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
	db := cfg.pool(maintenance(config))
	defer db.Close()
	_, err := db.ExecContext(ctx, "CREATE DATABASE "+pgx.Identifier{config.Database}.Sanitize())
	if sqlState(err) == duplicateDatabase { // made by another process just now
		return nil
	}
	return err
}

// maintenance is the connection to the database that every server has.
func maintenance(config *pgx.ConnConfig) *pgx.ConnConfig {
	other := config.Copy()
	other.Database = "postgres"
	return other
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
