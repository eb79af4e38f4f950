package segment

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"muniment.example/pipeline"
)

// checkEvery and checkBytes limit Check to 32 MiB a second: it isn't urgent, and deliveries
// need the disk.
const (
	checkEvery = 31250 * time.Microsecond
	checkBytes = 1 << 20
)

// Check reads, slowly, the segments of which Open read only the index, and checks every byte
// of them as Open does without one. It fails with pipeline.ErrDamaged if a record that was
// acknowledged can't be read; the next Open reads that segment and refuses the log.
// Segments that are removed meanwhile are skipped.
func (l *Log) Check(ctx context.Context) error {
	l.Reader.mu.RLock()
	segs := slices.Clone(l.segs)
	l.Reader.mu.RUnlock()
	v := l.view(nil, 0, readAhead)
	defer l.views.Put(v)
	for i, s := range segs {
		if !s.indexed {
			continue
		}
		*v = view{file: s.file, limit: s.pos, ahead: readAhead, buf: v.buf[:0]}
		err := s.check(ctx, v, segs[i+1].chain)
		if err != nil && !errors.Is(err, pipeline.ErrDamaged) && ctx.Err() == nil {
			err = l.fault(s, 0, err)
		}
		switch {
		case errors.Is(err, pipeline.ErrGone):
			continue
		case errors.Is(err, pipeline.ErrDamaged):
			_ = l.cfg.FS.Remove(filepath.Join(l.cfg.Dir, s.indexName()))
		}
		if err != nil {
			return err
		}
		s.file.Forget(0, s.pos)
	}
	return nil
}

// check reads a finished segment, whose last group has this hash.
func (s *segment) check(ctx context.Context, v *view, last digest) error {
	chain, offset, paused := s.chain, s.first, int64(0)
	for pos := int64(fileHeaderSize); pos < s.pos; {
		h, raw, err := v.group(pos, s.salt)
		if errors.Is(err, errNoGroup) {
			return s.unreadable(pos, err)
		}
		if err != nil {
			return err
		}
		if h.first != offset || h.chain != chain {
			return s.damaged(pos, "does not continue the group before")
		}
		chain, offset, pos = s.link(raw), offset+int64(h.count), pos+h.size()
		if pos-paused < checkBytes {
			continue
		}
		paused = pos
		if err := pipeline.Pause(ctx, checkEvery); err != nil {
			return err
		}
	}
	if chain != last || offset != s.end {
		return s.damaged(s.pos, "is not the end that the next segment continues")
	}
	return nil
}
