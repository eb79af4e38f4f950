package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Run implements FS.
func (osFS) Run() uint64 {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(id) == 0 {
		return 0
	}
	sum := sha256.Sum256(id)
	return binary.LittleEndian.Uint64(sum[:])
}

func (f osFile) Allocate(off, n int64) error {
	err := f.control(func(fd int) error { return unix.Fallocate(fd, 0, off, n) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return f.wrap("fallocate", err)
}

func (f osFile) Datasync() error {
	return f.wrap("fdatasync", f.control(unix.Fdatasync))
}

func (f osFile) Forget(off, n int64) {
	_ = f.control(func(fd int) error { return unix.Fadvise(fd, off, n, unix.FADV_DONTNEED) })
}

// control makes a system call on the descriptor, again if a signal interrupts it. Close
// waits for it.
func (f osFile) control(call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if callErr = call(int(fd)); callErr != unix.EINTR {
				return
			}
		}
	})
	return errors.Join(err, callErr)
}

func (f osFile) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: f.Name(), Err: err}
}
