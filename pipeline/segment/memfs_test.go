package segment

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// sector is what a disk writes wholly or not at all.
const sector = 512

// memFS is a file system in memory that knows what a crash would leave of it:
// bytes are durable after Sync or Datasync of their file, names after SyncDir.
type memFS struct {
	mu      sync.Mutex
	files   map[string]*memFile // as the process sees it
	names   map[string]*memFile // as the disk has it
	locked  map[string]bool
	free    int64 // bytes that files may still grow by
	noAlloc bool  // Allocate is not supported
	run     uint64

	// before is called ahead of each operation that changes something, without any
	// lock held, and may veto it.
	before func(op, name string) error
}

func newMemFS() *memFS {
	return &memFS{files: map[string]*memFile{}, names: map[string]*memFile{}, locked: map[string]bool{}, free: 1 << 40, run: 1}
}

// memFile is the contents of a file, durable ones and what was done since.
type memFile struct {
	fs      *memFS
	data    []byte
	durable []byte
	since   []change
}

// change is a write, or a new size when there are no bytes.
type change struct {
	at    int64
	bytes []byte
}

func (c change) apply(data []byte) []byte {
	if c.bytes == nil {
		return resized(data, int(c.at))
	}
	data = resized(data, max(len(data), int(c.at)+len(c.bytes)))
	copy(data[c.at:], c.bytes)
	return data
}

func resized(data []byte, n int) []byte {
	if n <= len(data) {
		return data[:n:n]
	}
	return append(data, make([]byte, n-len(data))...)
}

// crash returns what a machine would find that lost its power now: of what was
// not made durable, each sector and each change of size or name survives with
// probability keep.
func (fs *memFS) crash(rng *rand.Rand, keep float64) *memFS {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	left := newMemFS()
	left.noAlloc, left.run = fs.noAlloc, fs.run+1
	copied := map[*memFile]*memFile{}
	survive := func(name string, f *memFile) {
		if f == nil {
			return
		}
		if copied[f] == nil {
			copied[f] = f.crash(left, rng, keep)
		}
		left.files[name], left.names[name] = copied[f], copied[f]
	}
	all := map[string]bool{}
	for name := range fs.files {
		all[name] = true
	}
	for name := range fs.names {
		all[name] = true
	}
	for name := range all {
		if rng.Float64() < keep {
			survive(name, fs.files[name])
		} else {
			survive(name, fs.names[name])
		}
	}
	return left
}

func (f *memFile) crash(fs *memFS, rng *rand.Rand, keep float64) *memFile {
	left := &memFile{fs: fs, data: slices.Clone(f.durable)}
	for _, c := range f.since {
		if c.bytes == nil {
			if rng.Float64() < keep {
				left.data = c.apply(left.data)
			}
			continue
		}
		for len(c.bytes) > 0 {
			n := min(len(c.bytes), sector-int(c.at%sector))
			if rng.Float64() < keep {
				left.data = change{c.at, c.bytes[:n]}.apply(left.data)
			}
			c.at, c.bytes = c.at+int64(n), c.bytes[n:]
		}
	}
	left.durable = slices.Clone(left.data)
	return left
}

// clone returns an unrelated copy, as if everything had been durable.
func (fs *memFS) clone() *memFS { return fs.crash(rand.New(rand.NewPCG(0, 0)), 1) }

