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

// errFull answers requests while the disk is full: nothing was changed, and the same request
// succeeds once an operator has freed disk space.
var errFull = api.Unavailable(api.StorageFull, "the disk is full; nothing was changed", 10*time.Second)

// diskFull turns a failure of a change on a full disk into errFull. It logs when the disk becomes
// full and when it has space again, not each failure.
func (db *engine) diskFull(err error) error {
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
