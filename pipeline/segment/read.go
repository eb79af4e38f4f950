package segment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"sync"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Reader reads a log. It keeps the files open and a sparse index of them in
// memory, about 16 bytes for every 16 KiB of log.
//
// What it serves was checked when the log was opened and is checked again as it
// is read: the records by their checksums, the groups by the chain of hashes.
type Reader struct {
	views sync.Pool // of *view, for Read and Scan

	mu      sync.RWMutex
	segs    []*segment // oldest first; none only in the Reader of an empty folder
	end     sealer.Position
	closed  bool
	stopped error         // why no record will follow, nil while some may
	grown   chan struct{} // closed at the next record; nil while no call waits
}

var (
	_ pipeline.Reader  = (*Reader)(nil)
	_ pipeline.Chained = (*Reader)(nil)
)

// OpenReader opens the log of a folder for reading only, also beside a process that appends
// to it. It takes no lock and changes nothing. The Reader has what was written before, but
// no torn tail, and nothing that is appended later. Segments that have an index (see
// Config.Indexed) are checked when they are read or copied.
func OpenReader(dir string) (*Reader, error) {
	r, err := load(&Config{FS: osFS{}, Dir: dir, Indexed: true}, true)
	if err != nil {
		return nil, fmt.Errorf("cannot read log %s: %w", dir, err)
	}
	reader := &Reader{}
	reader.start(r.segs)
	return reader, nil
}

// start sets the segments.
func (r *Reader) start(segs []*segment) {
	r.views.New = func() any { return new(view) }
	r.segs = segs
	r.end = sealer.Position{Generation: 1}
	if n := len(segs); n > 0 {
		r.end = segs[n-1].position(segs[n-1].end)
	}
}

