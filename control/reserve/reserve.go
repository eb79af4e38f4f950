// Package reserve keeps disk space free for what must be written although the disk is full.
//
// A full disk must not prevent the revocation of a right or a key: otherwise an attacker could keep
// a stolen key active by filling the disk. So a file occupies a part of the disk, and is removed when
// a stop, or its event in the log, finds the disk full (control/store). From then on only stops use this
// space: other changes are refused, and other writers on the same disk ask first. The file is allocated
// again once there is space for it and a quarter more.
//
// It is for an embedded service, whose log and warehouse are on the disk of the database. PostgreSQL
// may run on another machine and has no reserve.
package reserve

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Bytes is how much an embedded service keeps free: a segment of the log, which is allocated as a
// whole, and space for thousands of stops in the database.
const Bytes = 96 << 20

// FileName is the name of the file.
const FileName = "reserve"

// File occupies the space. The zero value is no reserve: there is nothing to release, and it never counts
// as spent. It is safe for concurrent use.
type File struct {
	path string // empty: there is no reserve
	size int64

	mu    sync.Mutex // held while the file is made or removed
	spent atomic.Bool
}

// Place says where the file is to be, and how many bytes it has. Call it before anything else.
func (f *File) Place(dir string, size int64) { f.path, f.size = filepath.Join(dir, FileName), size }

// Size is how many bytes the file has.
func (f *File) Size() int64 { return f.size }

// Spent says whether the space is for stops alone at the moment.
func (f *File) Spent() bool { return f.spent.Load() }

// Spend says that the space is for stops alone, although the file may not have been there; false if it was
// so already.
func (f *File) Spend() bool { return !f.spent.Swap(true) }

// Release removes the file; false if there was none.
func (f *File) Release() (released bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" || f.spent.Load() {
		return false, nil
	}
	f.spent.Store(true) // before other writers can use the space
	return f.remove()
}

// remove removes the file; false if there was none. The caller holds mu.
func (f *File) remove() (removed bool, err error) {
	if err = os.Remove(f.path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ReleaseForStart removes the file if less than a quarter of its size is free beside it, for a start: that has to write before
// it can take stops. It does not count as spent, and Allocate creates it again once there is space.
func (f *File) ReleaseForStart() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	free, err := Free(filepath.Dir(f.path))
	if err != nil || free >= f.size/4 {
		return err
	}
	_, err = f.remove()
	return err
}

// Allocate creates the file, unless it exists. A disk without the space is unix.ENOSPC.
func (f *File) Allocate() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" {
		return nil
	}
	if info, err := os.Stat(f.path); err == nil && info.Size() == f.size {
		f.spent.Store(false)
		return nil
	}
	free, err := Free(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	if free < f.size+f.size/4 { // otherwise it would be released again at once
		return fmt.Errorf("%d bytes are free of the %d that it needs: %w", free, f.size+f.size/4, unix.ENOSPC)
	}
	making := f.path + ".new"
	if err = fill(making, f.size); err == nil {
		err = os.Rename(making, f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(making))
	}
	f.spent.Store(false)
	return nil
}

// fill makes a file that really occupies the space.
func fill(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = allocate(f, size); errors.Is(err, errors.ErrUnsupported) {
		err = writeRandom(f, size)
	}
	return errors.Join(err, f.Close())
}

// writeRandom writes bytes that no file system can compress.
func writeRandom(f *os.File, size int64) error {
	random := rand.NewChaCha8([32]byte{})
	block := make([]byte, 1<<20)
	for written := int64(0); written < size; written += int64(len(block)) {
		block = block[:min(int64(len(block)), size-written)]
		_, _ = random.Read(block) // never fails
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return f.Sync()
}

// Free returns how many bytes may still be written to the disk of a folder.
func Free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("cannot read how much space is free in %s: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
