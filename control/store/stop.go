package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"muniment.example/gateway/api"
)

// Stop is Change for a suspension, a revocation or an expulsion. It may use the reserve, so fn may
// run twice; its side effects must be those of the last run.
//
// If the database still can't record the stop, no node gets a lease (Feed) until Watch finds that a
// stop can be recorded. (A smaller change that succeeds doesn't prove that.) So deliveries under
// the right or key end no later than after a stop that was recorded. Only a failure of storage has
// this effect, not a refused or cancelled request.
//
// If PostgreSQL accepts no writes, its other processes give no leases either: each of them has to
// record the polls of nodes (control/node), at least ten times within the lease bound. A process
// that can still write gives leases, so a caller whose stop failed must retry until it is recorded.
func (db *DB) Stop(ctx context.Context, fn func(tx *Tx) error) error {
	err := db.StopUnconfirmed(ctx, fn)
	if err != nil && api.From(err).Code != api.StateConflict {
		return err
	}
	unconfirmed := db.Confirm(ctx)
	switch {
	case unconfirmed == nil:
		return err
	case err != nil: // a conflict with an earlier stop says that it took effect
		return fmt.Errorf("%w: %w", errConflictUnconfirmed, unconfirmed)
	}
	return unconfirmed
}

// StopUnconfirmed is Stop without Confirm, which the caller has to call before it acknowledges the stop,
// and after it has released what others wait for.
func (db *DB) StopUnconfirmed(ctx context.Context, fn func(tx *Tx) error) error {
	err := db.change(ctx, fn, true)
	if isFull(err) && (db.spend() || db.Reserved() != nil) { // released by another stop just now
		err = db.change(ctx, fn, true)
	}
	failed := ctx.Err() == nil && db.storageFailed(err)
	if failed && !db.unrecorded.Swap(true) {
		db.cfg.Logger.Error("a stop could not be recorded: no node gets a lease until one can be", "err", err)
	}
	err = db.unavailable(db.diskFull(err))
	if failed {
		answer := *api.From(err)
		answer.Message += "; until a stop can be recorded this process gives no node a lease, and a node without one signs nothing"
		err = fmt.Errorf("%w: %w", &answer, err)
	}
	return err
}

// confirmWithin is how long a change waits for the log.
const confirmWithin = 5 * time.Second

// ErrUnconfirmed is the error of a change that is recorded, but that the log may not have yet.
var ErrUnconfirmed = api.Unavailable(api.LogUnavailable, "the change is recorded and takes effect, but the event log does not have it yet, "+
	"so it would be lost if the database were: send the request again until the answer is not 503. A 409 that says it is so already means that it holds", time.Second)

// errConflictUnconfirmed is that of a stop that changed nothing.
var errConflictUnconfirmed = api.Unavailable(api.LogUnavailable, "the request conflicts with an earlier change, which the event log does not have yet: "+
	"send the request again until the answer is not 503", time.Second)

// Confirm returns once all events of the changes that were made before are in the log: whatever
// becomes of PostgreSQL, a start on a promoted standby finds them there. A server may lose what it has
// committed, also one with synchronous standbys (control/rollback), so a stop is confirmed before it is
// acknowledged, and a node's key before it signs. After an error, which is a 503, they are recorded
// nevertheless. An embedded service has its database and its log on one disk: it returns at once.
func (db *DB) Confirm(ctx context.Context) error {
	if db.pg == nil || !db.checked.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, db.cfg.confirmWithin)
	defer cancel()
	if err := db.Outbox.Drain(ctx, ""); err != nil {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	return nil
}

// CheckedAgainstLog says that the database and the log hold one history (control/rollback). Before that
// Confirm returns at once.
func (db *DB) CheckedAgainstLog() { db.checked.Store(true) }

// spend releases the reserve; false if there was none.
func (db *DB) spend() bool {
	released, err := db.reserve.Release()
	if err != nil {
		db.cfg.Logger.Error("cannot release the reserve", "err", err)
	}
	if released {
		db.cfg.Logger.Error("the disk is full: the reserve was released for stops, all other changes are refused until there is space", "bytes", db.reserve.Size())
	}
	return released
}

// storageFailed says whether a change failed because the database could not be written.
func (db *DB) storageFailed(err error) bool {
	if isFull(err) || db.pg != nil && Unreachable(err) {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(e.Code, "53") || strings.HasPrefix(e.Code, "58") // insufficient resources, system errors
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case codes.SQLITE_IOERR, codes.SQLITE_CORRUPT, codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_NOTADB:
		return true
	}
	return false
}

// errUnrecorded answers requests for the feed meanwhile.
var errUnrecorded = api.Unavailable(api.StorageFull, "a stop could not be recorded: there is no lease until one can be", time.Second)

// probeBytes is more than any stop writes, so if a probe succeeds, the stop does too. The longest
// stop is of a right with a scope of 16 KiB, which is in the record, the feed and the event.
const probeBytes = 256 << 10

// probe finds out whether a stop can be recorded.
func (db *DB) probe(ctx context.Context) error {
	filler := strings.Repeat(fmt.Sprintf("%016x", db.cfg.Now().UnixNano()), probeBytes/16)
	err := db.change(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO probe (only_row, filler) VALUES (1, $1) ON CONFLICT (only_row) DO UPDATE SET filler = excluded.filler`, filler)
		return err
	}, true)
	if err == nil && db.unrecorded.CompareAndSwap(true, false) {
		db.cfg.Logger.Info("stops can be recorded again, nodes get leases")
	}
	return err
}

// Reserved returns a 503 while the free disk space is for stops alone. All other writers to the
// disk of the database call it first.
func (db *DB) Reserved() error {
	if db.reserve.Spent() {
		return errFull
	}
	return nil
}

// watchEvery is how often Watch retries.
const watchEvery = time.Second

// Watch allocates the reserve again after it was released, and probes whether stops can be recorded
// after one could not be, until ctx is done.
func (db *DB) Watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		db.watch(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (db *DB) watch(ctx context.Context) {
	was := db.reserve.Spent()
	err := db.reserve.Allocate()
	switch {
	case isFull(err) && db.reserve.Spend():
		db.cfg.Logger.Error("the disk has no space for the reserve: all changes but stops are refused until it has", "err", err)
	case err == nil && was:
		db.cfg.Logger.Info("the reserve is allocated again, changes are accepted")
	}
	if db.unrecorded.Load() {
		_ = db.probe(ctx) // Watch retries it
	}
}

// errFull answers requests while the disk is full: nothing was changed, and the same request
// succeeds once an operator has freed disk space.
var errFull = api.Unavailable(api.StorageFull, "the disk is full; nothing was changed", 10*time.Second)

// diskFull turns a failure of a change on a full disk into errFull. It logs when the disk becomes
// full and when it has space again, not each failure.
func (db *DB) diskFull(err error) error {
	if !isFull(err) {
		if err == nil && db.Reserved() == nil && db.full.CompareAndSwap(true, false) {
			db.cfg.Logger.Info("the disk has space for changes again")
		}
		return err
	}
	if db.full.CompareAndSwap(false, true) {
		db.cfg.Logger.Error("the disk is full, no change can be recorded", "err", err)
	}
	return fmt.Errorf("%w: %w", errFull, err)
}

// isFull says whether an error means a full disk: of a file, of PostgreSQL, or of SQLite, for a
// page or for the WAL's index.
func isFull(err error) bool {
	if postgresFull(err) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code() == codes.SQLITE_FULL || e.Code() == codes.SQLITE_IOERR_SHMSIZE)
}
