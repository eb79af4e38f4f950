package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
)

// # The index of a finished segment
//
// With Config.Indexed a segment that another one follows has an index: what reading it from
// end to end would find. Its file has the segment's name with another ending:
//
//	     0   8  magic "muniindx"
//	     8   4  version, 1
//	    12   4  number n of marks, at least 1
//	    16   8  salt of the segment
//	    24   8  run of the machine in which it was written; 0 where the segment was synced
//	    32   8  offset behind the last record
//	    40   8  where in the file the last group ends
//	    48   8  milliseconds since 1970 when the newest group was written
//	    56  32  hash of the last group, which the next file names
//	    88 16n  marks: the offset of a group's first record, and where in the file it begins
//	88+16n   4  crc of all bytes before
//
// Open reads the segment itself if the index is missing or torn, is of another file (by its
// salt), or names an end that isn't there. Therefore an index need not be synced, and a copy
// of a log needs none.
const (
	indexMagic      = "muniindx"
	indexVersion    = 1
	indexHeaderSize = 88
	indexMarkSize   = 16

	indexSuffix = ".idx"
	// unnamedIndex is an index in the making.
	unnamedIndex = "index.new"
)

var errNoIndex = errors.New("no index of this segment")

// indexName is the name of the segment's index.
func (h *fileHeader) indexName() string {
	return strings.TrimSuffix(h.name(), segmentSuffix) + indexSuffix
}

// isIndexName reports whether a file has the name of an index, and of which segment.
func isIndexName(name string) (segment string, ok bool) {
	stem, ok := strings.CutSuffix(name, indexSuffix)
	return stem + segmentSuffix, ok && isSegmentName(stem+segmentSuffix)
}

// encodeIndex is the index of a segment whose last group has this hash.
func (s *segment) encodeIndex(chain digest, run uint64) []byte {
	b := make([]byte, indexHeaderSize, indexHeaderSize+len(s.marks)*indexMarkSize+4)
	copy(b, indexMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], indexVersion)
	le.PutUint32(b[12:], uint32(len(s.marks)))
	le.PutUint64(b[16:], s.salt)
	le.PutUint64(b[24:], run)
	le.PutUint64(b[32:], uint64(s.end))
	le.PutUint64(b[40:], uint64(s.pos))
	le.PutUint64(b[48:], uint64(s.last))
	copy(b[56:], chain[:])
	for _, m := range s.marks {
		b = le.AppendUint64(b, uint64(m.offset))
		b = le.AppendUint64(b, uint64(m.pos))
	}
	return le.AppendUint32(b, crc32.Checksum(b, crcTable))
}

// decodeIndex fills the segment, whose header is known, and returns the hash of its last
// group.
func (s *segment) decodeIndex(b []byte, run uint64) (chain digest, err error) {
	le := binary.LittleEndian
	if len(b) < indexHeaderSize+indexMarkSize+4 || string(b[:8]) != indexMagic || le.Uint32(b[8:]) != indexVersion {
		return chain, errNoIndex
	}
	body := b[:len(b)-4]
	if le.Uint32(b[len(body):]) != crc32.Checksum(body, crcTable) ||
		int64(len(body)) != indexHeaderSize+int64(le.Uint32(b[12:]))*indexMarkSize ||
		le.Uint64(b[16:]) != s.salt || le.Uint64(b[24:]) != run {
		return chain, errNoIndex
	}
	s.end, s.pos, s.last = int64(le.Uint64(b[32:])), int64(le.Uint64(b[40:])), int64(le.Uint64(b[48:]))
	s.marks = make([]mark, 0, le.Uint32(b[12:]))
	for at := body[indexHeaderSize:]; len(at) > 0; at = at[indexMarkSize:] {
		s.marks = append(s.marks, mark{offset: int64(le.Uint64(at)), pos: int64(le.Uint64(at[8:]))})
	}
	return digest(b[56:88]), nil
}

// run is the machine's boot as an index names it; ok is false if indexes can't be used, as
// it is unknown what was synced.
func (c *Config) run() (run uint64, ok bool) {
	if !c.Lazy {
		return 0, c.Indexed
	}
	run = c.FS.Run()
	return run, c.Indexed && run != 0
}

// writeIndex writes the index of a finished segment whose last group has this hash. An
// error is only logged: without an index the next Open reads the segment.
func (l *Log) writeIndex(s *segment, chain digest) {
	run, ok := l.cfg.run()
	if !ok || len(s.marks) == 0 {
		return
	}
	err := func() error {
		unnamed := filepath.Join(l.cfg.Dir, unnamedIndex)
		f, err := l.cfg.FS.Create(unnamed)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(s.encodeIndex(chain, run), 0)
		if err = errors.Join(err, f.Close()); err == nil {
			err = l.cfg.FS.Rename(unnamed, filepath.Join(l.cfg.Dir, s.indexName()))
		}
		if err != nil {
			_ = l.cfg.FS.Remove(unnamed)
		}
		return err
	}()
	if err != nil {
		l.cfg.Log.Warn("cannot keep the index of a segment: the next start reads all of it", "file", s.name(), "err", err)
	}
}

// readIndex fills a finished segment from its index, and returns the hash of its last group.
// Of the segment it reads only the last groups.
func (s *segment) readIndex(cfg *Config, v *view) (chain digest, err error) {
	run, ok := cfg.run()
	if !ok {
		return chain, errNoIndex
	}
	f, err := cfg.FS.Open(filepath.Join(cfg.Dir, s.indexName()), true)
	if err != nil {
		return chain, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return chain, err
	}
	if most := indexHeaderSize + (s.size/markEvery+1)*indexMarkSize + 4; size > most {
		return chain, errNoIndex
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return chain, err
	}
	if chain, err = s.decodeIndex(b, run); err != nil {
		return chain, err
	}
	last := s.marks[len(s.marks)-1]
	offset, pos := last.offset, last.pos
	var found digest
	for pos < s.pos {
		h, raw, err := v.group(pos, s.salt)
		if err != nil {
			return chain, err
		}
		if h.first != offset || pos > last.pos && h.chain != found {
			return chain, errNoIndex
		}
		found, offset, pos = s.link(raw), offset+int64(h.count), pos+h.size()
	}
	if pos != s.pos || offset != s.end || found != chain {
		return chain, fmt.Errorf("%w: its end is elsewhere", errNoIndex)
	}
	return chain, nil
}

// index writes missing indexes, and removes those whose segment is gone or is the last one:
// after the segment behind it was lost, it isn't finished any more.
func (l *Log) index() {
	if !l.cfg.Indexed {
		return
	}
	for i, s := range l.segs[:len(l.segs)-1] {
		if !s.indexed {
			l.writeIndex(s, l.segs[i+1].chain)
		}
	}
	names, _ := l.cfg.FS.List(l.cfg.Dir)
	for _, name := range names {
		if of, ok := isIndexName(name); ok && (of == l.tail.name() || !slices.Contains(names, of)) {
			_ = l.cfg.FS.Remove(filepath.Join(l.cfg.Dir, name))
		}
	}
}