// segments names the segment files in order.
func (fs *memFS) segments() []string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var names []string
	for name := range fs.files {
		if isSegmentName(filepath.Base(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (fs *memFS) veto(op, name string) error {
	if fs.before == nil {
		return nil
	}
	return fs.before(op, name)
}

func (fs *memFS) Run() uint64 { return fs.run }

func (fs *memFS) MkdirAll(dir string) error { return fs.veto("mkdir", dir) }

func (fs *memFS) List(dir string) ([]string, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var names []string
	for name := range fs.files {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (fs *memFS) Create(name string) (File, error) {
	if err := fs.veto("create", name); err != nil {
		return nil, err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.release(name)
	f := &memFile{fs: fs}
	fs.files[name] = f
	return &memHandle{memFile: f, name: name}, nil
}

// release gives back the space of a file that loses its name.
func (fs *memFS) release(name string) {
	if f := fs.files[name]; f != nil {
		fs.free += int64(len(f.data))
		delete(fs.files, name)
	}
}

func (fs *memFS) Open(name string, _ bool) (File, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.files[name]
	if f == nil {
		return nil, os.ErrNotExist
	}
	return &memHandle{memFile: f, name: name}, nil
}

func (fs *memFS) Rename(from, to string) error {
	if err := fs.veto("rename", to); err != nil {
		return err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.release(to)
	fs.files[to] = fs.files[from]
	delete(fs.files, from)
	return nil
}

func (fs *memFS) Remove(name string) error {
	if err := fs.veto("remove", name); err != nil {
		return err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.release(name)
	return nil
}

func (fs *memFS) SyncDir(dir string) error {
	if err := fs.veto("syncdir", dir); err != nil {
		return err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for name := range fs.names {
		if fs.files[name] == nil {
			delete(fs.names, name)
		}
	}
	for name, f := range fs.files {
		fs.names[name] = f
	}
	return nil
}

func (fs *memFS) Lock(name string) (io.Closer, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.locked[name] {
		return nil, ErrLocked
	}
	fs.locked[name] = true
	return closerFunc(func() error {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		delete(fs.locked, name)
		return nil
	}), nil
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

// memHandle is an open file.
type memHandle struct {
	*memFile
	name   string
	closed bool
}

// change does what may not happen to a closed file, after asking.
func (h *memHandle) change(op string, do func() error) error {
	if err := h.fs.veto(op, h.name); err != nil && !errors.Is(err, errAfter) {
		return err
	} else if err != nil {
		return errors.Join(h.locked(do), err)
	}
	return h.locked(do)
}

// errAfter lets an operation happen and fail nevertheless.
var errAfter = errors.New("done, but failed")

func (h *memHandle) locked(do func() error) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return os.ErrClosed
	}
	return do()
}

func (h *memHandle) ReadAt(b []byte, at int64) (n int, err error) {
	err = h.locked(func() error {
		if at >= int64(len(h.data)) {
			return io.EOF
		}
		if n = copy(b, h.data[at:]); n < len(b) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

// WriteAt writes as much as there is space for.
func (h *memHandle) WriteAt(b []byte, at int64) (n int, err error) {
	err = h.change("write", func() error {
		var full error
		n = len(b)
		if grow := at + int64(n) - int64(len(h.data)); grow > h.fs.free {
			n, full = max(0, n-int(grow-h.fs.free)), unix.ENOSPC
		}
		if n > 0 {
			h.record(change{at, slices.Clone(b[:n])})
		}
		return full
	})
	return n, err
}

func (h *memHandle) Truncate(size int64) error {
	return h.change("truncate", func() error {
		h.record(change{at: size})
		return nil
	})
}

func (h *memHandle) Allocate(off, n int64) error {
	if h.fs.noAlloc {
		return errors.ErrUnsupported
	}
	return h.change("allocate", func() error {
		if off+n-int64(len(h.data)) > h.fs.free {
			return unix.ENOSPC
		}
		h.record(change{at: max(off+n, int64(len(h.data)))})
		return nil
	})
}

// record applies a change and accounts for the space.
func (h *memHandle) record(c change) {
	size := len(h.data)
	h.data = c.apply(h.data)
	h.fs.free -= int64(len(h.data) - size)
	h.since = append(h.since, c)
}

func (h *memHandle) Sync() error       { return h.sync("sync") }
func (h *memHandle) Datasync() error   { return h.sync("datasync") }
func (h *memHandle) Forget(_, _ int64) {}

func (h *memHandle) sync(op string) error {
	return h.change(op, func() error {
		for _, c := range h.since {
			h.durable = c.apply(h.durable)
		}
		h.since = nil
		return nil
	})
}

func (h *memHandle) Size() (size int64, err error) {
	err = h.locked(func() error { size = int64(len(h.data)); return nil })
	return size, err
}

func (h *memHandle) Close() error {
	return h.locked(func() error { h.closed = true; return nil })
}
