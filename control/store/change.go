package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
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

// Change runs fn in one write transaction and commits it. When it returns nil, everything that fn
// wrote is on disk, and the nodes' polls and the relay are awake. When fn fails, the transaction is
// rolled back and fn's error is returned unchanged. Changes run one at a time, in the order of
// changeQueue, so fn must be short
// and must wait for nothing but the database; it must use tx and not the read pool. In the context
// of an attempt (WithAttempt) it is the attempt's effect. On a full disk, and while the reserve is
// released, the error is a 503 with reason STORAGE_FULL. While PostgreSQL is unavailable it has
// reason DATABASE_UNAVAILABLE, and its message says whether the change may have been made. Stops
// use Stop.
func (db *DB) Change(ctx context.Context, fn func(tx *Tx) error) error {
	return db.unavailable(db.diskFull(db.change(ctx, fn, false)))
}

// stopsFirstFor is how long after its begin a LongChange begins anew as one that stops break off: those that keep coming must not keep it
// from being made while its caller still waits.
const stopsFirstFor = 5 * time.Second

// LongChange is Change for one that may take seconds, as one that rewrites many rows: a stop of this process does not wait for its
// end. It is rolled back and begins anew behind the stop; one that begins anew later than stopsFirstFor is not broken off any more. So fn may run several times; its
// side effects must be those of the last run, and it must not take long to end once a statement of tx fails.
func (db *DB) LongChange(ctx context.Context, fn func(tx *Tx) error) error {
	for began := time.Now(); time.Since(began) < db.cfg.stopsFirstFor; {
		brokenOff, err := db.tryChange(ctx, fn)
		if !brokenOff {
			return db.unavailable(db.diskFull(err))
		}
	}
	return db.Change(ctx, fn)
}

// tryChange makes one attempt at a LongChange.
func (db *DB) tryChange(ctx context.Context, fn func(tx *Tx) error) (brokenOff bool, err error) {
	limited, breakOff := context.WithCancel(ctx)
	defer breakOff()
	err = db.change(limited, func(tx *Tx) error {
		db.queue.yields(breakOff)
		if err := fn(tx); err != nil {
			return err
		}
		db.queue.stays() // a commit is not broken off
		return limited.Err()
	}, false)
	return err != nil && limited.Err() != nil && ctx.Err() == nil, err
}

// change makes one attempt, for Change or for Stop.
func (db *DB) change(ctx context.Context, fn func(tx *Tx) error, stops bool) error {
	leave, err := db.queue.enter(ctx, stops)
	if err != nil {
		return fmt.Errorf("cannot begin a change: %w", err)
	}
	defer leave()
	inner, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("cannot begin a change: %w", err)
	}
	defer inner.Rollback() // without effect after the commit
	tx := &Tx{Tx: inner, db: db, epoch: db.epoch.Number}
	if err := tx.start(ctx); err != nil {
		return fmt.Errorf("cannot begin a change: %w", err)
	}
	if err := tx.takeEffect(ctx); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	changed := tx.revision != 0 || tx.emitted != 0
	if (changed || tx.jobs) && !stops { // other writes, such as the log's high-water mark, take almost no space
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
		db.jobQueued.raise()
	}
	return nil
}

// start waits for the lock on changes, and checks that the database has not gone back.
func (tx *Tx) start(ctx context.Context) error {
	seen := tx.db.seen()
	if err := tx.lockChanges(ctx); err != nil {
		return err
	}
	if tx.db.epoch.Incarnation == "" {
		return nil // the first change finds out the incarnation
	}
	_, err := tx.db.state(ctx, tx, seen)
	return err
}

// Revision takes the next number of the one revision counter; further calls in
// this change return the same number.
func (tx *Tx) Revision(ctx context.Context) (int64, error) {
	if tx.revision == 0 {
		n, err := tx.count(ctx, "revision", 1)
		if err != nil {
			return 0, err
		}
		tx.revision = n
	}
	return tx.revision, nil
}

