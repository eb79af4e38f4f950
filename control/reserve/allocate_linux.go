package reserve

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves so many bytes on the disk for the file; errors.ErrUnsupported if the file
// system can't.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
