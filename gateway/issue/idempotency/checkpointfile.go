package idempotency

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"muniment.example/sealer"
)

// # The format of a checkpoint
//
// A file lists the Idempotency-Keys in a span of the node's log. It is named by the
// generation and the offset at which the span begins, in decimal with leading zeros:
//
//	0000000001-00000000000000032768.keys
//
// Numbers are little-endian and unsigned.
//
//	     0   8  magic "muniidem"
//	     8   4  version, 1
//	    12   4  generation of all records of the span
//	    16   8  offset of the first record
//	    24   8  offset behind the last record
//	    32  32  SHA-256 of the last record's event
//	    64   4  second when that was issued, Unix time
//	    68   4  number n of keys
//	    72 24n  keys, in the order of their offsets: the first 16 bytes of
//	            SHA-256(tenantId ‖ 0 ‖ key), the offset of the event from that of the first
//	            record (4), the second of issue (4)
//	72+24n   4  CRC-32C of all bytes before
//
// Each event has a random id, and a log only grows: where the last record of the span
// stands in a log, so do those before it. In an older copy that went on differently, another
// stands there, or none.
const (
	checkpointMagic      = "muniidem"
	checkpointVersion    = 1
	checkpointHeaderSize = 72
	checkpointKeySize    = 24
	checkpointSuffix     = ".keys"

	// maxCheckpoint is the most records of a span: an offset in it has 4 bytes.
	maxCheckpoint = 1 << 31
)

// checkpoint is what a file covers: the records of from ≤ position < to, of one generation.
type checkpoint struct {
	from, to sealer.Position
	last     [32]byte // hash of the last event
	second   uint32   // when that was issued
	keys     int
}

func (s *checkpoint) name() string {
	return fmt.Sprintf("%010d-%020d%s", s.from.Generation, s.from.Offset, checkpointSuffix)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode is the file of the span with these entries, which are its own and in order.
func (s *checkpoint) encode(entries []keptEntry) []byte {
	b := make([]byte, checkpointHeaderSize, checkpointHeaderSize+len(entries)*checkpointKeySize+4)
	copy(b, checkpointMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], checkpointVersion)
	le.PutUint32(b[12:], s.from.Generation)
	le.PutUint64(b[16:], uint64(s.from.Offset))
	le.PutUint64(b[24:], uint64(s.to.Offset))
	copy(b[32:], s.last[:])
	le.PutUint32(b[64:], s.second)
	le.PutUint32(b[68:], uint32(len(entries)))
	for i := range entries {
		e := &entries[i]
		b = append(b, e.key[:]...)
		b = le.AppendUint32(b, uint32(e.offset-s.from.Offset))
		b = le.AppendUint32(b, e.second)
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var errNoCheckpoint = errors.New("it is torn or altered, or of another program")

// readCheckpoint reads a file of a folder; keys are as they stand there.
func readCheckpoint(dir, name string) (s checkpoint, keys []byte, err error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return s, nil, err
	}
	le := binary.LittleEndian
	if len(b) < checkpointHeaderSize+4 || string(b[:8]) != checkpointMagic || le.Uint32(b[8:]) != checkpointVersion {
		return s, nil, errNoCheckpoint
	}
	b, sum := b[:len(b)-4], le.Uint32(b[len(b)-4:])
	s.from = sealer.Position{Generation: le.Uint32(b[12:]), Offset: int64(le.Uint64(b[16:]))}
	s.to = sealer.Position{Generation: s.from.Generation, Offset: int64(le.Uint64(b[24:]))}
	s.last, s.second, s.keys = [32]byte(b[32:64]), le.Uint32(b[64:]), int(le.Uint32(b[68:]))
	if sum != crc32.Checksum(b, castagnoli) || len(b) != checkpointHeaderSize+s.keys*checkpointKeySize || s.name() != name ||
		s.from.Offset < 0 || s.to.Offset <= s.from.Offset {
		return s, nil, errNoCheckpoint
	}
	return s, b[checkpointHeaderSize:], nil
}

// entry is the first of some keys of the span.
func (s *checkpoint) entry(keys []byte) keptEntry {
	le := binary.LittleEndian
	return keptEntry{claimKey(keys[:16]), Place{
		generation: s.from.Generation, offset: s.from.Offset + int64(le.Uint32(keys[16:])), second: le.Uint32(keys[20:]),
	}}
}

// checkpointNames are the files of a folder in the order of their checkpoints; none if it isn't
// there.
func checkpointNames(dir string) (names []string, err error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), checkpointSuffix) {
			names = append(names, f.Name())
		}
	}
	return names, err
}
