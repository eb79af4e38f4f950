package segment

import (
	"fmt"
	"path/filepath"
	"time"

	"muniment/pipeline"
	"muniment/sealer"
)

// Retain removes the oldest segments, wholly or not at all: those whose records
// all stand before the position and were written before the moment. The segment
// that is appended to always stays. It returns how many it removed; what they held
// is pipeline.ErrGone from then on, also to a Scan that is under way.
//
// An error leaves the log without a gap; a segment that could not be removed turns
// up again at the next Open.
func (l *Log) Retain(before sealer.Position, until time.Time) (removed int, err error) {
	l.retaining.Lock()
	defer l.retaining.Unlock()
	for {
		one, err := l.removeOldest(func(s *segment) bool {
			return s.position(s.end).Compare(before) <= 0 && s.last < until.UnixMilli()
		})
		if err != nil || !one {
			return removed, err
		}
		removed++
	}
}

// Shed removes the oldest segment, whatever it holds, to make room in a log that is
// full: for one whose newest records are worth more than its oldest. It returns false
// if there is none but the one that is appended to. Errors are Retain's.
func (l *Log) Shed() (removed bool, err error) {
	l.retaining.Lock()
	defer l.retaining.Unlock()
	return l.removeOldest(func(*segment) bool { return true })
}

// removeOldest removes the oldest segment if it may go. The caller holds l.retaining.
func (l *Log) removeOldest(may func(*segment) bool) (removed bool, err error) {
	s, err := l.dropOldest(may)
	if s == nil {
		return false, err
	}
	l.metrics.bytes.Set(float64(l.size()))
	s.file.Close()
	if l.cfg.Indexed {
		_ = l.cfg.FS.Remove(filepath.Join(l.cfg.Dir, s.indexName())) // one that is left behind goes at the next Open
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
