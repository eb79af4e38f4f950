package store

import (
	"context"
	"fmt"
)

// Shared says whether other processes may use the database meanwhile: on PostgreSQL
// they may. A SQLite file is one process's.
func (db *DB) Shared() bool { return db.pg != nil }

// Note writes what processes tell each other and what is no change of state: it takes
// no revision, waits for no change, and comes to nothing when its statement fails.
// Once it is committed everybody who waits for Noted is awake, in every process.
func (db *DB) Note(ctx context.Context, statement string, args ...any) error {
	if err := db.note(ctx, statement, args); err != nil {
		return fmt.Errorf("cannot note: %w", err)
	}
	db.noted.raise()
	return nil
}

func (db *DB) note(ctx context.Context, statement string, args []any) error {
	if db.pg == nil {
		_, err := db.write.ExecContext(ctx, statement, args...)
		return err
	}
	tx, err := db.pg.notes.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // without effect after the commit
	if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_notify($1, '')`, channelNotes); err != nil {
		return err
	}
	return tx.Commit()
}

// Turn waits until no other process has its turn, and takes it: for work that
// processes must not do at once and that takes longer than a change. release ends it,
// and so does the loss of the database. Without wait release is nil when another
// process has it. A SQLite file has no other process.
func (db *DB) Turn(ctx context.Context, wait bool) (release func(), err error) {
	if db.pg == nil {
		return func() {}, nil
	}
	if release, err = db.turn(ctx, wait); err != nil {
		return nil, db.unavailable(fmt.Errorf("cannot wait for the other processes: %w", err))
	}
	return release, nil
}

func (db *DB) turn(ctx context.Context, wait bool) (release func(), err error) {
	conn, err := db.cfg.connect(ctx, db.pg.config)
	if err != nil {
		return nil, err
	}
	release = func() { _ = conn.Close(context.WithoutCancel(ctx)) } // closed either way, and the lock with it
	has := true
	if wait {
		if _, err = conn.Exec(ctx, `SET lock_timeout = 0`); err == nil {
			_, err = conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(lockTurn))
		}
	} else {
		err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(lockTurn)).Scan(&has)
	}
	if err != nil || !has {
		release()
		return nil, err
	}
	return release, nil
}

// Noted returns a channel that is closed by the next note of any process, or sooner.
// To miss nothing, take the channel before reading.
func (db *DB) Noted() <-chan struct{} { return db.noted.wait() }
