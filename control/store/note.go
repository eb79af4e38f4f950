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
	if err := db.notify(ctx, tx, channelNotes); err != nil {
		return err
	}
	return tx.Commit()
}

// Noted returns a channel that is closed by the next note of any process, or sooner.
// To miss nothing, take the channel before reading.
func (db *DB) Noted() <-chan struct{} { return db.noted.wait() }
