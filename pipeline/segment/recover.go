package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// recovered is what a folder holds, read and checked from the first byte to the last,
// except for segments with an index. Nothing was changed.
type recovered struct {
	segs []*segment // oldest first
	// chain is the hash of the last group, clean whether it marks a shutdown.
	chain digest
	clean bool
	// tailAt is where the last group of the last segment begins.
	tailAt int64
	// torn is how many bytes behind the last group of the last segment have to be
	// cut off: the remains of a group that never became durable.
	torn int64
}

// readAhead is the buffer for reading a log from end to end.
const readAhead = 256 << 10

// load reads and checks the log of a folder, which may have none. Of segments with an index
// it reads that.
func load(cfg *Config, readOnly bool) (r *recovered, err error) {
	names, err := cfg.FS.List(cfg.Dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !isSegmentName(name) })
	r = &recovered{}
	defer func() {
		if err != nil {
			closeAll(r.segs)
		}
	}()
	v := &view{ahead: readAhead}
	for i, name := range names {
		if r.torn > 0 {
			s := r.segs[len(r.segs)-1]
			return r, s.damaged(s.pos, errNoGroup.Error()+", though another segment follows")
		}
		if err := r.add(cfg, name, readOnly, i < len(names)-1, v); err != nil {
			return r, err
		}
	}
	return r, nil
}

// add opens the next segment, links it to the one before and checks its groups, or reads
// its index if another segment follows it.
func (r *recovered) add(cfg *Config, name string, readOnly, finished bool, v *view) error {
	f, err := cfg.FS.Open(filepath.Join(cfg.Dir, name), readOnly)
	if err != nil {
		return err
	}
	s := &segment{file: f}
	r.segs = append(r.segs, s)
	if s.size, err = f.Size(); err != nil {
		return err
	}
	*v = view{file: f, limit: s.size, ahead: readAhead, buf: v.buf[:0]}

	b, err := v.bytes(0, fileHeaderSize)
	if err == nil {
		s.fileHeader, err = parseFileHeader(b)
	} else if !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	if errors.Is(err, errNewer) {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	// A file gets its name after its header is durable, so this is never a tear.
	if err != nil {
		return fmt.Errorf("%w: %s at byte 0: %w", pipeline.ErrDamaged, name, err)
	}
	if s.name() != name {
		return fmt.Errorf("%w: %s at byte 0: the header is that of %s", pipeline.ErrDamaged, name, s.name())
	}
	if n := len(r.segs); n > 1 {
		prev := r.segs[n-2]
		if s.first != prev.end || s.chain != r.chain {
			return s.damaged(0, fmt.Sprintf("does not continue %s, which ends at offset %d", prev.name(), prev.end))
		}
	}
	if finished {
		if chain, err := s.readIndex(cfg, v); err == nil {
			r.chain, s.indexed = chain, true
			return nil
		}
	}
	return r.walk(s, v)
}

// walk checks the groups of a segment up to its zeros or up to what can't be
// read, which is either a torn tail or damage.
func (r *recovered) walk(s *segment, v *view) error {
	s.end, s.pos, s.begun, s.last, s.marks = s.first, fileHeaderSize, 0, 0, nil
	r.chain, r.clean, r.tailAt = s.chain, false, s.pos
	for {
		h, raw, err := v.group(s.pos, s.salt)
		if errors.Is(err, errNoGroup) {
			behind, tailErr := r.tail(s, v)
			if behind == 0 || tailErr != nil {
				return tailErr
			}
			// Where another process appends, the group may have become whole since.
			v.forget()
			if h, raw, err = v.group(s.pos, s.salt); errors.Is(err, errNoGroup) {
				return s.damaged(s.pos, fmt.Sprintf("%v, though one follows at byte %d", err, behind))
			}
		}
		if err != nil {
			return s.unreadable(s.pos, err)
		}
		if h.first != s.end || h.chain != r.chain {
			return s.damaged(s.pos, fmt.Sprintf("does not continue the group before, which ends at offset %d", s.end))
		}
		r.chain, r.clean, r.tailAt = s.link(raw), h.count == 0, s.pos
		s.grow(&h)
	}
}

// tail examines what is behind the last readable group: zeros, the remains of a group that
// was never acknowledged, or another group. Then it returns that group's place in the file,
// and the log is damaged.
func (r *recovered) tail(s *segment, v *view) (behind int64, err error) {
	blank := true
	for pos := s.pos; pos < s.size; {
		b, err := v.bytes(pos, int(min(readAhead, s.size-pos)))
		if err != nil {
			return 0, s.unreadable(pos, err)
		}
		blank = blank && bytes.Count(b, []byte{0}) == len(b)
		if at := findGroup(b[1:], s.salt); at >= 0 {
			return pos + 1 + int64(at), nil
		}
		if pos += int64(len(b)); pos < s.size {
			pos -= groupHeaderSize // a header may lie across the edge
		}
	}
	if !blank {
		r.torn = s.size - s.pos
	}
	return 0, nil
}

// findGroup finds a group header of a file anywhere in b, or returns −1.
func findGroup(b []byte, salt uint64) int {
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], []byte(groupMagic))
		if i < 0 || at+i+groupHeaderSize > len(b) {
			return -1
		}
		at += i
		if _, ok := parseGroupHeader(b[at:at+groupHeaderSize], salt); ok {
			return at
		}
	}
}

