package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"muniment/gateway/api"
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
func (db *engine) Stop(ctx context.Context, fn func(tx *Tx) error) error {
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

// spend releases the reserve; false if there was none.
func (db *engine) spend() bool {
	released, err := db.reserve.release()
	if err != nil {
		db.cfg.Logger.Error("cannot release the reserve", "err", err)
	}
	if released {
		db.cfg.Logger.Error("the disk is full: the reserve was released for stops, all other changes are refused until there is space", "bytes", db.reserve.size)
	}
	return released
}

// storageFailed says whether a change failed because the database could not be written.
func (db *engine) storageFailed(err error) bool {
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
func (db *engine) probe(ctx context.Context) error {
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