// Close closes the files; calls that run fail with pipeline.ErrClosed.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.stop(pipeline.ErrClosed)
	var errs []error
	for _, s := range r.segs {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// stop ends waiting calls: no record will follow. The caller holds r.mu.
func (r *Reader) stop(why error) {
	if r.stopped == nil {
		r.stopped = why
	}
	r.wake()
}

// wake wakes waiting calls. The caller holds r.mu.
func (r *Reader) wake() {
	if r.grown != nil {
		close(r.grown)
		r.grown = nil
	}
}

// Partition is the one partition of a log in a folder.
const Partition = 0

// Partitions implements pipeline.Reader.
func (r *Reader) Partitions(context.Context) (int, error) { return Partition + 1, nil }

// PartitionOf implements pipeline.Reader.
func (r *Reader) PartitionOf(context.Context, string) (int32, error) { return Partition, nil }

// Bounds implements pipeline.Reader.
func (r *Reader) Bounds(_ context.Context, partition int32) (first, end sealer.Position, err error) {
	if err := checkPartition(partition); err != nil {
		return first, end, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return first, end, pipeline.ErrClosed
	}
	for _, s := range r.segs {
		if s.end > s.first {
			return s.position(s.first), r.end, nil
		}
	}
	return r.end, r.end, nil
}

// Read implements pipeline.Reader. It reads one stretch of one file: 16 KiB, or
// the group of the record if that is larger.
func (r *Reader) Read(_ context.Context, at sealer.Position) (e sealer.Entry, err error) {
	err = r.groupOf(at, func(s *segment, h *groupHeader, raw []byte) (err error) {
		var payload []byte
		for body, i := raw[groupHeaderSize:], h.first; i <= at.Offset; i++ {
			payload, body, _ = cutRecord(body)
		}
		e, err = s.entry(at.Offset, slices.Clone(payload))
		return err
	})
	return e, err
}

// Chain implements pipeline.Chained: it is the hash of the group with the record before the
// position. Each group contains the hash of the group before it, down to the first one of
// the log. The hash also commits to later records of that group, which became durable with it.
func (r *Reader) Chain(_ context.Context, at sealer.Position) (chain []byte, err error) {
	at.Offset--
	err = r.groupOf(at, func(s *segment, _ *groupHeader, raw []byte) error {
		if s.version == chained {
			sum := s.link(raw)
			chain = sum[:]
		}
		return nil
	})
	return chain, err
}

// groupOf calls fn with the group of the record at a position; raw is its header and body,
// valid during the call.
func (r *Reader) groupOf(at sealer.Position, fn func(s *segment, h *groupHeader, raw []byte) error) error {
	s, from, to, err := r.find(at)
	if err != nil {
		return err
	}
	v := r.view(s, to, int(to-from))
	defer r.views.Put(v)
	for pos := from; ; {
		h, err := v.header(pos, s.salt)
		if err != nil {
			return r.fault(s, pos, err)
		}
		if at.Offset >= h.first+int64(h.count) {
			pos += h.size()
			continue
		}
		h, raw, err := v.group(pos, s.salt)
		if err == nil && at.Offset < h.first {
			err = errNoGroup
		}
		if err != nil {
			return r.fault(s, pos, err)
		}
		return fn(s, &h, raw)
	}
}

// find locates the record at a position.
func (r *Reader) find(at sealer.Position) (s *segment, from, to int64, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, err := r.resolve(at); err != nil {
		return nil, 0, 0, err
	}
	if at.Offset >= r.end.Offset {
		return nil, 0, 0, fmt.Errorf("%w: %s, which ends at %s", pipeline.ErrBeyondEnd, at, r.end)
	}
	s = r.holding(at.Offset)
	if s.generation != at.Generation {
		return nil, 0, 0, fmt.Errorf("%w: %s", pipeline.ErrGone, at)
	}
	from, to = s.around(at.Offset)
	return s, from, to, nil
}

// resolve converts a position to an offset from the first that is held up to the
// end. The end of a generation is the beginning of the next one. The caller
// holds r.mu.
func (r *Reader) resolve(at sealer.Position) (int64, error) {
	if err := checkPartition(at.Partition); err != nil {
		return 0, err
	}
	if r.closed {
		return 0, pipeline.ErrClosed
	}
	if at.Generation > r.end.Generation || at.Generation == r.end.Generation && at.Offset > r.end.Offset {
		return 0, fmt.Errorf("%w: %s, which ends at %s", pipeline.ErrBeyondEnd, at, r.end)
	}
	if at == r.end {
		return at.Offset, nil
	}
	i := sort.Search(len(r.segs), func(i int) bool { return r.segs[i].generation >= at.Generation })
	next := sort.Search(len(r.segs), func(i int) bool { return r.segs[i].generation > at.Generation })
	if i == next || at.Offset < r.segs[i].first || at.Offset > r.segs[next-1].end {
		return 0, fmt.Errorf("%w: %s", pipeline.ErrGone, at)
	}
	return at.Offset, nil
}

// holding returns the segment with the record at an offset between the first and
// the end. The caller holds r.mu.
func (r *Reader) holding(offset int64) *segment {
	i := sort.Search(len(r.segs), func(i int) bool { return r.segs[i].first > offset })
	return r.segs[i-1]
}

// Scan implements pipeline.Reader. A from behind the end is pipeline.ErrBeyondEnd: it is a
// position of a longer log.
func (r *Reader) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	r.mu.RLock()
	offset, err := r.resolve(from)
	limit := r.limit(to)
	r.mu.RUnlock()
	if err != nil {
		return err
	}
	v := r.view(nil, 0, readAhead)
	defer r.views.Put(v)
	scan := scan{Reader: r, view: v, limit: limit, fn: fn}
	for scan.next = offset; scan.next < limit; {
		if err := scan.segment(ctx); err != nil {
			return err
		}
	}
	return nil
}

// limit is the first offset at or behind to, or the end if that is lower. The caller holds
// r.mu.
func (r *Reader) limit(to sealer.Position) int64 {
	for _, s := range r.segs {
		if s.generation > to.Generation {
			return min(to.Offset, s.first)
		}
	}
	if to.Generation > r.end.Generation {
		return r.end.Offset
	}
	return min(to.Offset, r.end.Offset)
}

// scan is one call of Scan.
type scan struct {
	*Reader
	view  *view
	fn    func(sealer.Entry) error
	next  int64 // offset to call fn for
	limit int64

	// chain is the hash of the last group that was read, if linked.
	chain  digest
	linked bool
}

