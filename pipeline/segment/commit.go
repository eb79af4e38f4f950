package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// group is the records that one sync makes durable.
type group struct {
	buf   []byte // space for the group's header, then the records; under Log.mu until taken
	count int
	probe bool          // it has no records: a Writable waits for it
	ends  bool          // the last segment ends before it
	taken chan struct{} // closed when nothing is added any more

	// Valid once done is closed.
	done  chan struct{}
	first sealer.Position
	err   error
}

// recordOverhead is the most that AppendRecord adds to the fields of a record:
// a version, five lengths and two numbers.
const recordOverhead = 1 + 7*10

// probeBytes is the space that a probe wants: more than the record of the largest delivery, whose body has
// 64 KiB. With small segments it is half of one.
const probeBytes = 128 << 10

// newGroup makes a group that uses buf.
func newGroup(buf []byte) *group {
	return &group{
		buf:   append(buf[:0], make([]byte, groupHeaderSize)...),
		taken: make(chan struct{}),
		done:  make(chan struct{}),
	}
}

func (g *group) add(r *sealer.Record) {
	start := len(g.buf)
	g.buf = beginRecord(g.buf)
	g.buf = sealer.AppendRecord(g.buf, r)
	finishRecord(g.buf, start)
	g.count++
}

var (
	// errSync marks the failure of a sync, after which the file's contents are unknown.
	errSync = errors.New("sync failed")
	// errMaxBytes is a full log on a disk that is not.
	errMaxBytes = errors.New("the next segment would exceed MaxBytes")
)

// run is the committer. It ends when the log was closed and all is written, or
// when it failed.
func (l *Log) run() {
	failure := l.commitAll()
	close(l.stopped)
	if failure != nil {
		l.cfg.OnFailure(failure)
	}
}

func (l *Log) commitAll() (failure error) {
	for g := l.take(); g != nil; g = l.take() {
		err := l.commit(g)
		if errors.Is(err, pipeline.ErrFailed) {
			return err
		}
		if !g.probe {
			l.mu.Lock()
			l.spare = g.buf
			l.mu.Unlock()
		}
	}
	if l.clean {
		return nil
	}
	err := l.commit(newGroup(nil))
	if errors.Is(err, pipeline.ErrFull) {
		return nil // without the mark nothing is lost
	}
	l.closeErr = err
	return nil
}

// take waits for records and takes them, all that have gathered, but a probe first; nil when the
// log is closed and none are left.
func (l *Log) take() *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.pending.count == 0 && l.probe == nil && !l.closing && !l.ending {
		l.work.Wait()
	}
	if g := l.probe; g != nil {
		l.probe = nil
		return g
	}
	if l.pending.count == 0 && l.closing {
		return nil
	}
	if l.cfg.Lazy {
		// Callers that are ready to run add their records first. Without a sync they would have
		// no time to: the committer, woken by the first of them, would write each record alone.
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	g := l.pending
	g.ends, l.ending = l.ending, false
	l.pending = newGroup(l.spare)
	l.spare = nil
	close(g.taken)
	return g
}

// commit makes a group durable and ends the calls that wait for it, with its error:
// pipeline.ErrFull, or pipeline.ErrFailed, which is permanent.
func (l *Log) commit(g *group) error {
	h, err := l.write(g)
	switch {
	case err == nil:
		g.first = l.publish(&h)
		if l.full {
			l.full = false
			l.metrics.full.Set(0)
			l.cfg.Log.Info("log is no longer full", "end", l.end.String())
		}
		close(g.done)
		// Hashed while the callers prepare the next group.
		l.chain, l.clean = l.tail.link(g.buf), false
		l.forget(l.tail.pos)
	case !errors.Is(err, errSync) && (isExhausted(err) || errors.Is(err, errMaxBytes)):
		g.err = fmt.Errorf("%w: %w", pipeline.ErrFull, err)
		if g.count > 0 {
			l.metrics.failures.WithLabelValues("full").Inc()
		}
		if !l.full {
			l.full = true
			l.metrics.full.Set(1)
			l.cfg.Log.Warn("log is full", "err", err)
		}
		close(g.done)
	default:
		g.err = fmt.Errorf("%w: %w", pipeline.ErrFailed, err)
		l.metrics.failures.WithLabelValues("failed").Inc()
		l.cfg.Log.Error("log has failed", "err", err)
		l.fail(g.err)
		close(g.done)
	}
	return g.err
}

// write puts the group behind the last one and syncs it.
func (l *Log) write(g *group) (groupHeader, error) {
	if err := l.ensureSpace(g); err != nil {
		return groupHeader{}, err
	}
	s := l.tail
	h := groupHeader{
		body:    len(g.buf) - groupHeaderSize,
		count:   g.count,
		salt:    s.salt,
		first:   s.end,
		written: l.cfg.Now().UnixMilli(),
		chain:   l.chain,
	}
	h.put(g.buf)
	if l.noAlloc && g.probe {
		// Nothing is allocated ahead: only a write shows whether there is space.
		if _, err := s.file.WriteAt(make([]byte, l.space(g)), s.pos); isExhausted(err) {
			return h, l.rewind(err)
		} else if err != nil {
			return h, err
		}
	}
	if _, err := s.file.WriteAt(g.buf, s.pos); err != nil {
		if isExhausted(err) {
			return h, l.rewind(err)
		}
		return h, err
	}
	started := time.Now()
	if err := s.file.Datasync(); err != nil {
		return h, fmt.Errorf("%w: %w", errSync, err)
	}
	l.metrics.sync.Observe(time.Since(started).Seconds())
	l.metrics.records.Observe(float64(g.count))
	return h, nil
}

