package segment

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FS is a file system. Names are paths.
type FS interface {
	// MkdirAll creates the folder, and its parents, durably.
	MkdirAll(dir string) error
	// List names the files of a folder in lexical order, without the folder.
	List(dir string) ([]string, error)
	// Create creates an empty file for reading and writing, in place of any other file of
	// this name.
	Create(name string) (File, error)
	// Open opens an existing file.
	Open(name string, readOnly bool) (File, error)
	// Rename moves a file within its folder, in one step.
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes what was created, renamed and removed in the folder durable.
	SyncDir(dir string) error
	// Run identifies the machine's current boot: what was written since is there until the
	// next one, synced or not. 0 is unknown.
	Run() uint64
	// Lock takes the lock of a folder until it is closed or the process ends, or
	// fails at once with ErrLocked.
	Lock(name string) (io.Closer, error)
}

// File is an open file. Reads may run beside one another, beside a write of other
// bytes, and beside Close, after which they fail with os.ErrClosed.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	// Allocate reserves n bytes at off and extends the file to at least their end; new
	// bytes are zeros. It fails with errors.ErrUnsupported if the file system can't.
	Allocate(off, n int64) error
	// Sync makes contents and size durable, Datasync what is needed to read the
	// contents back.
	Sync() error
	Datasync() error
	// Forget is a hint that n bytes at off can be removed from the page cache.
	Forget(off, n int64)
}

// The log holds personal data, so no other user may read it.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

type osFS struct{}

// OS is the operating system's file system, for fault tests to wrap.
func OS() FS { return osFS{} }

func (fs osFS) MkdirAll(dir string) error {
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	parent := filepath.Dir(dir)
	if errors.Is(err, os.ErrNotExist) && parent != dir {
		if err := fs.MkdirAll(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, dirMode)
	}
	if err != nil {
		return err
	}
	return fs.SyncDir(parent)
}

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (osFS) Create(name string) (File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) Open(name string, readOnly bool) (File, error) {
	if readOnly {
		return openFile(name, os.O_RDONLY)
	}
	return openFile(name, os.O_RDWR)
}

func openFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock uses flock, which the kernel releases however the process ends, so a
// left-over file never blocks a start.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, &os.PathError{Op: "flock", Path: name, Err: err}
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// isExhausted reports whether an error passes once disk space or file descriptors are
// freed. After other errors a disk can't be trusted.
func isExhausted(err error) bool {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// lazyFS is a file system that makes nothing durable; see Config.Lazy.
type lazyFS struct{ FS }

func (fs lazyFS) Create(name string) (File, error) { return lazily(fs.FS.Create(name)) }

func (fs lazyFS) Open(name string, readOnly bool) (File, error) {
	return lazily(fs.FS.Open(name, readOnly))
}

func (lazyFS) SyncDir(string) error { return nil }

type lazyFile struct{ File }

func lazily(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return lazyFile{f}, nil
}

func (lazyFile) Sync() error     { return nil }
func (lazyFile) Datasync() error { return nil }
