package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"muniment.example/gateway/api"
)

const (
	// lockWait is the longest that LockKeys waits, and lockWarnAfter how long it waits before it
	// logs the holder.
	lockWait      = time.Minute
	lockWarnAfter = 3 * time.Second
	// releaseWait is how long a release waits for the server's answer.
	releaseWait = 3 * time.Second
)

// keyLock is the lock on the opening and changing of keys.
type keyLock struct {
	token  chan struct{}          // holds one token while the lock is held in this process
	holder atomic.Pointer[string] // what the holder of the token does
}

func newKeyLock() *keyLock {
	l := &keyLock{token: make(chan struct{}, 1)}
	l.holder.Store(new(string))
	return l
}

// LockKeys acquires the one lock on the opening and changing of keys, whose files and rows differ
// meanwhile, in this process and among processes. Work that may run late or elsewhere is a job
// instead. what describes the work to those who wait. release ends it, and so does the loss of the
// database. It waits for a minute at most, and logs the holder: then the error is a 503
// DATABASE_BUSY.
func (db *DB) LockKeys(ctx context.Context, what string) (release func(), err error) {
	w := &waiting{db: db, what: what, end: time.Now().Add(db.cfg.lockWait)}
	select {
	case db.keys.token <- struct{}{}:
	default:
		if err := w.until(ctx, db.keys.lock); err != nil {
			return nil, fmt.Errorf("cannot wait for key changes of this process: %w", err)
		}
	}
	db.keys.holder.Store(&what)
	if db.pg == nil {
		return db.keys.unlock, nil
	}
	unlock, err := db.lockAcross(ctx, w)
	if err != nil {
		db.keys.unlock()
		return nil, db.unavailable(fmt.Errorf("cannot wait for the other processes: %w", err))
	}
	return func() { unlock(); db.keys.unlock() }, nil
}

// waiting is a wait for the lock.
type waiting struct {
	db     *DB
	what   string
	end    time.Time // when it times out
	warned bool
}

// until tries until no holder is returned.
func (w *waiting) until(ctx context.Context, try func(context.Context, time.Duration) (holder string, err error)) error {
	for {
		holder, err := try(ctx, max(time.Millisecond, min(w.db.cfg.lockWarnAfter, time.Until(w.end))))
		if err != nil || holder == "" {
			return err
		}
		if !w.warned {
			w.db.cfg.Logger.Warn("waiting for other work of control", "to", w.what, "other", holder)
		}
		w.warned = true
		if !time.Now().Before(w.end) {
			return api.Unavailable(api.DatabaseBusy, "other work of control takes too long: "+holder+"; nothing was changed", retryAfter)
		}
	}
}

// lock waits up to d for the holder in this process.
func (l *keyLock) lock(ctx context.Context, d time.Duration) (holder string, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case l.token <- struct{}{}:
		return "", nil
	case <-timer.C:
		return lockName + *l.holder.Load() + ", in this process", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (l *keyLock) unlock() { <-l.token }

// lockAcross acquires the lock among processes.
func (db *DB) lockAcross(ctx context.Context, w *waiting) (unlock func(), err error) {
	conn, err := db.cfg.connect(ctx, db.pg.config)
	if err != nil {
		return nil, err
	}
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.cfg.releaseWait)
		defer cancel()
		// The server would notice the end of the connection only later.
		_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
		_ = conn.Close(ctx) // closed either way, and the lock with it
	}
	if _, err = conn.Exec(ctx, `SELECT set_config('application_name', $1, false)`, lockName+w.what); err == nil {
		err = w.until(ctx, func(ctx context.Context, d time.Duration) (holder string, err error) { return awaitLock(ctx, conn, d) })
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// lockName begins the application name of a connection that holds the lock or waits for it. The
// server cuts names to 63 bytes.
const lockName = "muniment control: "

// awaitLock waits up to d for the lock, and returns its holder.
func awaitLock(ctx context.Context, conn *pgx.Conn, d time.Duration) (holder string, err error) {
	if _, err := conn.Exec(ctx, `SELECT set_config('lock_timeout', $1, false)`, fmt.Sprint(d.Milliseconds())); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(lockKeys))
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "55P03" {
		return "", err
	}
	return lockHolder(ctx, conn)
}

// lockHolder describes the holder of the lock: what it does, where it runs, and since when.
func lockHolder(ctx context.Context, conn *pgx.Conn) (holder string, err error) {
	err = conn.QueryRow(ctx, `SELECT COALESCE(a.application_name, 'another process') || ', from ' || COALESCE(host(a.client_addr), 'this machine') ||
			', process ' || a.pid || ' of the database, since ' || a.backend_start::text
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND l.classid::bigint = $1::bigint >> 32 AND l.objid::bigint = $1::bigint & 4294967295`, int64(lockKeys)).Scan(&holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return "it has just ended", nil
	}
	return holder, err
}
