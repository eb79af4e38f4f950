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

// Stop is Change for what takes something out of force: a suspension, a revocation, an
// expulsion. It may use the reserve, so fn may run twice: what it leaves behind must be of
// its last run alone.
//
// When the database can't record it all the same, no node gets a lease any more (Feed)
// until Watch finds that one could be: that another change finds room says nothing of a
// longer one. So what somebody had
// to stop is not signed for longer than after a stop that was recorded. Nothing but a
// failure of storage does that: who is refused, or goes away, stops nobody.
//
// Other processes on a PostgreSQL that takes no writes give no leases either: each of them
// has to write down who asks (control/node), at least ten times within the bound. One that
// can write, as it can reach the server or needs no new page, gives leases: whoever had a
// stop refused asks again until it is recorded.
func (db *DB) Stop(ctx context.Context, fn func(tx *Tx) error) error {
	err := db.change(ctx, fn, true)
	if isFull(err) && (db.spend() || db.Reserved() != nil) { // by another stop just now
		err = db.change(ctx, fn, true)
	}
	failed := ctx.Err() == nil && db.storageFailed(err)
	if failed && !db.unrecorded.Swap(true) {
		db.cfg.Logger.Error("a stop could not be recorded: no node gets a lease until one can be", "err", err)
	}
	err = db.unavailable(db.room(err))
	if failed {
		told := *api.From(err)
		told.Message += "; until a stop can be recorded this process gives no node a lease, and a node without one signs nothing"
		err = fmt.Errorf("%w: %w", &told, err)
	}
	return err
}

// spend gives up the reserve; false if there was none.
func (db *DB) spend() bool {
	released, err := db.reserve.release()
	if err != nil {
		db.cfg.Logger.Error("cannot release the reserve", "err", err)
	}
	if released {
		db.cfg.Logger.Error("the disk is full: the reserve was released for stops, all other changes are refused until there is room", "bytes", db.reserve.size)
	}
	return released
}

// storageFailed says whether a change failed as the database could not be written.
func (db *DB) storageFailed(err error) bool {
	if isFull(err) || db.pg != nil && Unreachable(err) {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(e.Code, "53") || strings.HasPrefix(e.Code, "58") // no resources, failing files
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

// errUnrecorded is what nodes are told that ask for the feed meanwhile.
var errUnrecorded = api.Unavailable(api.StorageFull, "a stop could not be recorded: there is no lease until one can be", time.Second)

// probeBytes is more than any stop writes: where it finds room, so does the stop that did
// not. The longest is of a right with a scope of 16 KiB, which is in the record, the feed
// and the event.
const probeBytes = 256 << 10

// probe finds out whether a stop could be recorded now.
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
