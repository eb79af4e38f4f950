package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate makes the file take so many bytes of the disk; errors.ErrUnsupported where a
// file system has no such call.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
