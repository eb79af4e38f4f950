package store

import (
	"context"
	"database/sql"
	"fmt"
)

// mostAside is how many transactions of Aside a process has on PostgreSQL at a time.
const mostAside = 4

// Aside runs fn in a transaction that is no change of state: it takes no revision and emits
// nothing, so on PostgreSQL it has no turn among the changes and keeps none of them waiting.
// fn itself has to lock the rows that it reads to write them. When it fails nothing of it
// remains, and fn's error comes back as it is. While PostgreSQL is away the error is that of
// Change.
func (db *DB) Aside(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return db.unavailable(db.room(db.asideOf(ctx, fn)))
}

func (db *DB) asideOf(ctx context.Context, fn func(tx *sql.Tx) error) error {
	pool := db.write
	if db.pg != nil {
		pool = db.pg.aside
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("cannot begin beside the changes: %w", err)
	}
	defer tx.Rollback() // without effect after the commit
	if err := fn(tx); err != nil {
		return err
	}
	if err := db.commit(tx); err != nil {
		return fmt.Errorf("cannot commit beside the changes: %w", err)
	}
	return nil
}
