package store

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"muniment/gateway/api"
)

// errFull is what a caller is told while the disk is full: nothing was changed, and
// the same request succeeds once an operator has made room.
var errFull = api.Unavailable(api.StorageFull, "there is no room to record the change; nothing was changed", 10*time.Second)

// room turns the failure of a change on a full disk into errFull. It logs the
// beginning and the end of such a time, not each change within.
func (db *DB) room(err error) error {
	if !isFull(err) {
		if err == nil && db.Reserved() == nil && db.full.CompareAndSwap(true, false) {
			db.cfg.Logger.Info("the disk has room for changes again")
		}
		return err
	}
	if db.full.CompareAndSwap(false, true) {
		db.cfg.Logger.Error("the disk is full, no change can be recorded", "err", err)
	}
	return fmt.Errorf("%w: %w", errFull, err)
}

// isFull tells the ways of saying so: a file's, PostgreSQL's, and SQLite's, where a page,
// or the WAL's index, found no room.
func isFull(err error) bool {
	if noRoom(err) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code() == codes.SQLITE_FULL || e.Code() == codes.SQLITE_IOERR_SHMSIZE)
}
