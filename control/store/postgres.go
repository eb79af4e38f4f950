package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// # PostgreSQL
//
// Several processes of control share one PostgreSQL database. What SQLite's one
// writing connection holds for one process has to hold there for all of them:
//
//   - Changes run one at a time. Each begins with an advisory lock that lasts as long
//     as the transaction, so what it reads is committed and commit order is revision
//     order. Who stalls within a change loses it after stallLimit, or what the URL
//     says of idle_in_transaction_session_timeout.
//   - One process relays the outbox: the one that holds another advisory lock, which
//     lasts as long as its connection. A relay that lost it without noticing, because
//     it stood still, only appends copies.
//   - A commit wakes the polls of every process, by NOTIFY; whoever missed that looks
//     again within lookAgain. So does a note (note.go), on a channel of its own: it
//     must not have every node's poll read the feed again.
//
// A database that comes back from an older copy under running processes is noticed
// by each of them: see rollback.go.

// Advisory locks are numbers.
const (
	lockChange = 0x6d756e69_0001
	lockRelay  = 0x6d756e69_0002
	lockTurn   = 0x6d756e69_0003
)

// Channels of notifications, of commits, of notes and of queued jobs. They say nothing
// more: whoever gets one looks again at all that it is about.
const (
	channel      = "muniment"
	channelNotes = "muniment_notes"
	channelJobs  = "muniment_jobs"
)

const (
	stallLimit = 10 * time.Second
	lookAgain  = 500 * time.Millisecond
)

// postgres is what a DB has beyond its pools when it is on PostgreSQL.
type postgres struct {
	config *pgx.ConnConfig
	notes  *sql.DB   // one connection, which waits for no change
	aside  *sql.DB   // a few of them, see Aside
	relay  *pgx.Conn // holds lockRelay; nil: another process relays. Under DB.relaying
	stop   context.CancelFunc
	done   chan struct{} // closed when nobody listens any more
}

func (db *DB) openPostgres(ctx context.Context) error {
	config, err := connection(db.cfg.URL)
	if err != nil {
		return err
	}
	db.write = db.cfg.pool(config)
	db.write.SetMaxOpenConns(1)
	if _, err := migratePostgres(ctx, db.write); err != nil {
		return err
	}
	readOnly := config.Copy()
	readOnly.RuntimeParams["default_transaction_read_only"] = "on"
	db.read = db.cfg.pool(readOnly)
	notes := db.cfg.pool(config)
	notes.SetMaxOpenConns(1)
	aside := db.cfg.pool(config)
	aside.SetMaxOpenConns(mostAside)
	aside.SetMaxIdleConns(mostAside) // dialling costs more than what is asked over it
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	db.pg = &postgres{config: config, notes: notes, aside: aside, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(db.pg.done)
		db.listen(listening)
	}()
	return nil
}

// connection is what every connection to a database has in common.
func connection(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err // without the password
	}
	config.DialFunc = dial
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = deadAfter
	}
	config.RuntimeParams["synchronous_commit"] = "on" // a change that was answered is on disk
	// A change must see what was committed before its turn, also where a transaction would
	// by itself keep to what it saw first.
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
	_ = pg.aside.Close()
}

// takeTurn waits until no other process is within a change. On SQLite, beginning one
// has waited already.
func (tx *Tx) takeTurn(ctx context.Context) error {
	if tx.db.pg == nil {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockChange))
	return err
}

// notify tells every process; within a transaction it tells them at the commit. On
// SQLite there is no other.
func (db *DB) notify(ctx context.Context, q execer, channel string) error {
	if db.pg == nil {
		return nil
	}
	_, err := q.ExecContext(ctx, `SELECT pg_notify($1, '')`, channel)
	return err
}

// listen raises the broadcasts for what other processes commit.
func (db *DB) listen(ctx context.Context) {
	for failing := false; ctx.Err() == nil; {
		err := db.listenOnce(ctx, &failing)
		if ctx.Err() != nil {
			return
		}
		if !failing {
			db.cfg.Logger.Warn("the database is away, or its notifications are lost; looking again now and then", "err", err)
		}
		failing = true
		db.wake()
		pause(ctx, time.After(db.cfg.lookAgain))
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
	db.wake() // for what was missed
	for {
		limit, cancel := context.WithTimeout(ctx, db.cfg.lookAgain)
		got, err := conn.WaitForNotification(limit)
		cancel()
		switch {
		case err != nil && (!pgconn.Timeout(err) || ctx.Err() != nil):
			return err
		case err == nil && got.Channel == channelNotes:
			db.noted.raise()
		case err == nil && got.Channel == channelJobs:
			db.jobs.raise()
		default:
			db.wake()
		}
	}
}

// wake has everyone look again.
func (db *DB) wake() {
	db.changed.raise()
	db.queued.raise()
	db.relayed.raise()
	db.noted.raise()
}

// leads says whether this process is the one that relays, and tries to become it.
// On SQLite there is no other.
func (db *DB) leads(ctx context.Context) (leads bool, err error) {
	if db.pg == nil {
		return true, nil
	}
	if db.pg.relay != nil {
		if err := db.pg.relay.Ping(ctx); err == nil {
			return true, nil
		}
		db.resign(ctx)
	}
	conn, err := db.cfg.connect(ctx, db.pg.config)
	if err != nil {
		return false, fmt.Errorf("cannot ask who relays: %w", err)
	}
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(lockRelay)).Scan(&leads)
	if leads {
		db.pg.relay = conn
		return true, nil
	}
	return false, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// resign lets another process relay.
func (db *DB) resign(ctx context.Context) {
	if db.pg == nil || db.pg.relay == nil {
		return
	}
	_ = db.pg.relay.Close(context.WithoutCancel(ctx)) // closed either way, and the lock with it
	db.pg.relay = nil
}

// noRoom tells PostgreSQL's way of saying that its disk is full.
func noRoom(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "53100"
}
