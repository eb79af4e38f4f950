package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// # The reserve
//
// A full disk must not prevent the revocation of a right or a key: otherwise an attacker could keep
// a stolen key active by filling the disk. So a file occupies a part of the disk, and is removed
// when a stop (Stop), or its event in the log (Relay), finds the disk full. From then on only stops
// use this space: other changes are refused, and other writers on the same disk call Reserved
// first. Watch allocates the reserve again once there is space for it and a quarter more.
//
// It is for an embedded service, whose log and warehouse are on the disk of the database.
// PostgreSQL may run on another machine and has no reserve.

// Reserve is how many bytes an embedded service keeps free: a segment of the log, which is
// allocated as a whole, and space for thousands of stops in the database.
const Reserve = 96 << 20

const reserveFile = "reserve"

// reserve is the file that occupies the space.
type reserve struct {
	path string // empty: there is no reserve
	size int64

	mu    sync.Mutex // held while the file is made or removed
	spent atomic.Bool
}

// release removes the file; false if there was none.
func (r *reserve) release() (released bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path == "" || r.spent.Load() {
		return false, nil
	}
	r.spent.Store(true) // before other writers can use the space
	err = os.Remove(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// allocate creates the file, unless it exists.
func (r *reserve) allocate() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path == "" {
		return nil
	}
	if info, err := os.Stat(r.path); err == nil && info.Size() == r.size {
		r.spent.Store(false)
		return nil
	}
	free, err := Free(filepath.Dir(r.path))
	if err != nil {
		return err
	}
	if free < r.size+r.size/4 { // otherwise it would be released again at once
		return fmt.Errorf("%d bytes are free of the %d that it needs: %w", free, r.size+r.size/4, unix.ENOSPC)
	}
	making := r.path + ".new"
	if err = r.fill(making); err == nil {
		err = os.Rename(making, r.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(making))
	}
	r.spent.Store(false)
	return nil
}

// fill makes a file that really occupies the space.
func (r *reserve) fill(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = allocate(f, r.size); errors.Is(err, errors.ErrUnsupported) {
		err = writeRandom(f, r.size)
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

// Reserved returns a 503 while the free disk space is for stops alone. All other writers to the
// disk of the database call it first.
func (db *engine) Reserved() error {
	if db.reserve.spent.Load() {
		return errFull
	}
	return nil
}

// watchEvery is how often Watch retries.
const watchEvery = time.Second

// Watch allocates the reserve again after it was released, and probes whether stops can be recorded
// after one could not be, until ctx is done.
func (db *engine) Watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		db.watch(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (db *engine) watch(ctx context.Context) {
	was := db.reserve.spent.Load()
	err := db.reserve.allocate()
	switch {
	case isFull(err) && !db.reserve.spent.Swap(true):
		db.cfg.Logger.Error("the disk has no space for the reserve: all changes but stops are refused until it has", "err", err)
	case err == nil && was:
		db.cfg.Logger.Info("the reserve is allocated again, changes are accepted")
	}
	if db.unrecorded.Load() {
		_ = db.probe(ctx) // Watch retries it
	}
}
