package backup

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush has a stretch of a file written to disk, and waits for it. It commits no journal, as
// a sync does, for which the log's own would wait: a file is synced once, when it is whole.
func flush(f *os.File, at, n int64) error {
	return unix.SyncFileRange(int(f.Fd()), at, n, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
}
