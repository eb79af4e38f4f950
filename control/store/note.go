package store

import (
	"context"
	"fmt"
)

// Shared says whether other processes may use the database: true on PostgreSQL; a SQLite file
// belongs to one process.
func (db *engine) Shared() bool { return db.pg != nil }

// notes are messages between processes that are no changes.
type notes struct{ *engine }

// Note runs a statement that is for other processes and is no change of state: it takes no revision
// and doesn't wait for changes. Once it is committed it wakes all who wait for Noted, in every
// process.
func (db *notes) Note(ctx context.Context, statement string, args ...any) error {
	if err := db.note(ctx, statement, args); err != nil {
		return fmt.Errorf("cannot write a note: %w", err)
	}
	db.noted.raise()
	return nil
}

func (db *notes) note(ctx context.Context, statement string, args []any) error {
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

// Noted returns a channel that is closed by the next note of any process, or sooner. Get the
// channel before reading, so that no note is missed.
func (db *notes) Noted() <-chan struct{} { return db.noted.wait() }
