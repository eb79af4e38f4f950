package store

import (
	"context"
	"database/sql"
	"fmt"
)

// maxTransactions is how many transactions of Transact a process runs on PostgreSQL at a time.
const maxTransactions = 4

// Transact runs fn in a transaction that is no change of state: it takes no revision and emits
// nothing, so on PostgreSQL it doesn't wait for changes, nor do they wait for it. fn must lock the
// rows that it reads and then writes. When fn fails, the transaction is rolled back and fn's error
// is returned unchanged. While PostgreSQL is unavailable the error is the same as Change's.
func (db *engine) Transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return db.unavailable(db.diskFull(db.transact(ctx, fn)))
}

func (db *engine) transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	pool := db.write
	if db.pg != nil {
		pool = db.pg.transactions
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("cannot begin a transaction: %w", err)
	}
	defer tx.Rollback() // without effect after the commit
	if err := fn(tx); err != nil {
		return err
	}
	if err := db.commit(tx); err != nil {
		return fmt.Errorf("cannot commit a transaction: %w", err)
	}
	return nil
}

// SkipLocked ends a query of rows that a transaction of Transact is going to write: rows that
// another transaction has locked are left out. On SQLite, where transactions run one at a time, it
// is empty.
func (db *engine) SkipLocked() string {
	if db.pg == nil {
		return ""
	}
	return ` FOR UPDATE SKIP LOCKED`
}
