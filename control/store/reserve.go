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
// A full disk must not keep a right or a key in force that somebody has to stop: whoever
// fills the disk would keep alive what was stolen. So a part of the disk is taken by a
// file, and given up when a stop finds no room (Stop), or its event finds none in the log
// (Relay). From then on nothing else is written to that part: changes are refused, and
// whoever writes on the same disk asks Reserved first. Watch takes the reserve again once
// there is room for it and for some more.
//
// It is for an embedded service, whose log and warehouse are on the disk of the database.
// PostgreSQL's disk is not ours.

// Reserve is how much an embedded service keeps free: a segment of the log, which is
// allocated as a whole, and as much as thousands of stops take in the database.
const Reserve = 96 << 20

const reserveFile = "reserve"

// reserve is the file that takes the room.
type reserve struct {
	path string // empty: there is none, and room is never reserved
	size int64

	mu    sync.Mutex // held while the file is made or removed
	spent atomic.Bool
}

// release gives up the room; false if there was none to give up.
func (r *reserve) release() (released bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path == "" || r.spent.Load() {
		return false, nil
	}
	r.spent.Store(true) // before the room is there for everybody
	err = os.Remove(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// take allocates the room, unless that was done.
func (r *reserve) take() (err error) {
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
	if free < r.size+r.size/4 { // else it is spent again as soon as it is taken
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

// fill makes a file that really takes the room.
func (r *reserve) fill(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = allocate(f, r.size); errors.Is(err, errors.ErrUnsupported) {
		err = scribble(f, r.size)
	}
	return errors.Join(err, f.Close())
}

// scribble writes what no file system can compress.
func scribble(f *os.File, size int64) error {
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

// Free is how many bytes may still be written to the disk of a folder.
func Free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("cannot tell how much room %s has: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// Reserved is a 503 while what room there is on the disk is for stops alone. Whoever
// writes to the disk of the database asks before.
func (db *DB) Reserved() error {
	if db.reserve.spent.Load() {
		return errFull
	}
	return nil
}

// watchEvery is how often Watch tries what could not be done.
const watchEvery = time.Second

// Watch takes the reserve again after it was spent, and finds out whether a stop could be
// recorded after one could not be, until ctx is done.
func (db *DB) Watch(ctx context.Context) error {
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

func (db *DB) watch(ctx context.Context) {
	was := db.reserve.spent.Load()
	err := db.reserve.take()
	switch {
	case isFull(err) && !db.reserve.spent.Swap(true):
		db.cfg.Logger.Error("there is no room for the reserve: all changes but stops are refused until there is", "err", err)
	case err == nil && was:
		db.cfg.Logger.Info("the reserve is taken again, changes go on")
	}
	if db.unrecorded.Load() {
		_ = db.probe(ctx) // it is tried again
	}
}
