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
		s, err := l.dropOldest(before, until)
		if s == nil {
			return removed, err
		}
		l.metrics.bytes.Set(float64(l.size()))
		s.file.Close()
		if err := l.cfg.FS.Remove(filepath.Join(l.cfg.Dir, s.name())); err != nil {
			return removed, fmt.Errorf("cannot remove segment: %w", err)
		}
		// One by one: two removals in the wrong order would be a gap after a crash.
		if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
			return removed, fmt.Errorf("cannot remove segment %s: %w", s.name(), err)
		}
		removed++
		l.metrics.removed.Inc()
	}
}

// dropOldest takes the oldest segment out of the log if it may go, or returns nil.
func (l *Log) dropOldest(before sealer.Position, until time.Time) (*segment, error) {
	l.Reader.mu.Lock()
	defer l.Reader.mu.Unlock()
	if l.Reader.closed {
		return nil, pipeline.ErrClosed
	}
	s := l.segs[0]
	if len(l.segs) == 1 || s.position(s.end).Compare(before) > 0 || s.last >= until.UnixMilli() {
		return nil, nil
	}
	l.segs = l.segs[1:]
	l.metrics.first.Set(float64(s.end))
	return s, nil
}
