package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"muniment/gateway/api"
)

const (
	// turnWait is the longest that Turn waits, and turnTold after how long it first says
	// whom it waits for.
	turnWait = time.Minute
	turnTold = 3 * time.Second
	// releaseWait is how long a release waits for the server's word.
	releaseWait = 3 * time.Second
)

// Turn waits until no other process has its turn, and takes it: for work that
// processes must not do at once and that takes longer than a change. what says, to
// those who wait, what the work is. release ends it, and so does the loss of the
// database. It waits for a minute at most, and says in the log for whom: then the error
// is a 503 DATABASE_BUSY. Without wait release is nil when another process has it. A
// SQLite file has no other process.
func (db *DB) Turn(ctx context.Context, what string, wait bool) (release func(), err error) {
	if db.pg == nil {
		return func() {}, nil
	}
	if release, err = db.turn(ctx, what, wait); err != nil {
		return nil, db.unavailable(fmt.Errorf("cannot wait for the other processes: %w", err))
	}
	return release, nil
}

func (db *DB) turn(ctx context.Context, what string, wait bool) (release func(), err error) {
	conn, err := db.cfg.connect(ctx, db.pg.config)
	if err != nil {
		return nil, err
	}
	release = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
		defer cancel()
		// The server would only notice in a while that a connection is gone.
		_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
		_ = conn.Close(ctx) // closed either way, and the lock with it
	}
	has := true
	if _, err = conn.Exec(ctx, `SELECT set_config('application_name', $1, false)`, turnName+what); err == nil {
		if wait {
			err = db.awaitTurn(ctx, conn, what)
		} else {
			err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(lockTurn)).Scan(&has)
		}
	}
	if err != nil || !has {
		release()
		return nil, err
	}
	return release, nil
}

// turnName begins the name of a connection that has the turn, or waits for it. The
// server cuts names to 63 bytes.
const turnName = "muniment control: "

// awaitTurn waits for the lock, and stops now and then to see who has it.
func (db *DB) awaitTurn(ctx context.Context, conn *pgx.Conn, what string) error {
	told := false
	for end := time.Now().Add(db.cfg.turnWait); ; {
		try := max(time.Millisecond, min(db.cfg.turnTold, time.Until(end)))
		if _, err := conn.Exec(ctx, `SELECT set_config('lock_timeout', $1, false)`, fmt.Sprint(try.Milliseconds())); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(lockTurn))
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "55P03" {
			return err
		}
		holder, err := turnOf(ctx, conn)
		if err != nil {
			return err
		}
		if !told {
			db.cfg.Logger.Warn("waiting for another control process", "to", what, "other", holder)
		}
		told = true
		if !time.Now().Before(end) {
			return api.Unavailable(api.DatabaseBusy, "another control process is at work for too long: "+holder+"; nothing was changed", askAgain)
		}
	}
}

// turnOf names who has the turn: what it does, where it runs, and since when.
func turnOf(ctx context.Context, conn *pgx.Conn) (holder string, err error) {
	err = conn.QueryRow(ctx, `SELECT COALESCE(a.application_name, 'somebody') || ', from ' || COALESCE(host(a.client_addr), 'this machine') ||
			', process ' || a.pid || ' of the database, since ' || a.backend_start::text
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND l.classid::bigint = $1::bigint >> 32 AND l.objid::bigint = $1::bigint & 4294967295`, int64(lockTurn)).Scan(&holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return "it has just ended", nil
	}
	return holder, err
}
