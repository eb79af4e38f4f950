package segment

import (
	"fmt"
	"path/filepath"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Retain removes the oldest segments, in whole: those whose records all stand before the
// position and were written before the moment. The segment that is appended to is never
// removed. It returns how many it removed; what they held is pipeline.ErrGone from then on,
// also to a Scan that is under way.
//
// An error leaves the log without a gap; a segment that could not be removed is there again
// after the next Open.
func (l *Log) Retain(before sealer.Position, until time.Time) (removed int, err error) {
	l.retaining.Lock()
	defer l.retaining.Unlock()
	for {
		one, err := l.removeOldestIf(func(s *segment) bool {
			return s.position(s.end).Compare(before) <= 0 && s.last < until.UnixMilli()
		})
		if err != nil || !one {
			return removed, err
		}
		removed++
	}
}

// EndBefore ends the segment that is appended to, soon, if its first record was written before
// a moment. Segments are removed in whole, and that one never: in a log with few appends it
// would hold old records for ever.
func (l *Log) EndBefore(moment time.Time) {
	l.Reader.mu.Lock()
	s := l.segs[len(l.segs)-1]
	due := s.begun != 0 && s.begun < moment.UnixMilli()
	l.Reader.mu.Unlock()
	if !due {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	l.work.Signal()
}

// RemoveOldest removes the oldest segment, whatever it holds, for a full log whose newest
// records are worth more than its oldest. It returns false if there is none but the one
// that is appended to. Errors are Retain's.
func (l *Log) RemoveOldest() (removed bool, err error) {
	l.retaining.Lock()
	defer l.retaining.Unlock()
	return l.removeOldestIf(func(*segment) bool { return true })
}

// removeOldestIf removes the oldest segment if it may go. The caller holds l.retaining.
func (l *Log) removeOldestIf(may func(*segment) bool) (removed bool, err error) {
	s, err := l.dropOldest(may)
	if s == nil {
		return false, err
	}
	l.metrics.bytes.Set(float64(l.size()))
	s.file.Close()
	if l.cfg.Indexed {
		_ = l.cfg.FS.Remove(filepath.Join(l.cfg.Dir, s.indexName())) // the next Open removes one that is left
	}
	if err := l.cfg.FS.Remove(filepath.Join(l.cfg.Dir, s.name())); err != nil {
		return false, fmt.Errorf("cannot remove segment: %w", err)
	}
	// One by one: two removals in the wrong order would be a gap after a crash.
	if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
		return false, fmt.Errorf("cannot remove segment %s: %w", s.name(), err)
	}
	l.metrics.removed.Inc()
	return true, nil
}

// dropOldest takes the oldest segment out of the log if it may go, or returns nil.
func (l *Log) dropOldest(may func(*segment) bool) (*segment, error) {
	l.Reader.mu.Lock()
	defer l.Reader.mu.Unlock()
	if l.Reader.closed {
		return nil, pipeline.ErrClosed
	}
	s := l.segs[0]
	if len(l.segs) == 1 || !may(s) {
		return nil, nil
	}
	l.segs = l.segs[1:]
	l.metrics.first.Set(float64(s.end))
	return s, nil
}
