package keyfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockName is the file that is locked.
const lockName = "LOCK"

// ErrInUse says that another process works on the folder.
var ErrInUse = errors.New("the data folder is in use")

// Claim locks a folder for this process, before anything in it is opened: two
// would migrate, sign and seal beside each other. It fails at once with ErrInUse,
// naming the process that has it. The kernel gives the folder back however a
// process ends.
func Claim(dir string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot claim the data folder: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := io.ReadAll(io.LimitReader(f, 20)) // only for the message
		return nil, errors.Join(fmt.Errorf("%w: %s, by process %s", ErrInUse, dir, strings.TrimSpace(string(holder))), f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot claim the data folder %s: %w", dir, err), f.Close())
	}
	return f, nil
}