// rewind removes, durably, what a failed write left behind the last group: it may be a whole
// group, whose appends fail. It returns cause, the error of that write.
func (l *Log) rewind(cause error) error {
	s := l.tail
	if err := s.file.Truncate(s.pos); err != nil {
		return fmt.Errorf("%w: cannot cut after %w: %w", errSync, cause, err)
	}
	l.resize(s, s.pos)
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("%w: after %w: %w", errSync, cause, err)
	}
	return cause
}

// space is how many bytes a group wants in a segment.
func (l *Log) space(g *group) int64 {
	if g.probe {
		return min(probeBytes, l.cfg.SegmentBytes/2)
	}
	return int64(len(g.buf))
}

// ensureSpace makes the last segment one that can take the group: not full, and with its
// space allocated. The mark of a shutdown always fits.
func (l *Log) ensureSpace(g *group) error {
	s := l.tail
	end := s.pos + l.space(g)
	if (end > l.cfg.SegmentBytes && (g.count > 0 || g.probe) || g.ends) && s.end > s.first {
		return l.roll(s.generation)
	}
	if want := max(l.cfg.SegmentBytes, end); s.size < want && !l.noAlloc {
		if err := l.allocate(s.file, s.size, want); err != nil {
			return err
		}
		if !l.noAlloc {
			l.resize(s, want)
		}
	}
	return nil
}

func (l *Log) allocate(f File, from, to int64) error {
	err := f.Allocate(from, to-from)
	if errors.Is(err, errors.ErrUnsupported) {
		l.noAlloc = true
		return nil
	}
	return err
}

// roll begins a new segment.
func (l *Log) roll(generation uint32) error {
	s, err := l.create(generation)
	if err != nil {
		return err
	}
	l.Reader.mu.Lock()
	l.segs = append(l.segs, s)
	l.end = s.position(s.end)
	l.Reader.mu.Unlock()
	if l.tail != nil {
		l.forget(l.tail.size + forgetStep) // all that is left
	}
	if l.before, l.forgot = l.tail, 0; l.before != nil {
		l.writeIndex(l.before, s.chain)
	}
	l.tail, l.clean = s, false
	l.metrics.bytes.Set(float64(l.size()))
	return nil
}

// forgetStep is how much is forgotten at a time.
const forgetStep = 4 << 20

// forget removes the segment before the last from the page cache, up to an offset in the
// file, in steps too small to delay appends. The loader still finds what it reads, and new
// records get pages that were in use a moment ago: a fresh page costs time, most of all on a
// virtual machine that has never touched it.
func (l *Log) forget(to int64) {
	if l.before != nil && to-l.forgot >= forgetStep {
		l.before.file.Forget(l.forgot, to-l.forgot)
		l.forgot = to
	}
}

// create makes the segment that follows the last one. It has its name only once
// its header is durable.
func (l *Log) create(generation uint32) (s *segment, err error) {
	if l.cfg.MaxBytes > 0 && l.size()+l.cfg.SegmentBytes > l.cfg.MaxBytes {
		return nil, errMaxBytes
	}
	h := fileHeader{version: chained, generation: generation, salt: newSalt(), chain: l.chain}
	if l.cfg.Lazy {
		h.version = unchained
	}
	if l.tail != nil {
		h.first = l.tail.end
	}
	unnamed := filepath.Join(l.cfg.Dir, unnamedFile)
	f, err := l.cfg.FS.Create(unnamed)
	if err != nil {
		return nil, fmt.Errorf("cannot create segment: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
			l.cfg.FS.Remove(unnamed)
		}
	}()
	if err := l.allocate(f, 0, l.cfg.SegmentBytes); err != nil {
		return nil, fmt.Errorf("cannot allocate segment: %w", err)
	}
	if _, err := f.WriteAt(h.encode(), 0); err != nil {
		return nil, fmt.Errorf("cannot write segment header: %w", err)
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("%w: segment header: %w", errSync, err)
	}
	if err := l.cfg.FS.Rename(unnamed, filepath.Join(l.cfg.Dir, h.name())); err != nil {
		return nil, fmt.Errorf("cannot name segment: %w", err)
	}
	if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
		return nil, fmt.Errorf("%w: log folder: %w", errSync, err)
	}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return &segment{fileHeader: h, file: f, end: h.first, pos: fileHeaderSize, size: size}, nil
}

// publish makes the group that was just synced visible to readers.
func (l *Log) publish(h *groupHeader) (first sealer.Position) {
	l.Reader.mu.Lock()
	defer l.Reader.mu.Unlock()
	l.tail.grow(h)
	first = l.end
	l.end = l.tail.position(l.tail.end)
	l.wake()
	l.metrics.end.Set(float64(l.end.Offset))
	return first
}

// resize records the size of the last file.
func (l *Log) resize(s *segment, size int64) {
	l.Reader.mu.Lock()
	s.size = size
	l.Reader.mu.Unlock()
	l.metrics.bytes.Set(float64(l.size()))
}

// size is that of all files.
func (l *Log) size() (n int64) {
	l.Reader.mu.RLock()
	defer l.Reader.mu.RUnlock()
	for _, s := range l.segs {
		n += s.size
	}
	return n
}

// fail refuses every Append from now on, the pending ones first.
func (l *Log) fail(why error) {
	l.mu.Lock()
	l.refuse = why
	l.pending.err = why
	close(l.pending.taken)
	close(l.pending.done)
	if l.probe != nil {
		l.probe.err = why
		close(l.probe.done)
	}
	l.mu.Unlock()

	l.Reader.mu.Lock()
	l.stop(why)
	l.Reader.mu.Unlock()
}
