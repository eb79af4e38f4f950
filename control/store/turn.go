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

// Turn waits until nobody else has the turn, in this process or in another one, and
// takes it: for the opening and changing of keys, whose files and rows differ meanwhile, so
// that nobody may be at it twice. What may run late or elsewhere is a job instead. what
// says, to those who wait, what the work is. release ends it, and so does the loss of the
// database. It waits for a minute at most, and says in the log for whom: then the error is a
// 503 DATABASE_BUSY.
func (db *DB) Turn(ctx context.Context, what string) (release func(), err error) {
	w := &waiting{db: db, what: what, end: time.Now().Add(db.cfg.turnWait)}
	select {
	case db.turn <- struct{}{}:
	default:
		if err := w.until(ctx, db.takeOwn); err != nil {
			return nil, fmt.Errorf("cannot wait for other work of this process: %w", err)
		}
	}
	db.holder.Store(&what)
	if db.pg == nil {
		return db.giveBack, nil
	}
	unlock, err := db.lockTurn(ctx, w)
	if err != nil {
		db.giveBack()
		return nil, db.unavailable(fmt.Errorf("cannot wait for the other processes: %w", err))
	}
	return func() { unlock(); db.giveBack() }, nil
}

// waiting is for the turn.
type waiting struct {
	db   *DB
	what string
	end  time.Time // when it is given up
	told bool
}

// until tries, each time for a while, until nobody is named who has the turn.
func (w *waiting) until(ctx context.Context, try func(context.Context, time.Duration) (holder string, err error)) error {
	for {
		holder, err := try(ctx, max(time.Millisecond, min(w.db.cfg.turnTold, time.Until(w.end))))
		if err != nil || holder == "" {
			return err
		}
		if !w.told {
			w.db.cfg.Logger.Warn("waiting for other work of control", "to", w.what, "other", holder)
		}
		w.told = true
		if !time.Now().Before(w.end) {
			return api.Unavailable(api.DatabaseBusy, "other work of control takes too long: "+holder+"; nothing was changed", askAgain)
		}
	}
}

// takeOwn waits a while for those of this process.
func (db *DB) takeOwn(ctx context.Context, d time.Duration) (holder string, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case db.turn <- struct{}{}:
		return "", nil
	case <-timer.C:
		return turnName + *db.holder.Load() + ", in this process", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (db *DB) giveBack() { <-db.turn }

// lockTurn is Turn among processes.
func (db *DB) lockTurn(ctx context.Context, w *waiting) (unlock func(), err error) {
	conn, err := db.cfg.connect(ctx, db.pg.config)
	if err != nil {
		return nil, err
	}
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.cfg.releaseWait)
		defer cancel()
		// The server would only notice in a while that a connection is gone.
		_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
		_ = conn.Close(ctx) // closed either way, and the lock with it
	}
	if _, err = conn.Exec(ctx, `SELECT set_config('application_name', $1, false)`, turnName+w.what); err == nil {
		err = w.until(ctx, func(ctx context.Context, d time.Duration) (holder string, err error) { return awaitLock(ctx, conn, d) })
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// turnName begins the name of a connection that has the turn, or waits for it. The
// server cuts names to 63 bytes.
const turnName = "muniment control: "

// awaitLock waits a while for the lock, and sees who has it.
func awaitLock(ctx context.Context, conn *pgx.Conn, d time.Duration) (holder string, err error) {
	if _, err := conn.Exec(ctx, `SELECT set_config('lock_timeout', $1, false)`, fmt.Sprint(d.Milliseconds())); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(lockTurn))
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "55P03" {
		return "", err
	}
	return turnOf(ctx, conn)
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