// count takes the next numbers of a counter, and returns the last of them.
func (tx *Tx) count(ctx context.Context, counter string, more int) (last int64, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE counters SET value = value + $2 WHERE name = $1 RETURNING value`, counter, more).Scan(&last)
	if err != nil {
		return 0, fmt.Errorf("cannot take the next %s number: %w", counter, err)
	}
	return last, nil
}

// EmitRecord is Emit with the RFC 8785 text of record as the event's data.
func (tx *Tx) EmitRecord(ctx context.Context, kind *Kind, e sealer.Event, record any) (err error) {
	if e.Data, err = canonical.JSON(record); err != nil {
		return err
	}
	return tx.Emit(ctx, kind, e)
}

// Emit puts an audit event of a kind into the outbox; the kind sets its Type. A zero At becomes now; At is truncated to milliseconds.
// An empty EventID is generated. The canonical bytes are made here, once: every copy that reaches
// the log has the same ones.
func (tx *Tx) Emit(ctx context.Context, kind *Kind, e sealer.Event) error {
	return tx.emit(ctx, []*outgoingEvent{{kind: kind, Event: e}})
}

// EmitPrivate is Emit with a private part, under a salt of its own. Data that an erasure must
// delete belongs there, and not into the event's data.
func (tx *Tx) EmitPrivate(ctx context.Context, kind *Kind, e sealer.Event, hidden sealer.Private) error {
	private := &outgoingEvent{kind: kind, Event: e}
	if err := private.hide(hidden); err != nil {
		return err
	}
	return tx.emit(ctx, []*outgoingEvent{private})
}

// outgoingEvent is an event on its way into the outbox.
type outgoingEvent struct {
	kind *Kind
	sealer.Event
	private []byte
}

// hide adds a private part.
func (e *outgoingEvent) hide(hidden sealer.Private) error {
	if err := hidden.DrawSalts(rand.Reader); err != nil {
		return fmt.Errorf("cannot salt the private part of %s: %w", e.kind.Type, err)
	}
	e.private, e.PrivateCommitment = sealer.AppendPrivate(nil, &hidden), hidden.Commitment()
	return nil
}

// outboxColumns is how many columns an event has in the outbox.
const outboxColumns = 6

// emit puts events into the outbox, in their order, by one statement.
func (tx *Tx) emit(ctx context.Context, events []*outgoingEvent) error {
	last, err := tx.count(ctx, "outbox", len(events))
	if err != nil {
		return err
	}
	var rows []string
	var args []any
	for i, e := range events {
		e.Type = e.kind.Type
		if e.At.IsZero() {
			e.At = tx.db.Now()
		}
		e.At = At(e.At).Time
		if e.EventID == "" {
			e.EventID = api.NewID(api.PrefixEvent, e.At)
		}
		text, err := sealer.AppendEvent(nil, &e.Event)
		if err != nil {
			return fmt.Errorf("cannot emit %s: %w", e.Type, err)
		}
		row := []any{tx.epoch, last - int64(len(events)-1-i), e.TenantID, e.EventID, string(text), string(e.private)}
		rows, args = append(rows, "("+Marks(len(args), len(row))+")"), append(args, row...)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO outbox (epoch, seq, tenant_id, event_id, event, private) VALUES `+strings.Join(rows, ", "), args...)
	if err != nil {
		return fmt.Errorf("cannot emit %s: %w", events[0].Type, err)
	}
	tx.emitted = uint64(last)
	return nil
}

// EmitSystem emits an event of the system's tenant, with record as its data: of nodes, signing
// keys, or the database itself.
func (tx *Tx) EmitSystem(ctx context.Context, kind *Kind, by, subject sealer.Ref, record any) error {
	return tx.EmitRecord(ctx, kind, sealer.Event{TenantID: api.SystemTenant, Actor: by, Subject: subject}, record)
}

// ByKey, ByOperator and BySystem name the actor of an event: an API key, or the member whose id is in
// its place; a holder of the admin token, or control itself.
func ByKey(keyID string) sealer.Ref {
	if strings.HasPrefix(keyID, string(api.PrefixMember)) {
		return sealer.Ref{Kind: "member", ID: keyID}
	}
	return sealer.Ref{Kind: "key", ID: keyID}
}

// ByOperator: see ByKey.
func ByOperator() sealer.Ref { return sealer.Ref{Kind: "operator", ID: "admin"} }

// BySystem: see ByKey.
func BySystem() sealer.Ref { return sealer.Ref{Kind: "system", ID: "control"} }

// Now is the database's clock: see DB.Now.
func (tx *Tx) Now() time.Time { return tx.db.Now() }

// Affected says whether a statement has changed a row.
func Affected(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// maxTransactions is how many transactions of Transact a process runs on PostgreSQL at a time.
const maxTransactions = 4

// Transact runs fn in a transaction that is no change of state: it takes no revision and emits
// nothing, so on PostgreSQL it doesn't wait for changes, nor do they wait for it. fn must lock the
// rows that it reads and then writes. When fn fails, the transaction is rolled back and fn's error
// is returned unchanged. While PostgreSQL is unavailable the error is the same as Change's.
func (db *DB) Transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return db.unavailable(db.diskFull(db.transact(ctx, fn)))
}

func (db *DB) transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	pool := db.write
	if db.pg != nil {
		pool = db.pg.transactions
	} else {
		leave, err := db.queue.enter(ctx, false)
		if err != nil {
			return fmt.Errorf("cannot begin a transaction: %w", err)
		}
		defer leave()
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
func (db *DB) SkipLocked() string {
	if db.pg == nil {
		return ""
	}
	return ` FOR UPDATE SKIP LOCKED`
}

// Shared says whether other processes may use the database: true on PostgreSQL; a SQLite file
// belongs to one process.
func (db *DB) Shared() bool { return db.pg != nil }

// Notes are messages between processes that are no changes.
type Notes struct{ db *DB }

// Write runs a statement that is for other processes and is no change of state: it takes no revision
// and doesn't wait for changes. Once it is committed it wakes all who wait for Written, in every
// process.
func (notes *Notes) Write(ctx context.Context, statement string, args ...any) error {
	if err := notes.note(ctx, statement, args); err != nil {
		return fmt.Errorf("cannot write a note: %w", err)
	}
	notes.db.noted.raise()
	return nil
}

func (notes *Notes) note(ctx context.Context, statement string, args []any) error {
	if notes.db.pg == nil {
		_, err := notes.db.write.ExecContext(ctx, statement, args...)
		return err
	}
	tx, err := notes.db.pg.notes.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // without effect after the commit
	if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
		return err
	}
	if err := notes.db.notify(ctx, tx, channelNotes); err != nil {
		return err
	}
	return tx.Commit()
}

// Written returns a channel that is closed by the next note of any process, or sooner. Get the
// channel before reading, so that no note is missed.
func (notes *Notes) Written() <-chan struct{} { return notes.db.noted.wait() }
