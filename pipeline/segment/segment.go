package segment

import (
	"errors"
	"fmt"
	"sort"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// markEvery is how far apart, in bytes, two entries of a segment's index stand at
// least; a group is never split, so it may be more.
const markEvery = 16 << 10

// segment is one file of the log, open for as long as the log holds it.
type segment struct {
	fileHeader
	file File
	// indexed: Open has read its index alone.
	indexed bool

	// All below grows while the file is the last one, under Reader.mu.

	end   int64 // offset behind the last durable record
	pos   int64 // place in the file behind the last durable group
	size  int64 // of the file, preallocation included
	begun int64 // milliseconds since 1970 of the first group with a record, 0 without any; of the last file only
	last  int64 // of the newest group
	marks []mark
}

// mark says where in the file the group with a record stands.
type mark struct {
	offset int64 // of the group's first record
	pos    int64
}

// grow adds the group at s.pos, which is durable now.
func (s *segment) grow(h *groupHeader) {
	if n := len(s.marks); n == 0 || s.pos-s.marks[n-1].pos >= markEvery {
		s.marks = append(s.marks, mark{offset: h.first, pos: s.pos})
	}
	s.end = h.first + int64(h.count)
	s.pos += h.size()
	s.size = max(s.size, s.pos)
	s.last = h.written
	if s.begun == 0 && h.count > 0 {
		s.begun = h.written
	}
}

// around returns the range of the file that holds the record at an offset of the segment.
// It begins with a group.
func (s *segment) around(offset int64) (from, to int64) {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].offset > offset })
	from, to = s.marks[i-1].pos, s.pos
	if i < len(s.marks) {
		to = s.marks[i].pos
	}
	return from, to
}

func (s *segment) position(offset int64) sealer.Position {
	return sealer.Position{Generation: s.generation, Offset: offset}
}

// damaged is the error for damage at a place in the file.
func (s *segment) damaged(pos int64, what string) error {
	return fmt.Errorf("%w: %s at byte %d: %s", pipeline.ErrDamaged, s.name(), pos, what)
}

// unreadable is the error for a failed read: damage if the bytes are wrong, or the cause.
func (s *segment) unreadable(pos int64, err error) error {
	if errors.Is(err, errNoGroup) {
		return s.damaged(pos, err.Error())
	}
	return fmt.Errorf("cannot read %s at byte %d: %w", s.name(), pos, err)
}