// checkEnd refuses a log that is shorter than it once was.
func (r *recovered) checkEnd(cfg Config) error {
	end := sealer.Position{Generation: cfg.Generation}
	where := "it is empty"
	if n := len(r.segs); n > 0 {
		s := r.segs[n-1]
		end = sealer.Position{Generation: max(s.generation, cfg.Generation), Offset: s.end}
		where = fmt.Sprintf("%s ends at byte %d", s.name(), s.pos)
		if r.torn > 0 {
			where += fmt.Sprintf(", before %d bytes that are not a group", r.torn)
		}
	}
	if cfg.AtLeast != nil && end.Compare(*cfg.AtLeast) < 0 {
		return fmt.Errorf("%w: it ends at %s, but once ended at %s (%s)", ErrRollback, end, cfg.AtLeast, where)
	}
	return nil
}

// settle cuts a torn tail and makes what was found durable. The previous process may have
// died between a write and its sync, or of a failed sync after which the kernel takes its
// pages for clean: so the last group is written once more, over itself, before the sync.
func (r *recovered) settle(cfg Config) error {
	if len(r.segs) == 0 {
		return nil
	}
	s := r.segs[len(r.segs)-1]
	if r.torn > 0 {
		cfg.Log.Warn("cut a torn tail off the log", "file", s.name(), "byte", s.pos, "bytes", r.torn, "end", s.position(s.end).String())
		if err := s.file.Truncate(s.pos); err != nil {
			return fmt.Errorf("cannot cut torn tail: %w", err)
		}
		s.size = s.pos
	}
	if group := make([]byte, s.pos-r.tailAt); len(group) > 0 {
		if _, err := s.file.ReadAt(group, r.tailAt); err != nil {
			return fmt.Errorf("cannot read last group: %w", err)
		}
		if _, err := s.file.WriteAt(group, r.tailAt); err != nil {
			return fmt.Errorf("cannot write last group again: %w", err)
		}
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("cannot sync last segment: %w", err)
	}
	if err := cfg.FS.SyncDir(cfg.Dir); err != nil {
		return fmt.Errorf("cannot sync log folder: %w", err)
	}
	return nil
}

func closeAll(segs []*segment) {
	for _, s := range segs {
		s.file.Close()
	}
}

// removeAll removes the segments of a folder, whatever is in them, and their indexes.
func removeAll(fs FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, index := isIndexName(name); !index && !isSegmentName(name) {
			continue
		}
		if err := fs.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