// segment calls fn for the records of the segment with s.next, up to its end or
// the limit.
func (s *scan) segment(ctx context.Context) error {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return pipeline.ErrClosed
	}
	if s.next < s.segs[0].first {
		s.mu.RUnlock()
		return fmt.Errorf("%w: offset %d", pipeline.ErrGone, s.next)
	}
	seg := s.holding(s.next)
	pos, _ := seg.around(s.next)
	end, limit := seg.pos, min(seg.end, s.limit)
	s.mu.RUnlock()

	if seg.first == s.next {
		if s.linked && s.chain != seg.chain {
			return seg.damaged(0, "does not continue the segment before")
		}
		s.chain, s.linked = seg.chain, true
	}
	*s.view = view{file: seg.file, limit: end, ahead: readAhead, buf: s.view.buf[:0]}
	// Up to the end, as a mark may be behind the last record.
	for want := int64(-1); pos < end && s.next < s.limit; {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, raw, err := s.view.group(pos, seg.salt)
		if err != nil {
			return s.fault(seg, pos, err)
		}
		if s.linked && s.chain != h.chain || want >= 0 && want != h.first {
			return seg.damaged(pos, "does not continue the group before")
		}
		want = h.first + int64(h.count)
		if err := s.group(seg, &h, raw); err != nil {
			return err
		}
		s.chain, s.linked = seg.link(raw), true
		pos += h.size()
	}
	if s.next < limit {
		return seg.damaged(pos, fmt.Sprintf("ends before offset %d", limit))
	}
	return nil
}

// group calls fn for the records of a group from s.next on.
func (s *scan) group(seg *segment, h *groupHeader, raw []byte) error {
	body := raw[groupHeaderSize:]
	for offset := h.first; offset < h.first+int64(h.count) && s.next < s.limit; offset++ {
		var payload []byte
		payload, body, _ = cutRecord(body)
		if offset < s.next {
			continue
		}
		e, err := seg.entry(offset, payload)
		if err != nil {
			return err
		}
		if err := s.fn(e); err != nil {
			return err
		}
		s.next++
	}
	return nil
}

// Wait implements pipeline.Reader. It fails with pipeline.ErrGone for a position
// at which nothing can stand any more, and with what stopped the log.
func (r *Reader) Wait(ctx context.Context, at sealer.Position) error {
	for {
		grown, err := r.await(at)
		if grown == nil {
			return err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// await returns a channel that is closed when there may be a record at the position, or nil
// if there is one or never will be.
func (r *Reader) await(at sealer.Position) (<-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch offset, err := r.resolve(at); {
	case err == nil && offset < r.end.Offset:
		return nil, nil
	case err != nil && !errors.Is(err, pipeline.ErrBeyondEnd):
		return nil, err
	case r.stopped != nil:
		return nil, r.stopped
	}
	if r.grown == nil {
		r.grown = make(chan struct{})
	}
	return r.grown, nil
}

// view takes a view of a segment from the pool.
func (r *Reader) view(s *segment, limit int64, ahead int) *view {
	v := r.views.Get().(*view)
	*v = view{limit: limit, ahead: ahead, buf: v.buf[:0]}
	if s != nil {
		v.file = s.file
	}
	return v
}

// fault is the error for a segment that could not be read; it may have been closed
// meanwhile.
func (r *Reader) fault(s *segment, pos int64, err error) error {
	if !errors.Is(err, os.ErrClosed) {
		return s.unreadable(pos, err)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return pipeline.ErrClosed
	}
	return fmt.Errorf("%w: %s was removed", pipeline.ErrGone, s.name())
}

// entry reads a payload whose checksum is right.
func (s *segment) entry(offset int64, payload []byte) (sealer.Entry, error) {
	rec, err := sealer.ParseRecord(payload)
	if err != nil {
		return sealer.Entry{}, fmt.Errorf("%w: %s, record %d: %w", pipeline.ErrDamaged, s.name(), offset, err)
	}
	return sealer.Entry{Position: s.position(offset), Record: rec}, nil
}

func checkPartition(p int32) error {
	if p != 0 {
		return fmt.Errorf("partition %d: this log has only partition 0", p)
	}
	return nil
}
