package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
)

// Tx is one change of state. It is valid inside the function that Change calls,
// and used by one goroutine.
type Tx struct {
	*sql.Tx
	db       *DB
	epoch    uint64 // of the events that the change emits
	revision int64  // 0: none taken yet
	emitted  uint64 // the number of the last event, 0 without any
	jobs     bool   // jobs were queued
}

// Change runs fn in one write transaction and commits it. When it returns nil,
// everything that fn wrote is on disk, and the nodes' polls and the relay are
// awake. When fn fails, nothing of it remains, and fn's error comes back as it
// is. Changes run one at a time, so fn must be short and must not wait for
// anything but the database; it must use tx and not the read pool. In the context of an
// attempt (WithAttempt) it is the attempt's effect. On a full disk, and while the reserve
// is spent, the error is a 503 with reason STORAGE_FULL; while PostgreSQL is away, with
// reason DATABASE_UNAVAILABLE: its message says whether the change may have been made.
// What stops something is for Stop.
func (db *DB) Change(ctx context.Context, fn func(tx *Tx) error) error {
	return db.unavailable(db.room(db.change(ctx, fn, false)))
}

// change is Change, or Stop's try.
func (db *DB) change(ctx context.Context, fn func(tx *Tx) error, stops bool) error {
	inner, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("cannot begin a change: %w", err)
	}
	defer inner.Rollback() // without effect after the commit
	tx := &Tx{Tx: inner, db: db, epoch: db.epoch}
	if err := tx.begun(ctx); err != nil {
		return fmt.Errorf("cannot begin a change: %w", err)
	}
	if err := tx.takeEffect(ctx); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	changed := tx.revision != 0 || tx.emitted != 0
	if (changed || tx.jobs) && !stops { // what is none of it, as how far the log is, takes next to nothing
		if err := db.Reserved(); err != nil {
			return err
		}
	}
	if changed {
		err = db.notify(ctx, inner, channel)
	}
	if err == nil && tx.jobs {
		err = db.notify(ctx, inner, channelJobs)
	}
	if err != nil {
		return fmt.Errorf("cannot commit a change: %w", err)
	}
	if err := db.commit(inner); err != nil {
		return fmt.Errorf("cannot commit a change: %w", err)
	}
	if tx.revision != 0 {
		db.saw(tx.revision)
		db.changed.raise()
	}
	if tx.emitted != 0 {
		if stops {
			db.stopped.Store(tx.emitted)
		}
		db.queued.raise()
	}
	if tx.jobs {
		db.jobs.raise()
	}
	return nil
}

// begun waits for the change's turn and looks at what it is going to change.
func (tx *Tx) begun(ctx context.Context) error {
	seen := tx.db.seen()
	if err := tx.takeTurn(ctx); err != nil {
		return err
	}
	if tx.db.incarnation == "" {
		return nil // the first change finds out which life this is
	}
	_, err := tx.db.state(ctx, tx, seen)
	return err
}

// Revision takes the next number of the one revision counter; further calls in
// this change return the same number.
func (tx *Tx) Revision(ctx context.Context) (int64, error) {
	if tx.revision == 0 {
		n, err := tx.count(ctx, "revision")
		if err != nil {
			return 0, err
		}
		tx.revision = n
	}
	return tx.revision, nil
}

func (tx *Tx) count(ctx context.Context, counter string) (n int64, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = $1 RETURNING value`, counter).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("cannot take the next %s number: %w", counter, err)
	}
	return n, nil
}

// EmitRecord is Emit with the RFC 8785 text of record as the event's data.
func (tx *Tx) EmitRecord(ctx context.Context, e sealer.Event, record any) (err error) {
	if e.Data, err = sealer.Canonical(record); err != nil {
		return err
	}
	return tx.Emit(ctx, e)
}

// Emit puts an audit event into the outbox. At is now when it is zero, and cut to
// milliseconds; EventID is made when it is empty. The canonical bytes are made
// here, once: every copy that ever reaches the log has them.
func (tx *Tx) Emit(ctx context.Context, e sealer.Event) error {
	if e.At.IsZero() {
		e.At = tx.db.Now()
	}
	e.At = At(e.At).Time
	if e.EventID == "" {
		e.EventID = api.NewID(api.PrefixEvent, e.At)
	}
	text, err := sealer.AppendEvent(nil, &e)
	if err != nil {
		return fmt.Errorf("cannot emit %s: %w", e.Type, err)
	}
	seq, err := tx.count(ctx, "outbox")
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO outbox (epoch, seq, tenant_id, event_id, event) VALUES ($1, $2, $3, $4, $5)`,
		tx.epoch, seq, e.TenantID, e.EventID, string(text))
	if err != nil {
		return fmt.Errorf("cannot emit %s: %w", e.Type, err)
	}
	tx.emitted = uint64(seq)
	return nil
}

// ByKey, ByOperator and BySystem name the actor of an event: an API key, whoever
// holds the admin token, or control itself.
func ByKey(keyID string) sealer.Ref { return sealer.Ref{Kind: "key", ID: keyID} }

// ByOperator: see ByKey.
func ByOperator() sealer.Ref { return sealer.Ref{Kind: "operator", ID: "admin"} }

// BySystem: see ByKey.
func BySystem() sealer.Ref { return sealer.Ref{Kind: "system", ID: "control"} }

// Now is the database's clock: see DB.Now.
func (tx *Tx) Now() time.Time { return tx.db.Now() }
