package segment

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// # The format
//
// A log is a folder of segment files. Each is named by the generation and the
// offset of its first record, in decimal with leading zeros:
//
//	0000000001-00000000000000000000.seg
//
// so that the order of the names is the order of the records. Numbers in the
// files are little-endian and unsigned; crc is CRC-32C (Castagnoli) as in
// RFC 3720; a hash is SHA-256.
//
// A segment is one file header, then groups back to back, then zeros up to the
// end of the file, which may be none.
//
//	file header, 72 bytes
//	     0   8  magic "muniment"
//	     8   4  version: 1; 2 where no group is hashed, and zeros stand for the hash
//	    12   4  generation of all records in this file
//	    16   8  offset of the first record
//	    24   8  salt, random, of this file alone
//	    32  32  hash of the last group before this file, zeros if there is none
//	    64   4  zeros
//	    68   4  crc of bytes 0 to 67
//
//	group header, 72 bytes
//	     0   4  magic "MGRP"
//	     4   4  length of the body that follows this header
//	     8   4  number of records in the body; a group without any follows
//	           the last record at a clean shutdown, and wherever Writable was called
//	    12   8  salt of the file
//	    20   8  offset of the first record, or of the next one if there is none
//	    28   8  milliseconds since 1970 when the group was written
//	    36  32  hash of the group before, header and body; for the first group of a
//	            file, the hash in the file header
//	    68   4  crc of bytes 0 to 67
//
//	record
//	     0   4  length n of the payload, at most 16 MiB
//	     4   4  crc of bytes 0 to 3 and of the payload
//	     8   n  payload, as sealer.AppendRecord writes it
//
// The records of a group have consecutive offsets, and so have the groups and the
// files. A group becomes durable as a whole before the next one is written.
// Therefore whatever follows the last whole group of the last file is either the
// zeros of preallocation or the remains of one group that was never acknowledged,
// while a group header behind a group that can't be read, with the salt of its
// file, proves damage. The salt is secret to everyone who can put bytes into a record,
// so a record can't contain such a header.
const (
	fileMagic  = "muniment"
	groupMagic = "MGRP"

	// Versions of a file: in the second no group names the hash of the one before.
	chained   = 1
	unchained = 2

	fileHeaderSize   = 72
	groupHeaderSize  = 72
	recordHeaderSize = 8

	// maxRecord bounds the payload of one record.
	maxRecord = 16 << 20

	segmentSuffix = ".seg"
	// unnamedFile is a segment in the making.
	unnamedFile = "segment.new"
	// lockName is the file that carries the lock of the folder.
	lockName = "LOCK"
)

// crcTable is made once: crc32 recognises its own Castagnoli table by address.
var crcTable = crc32.MakeTable(crc32.Castagnoli)

// digest is the hash of a group, which the next one names.
type digest [32]byte

type fileHeader struct {
	version    uint32
	generation uint32
	first      int64
	salt       uint64
	chain      digest
}

// name is the file's own.
func (h *fileHeader) name() string {
	return fmt.Sprintf("%010d-%020d%s", h.generation, h.first, segmentSuffix)
}

// isSegmentName reports whether a file has the name of a segment.
func isSegmentName(name string) bool {
	gen, first, ok := strings.Cut(strings.TrimSuffix(name, segmentSuffix), "-")
	g, err1 := strconv.ParseUint(gen, 10, 32)
	o, err2 := strconv.ParseInt(first, 10, 64)
	h := fileHeader{generation: uint32(g), first: o}
	return ok && errors.Join(err1, err2) == nil && h.name() == name
}

func (h *fileHeader) encode() []byte {
	b := make([]byte, fileHeaderSize)
	copy(b, fileMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], h.version)
	le.PutUint32(b[12:], h.generation)
	le.PutUint64(b[16:], uint64(h.first))
	le.PutUint64(b[24:], h.salt)
	copy(b[32:], h.chain[:])
	le.PutUint32(b[68:], crc32.Checksum(b[:68], crcTable))
	return b
}

// errNewer: the segment has the format of a later version; nothing is damaged.
var errNewer = errors.New("segment of a later version")

// parseFileHeader takes the first fileHeaderSize bytes of a file.
func parseFileHeader(b []byte) (fileHeader, error) {
	le := binary.LittleEndian
	h := fileHeader{
		version:    le.Uint32(b[8:]),
		generation: le.Uint32(b[12:]),
		first:      int64(le.Uint64(b[16:])),
		salt:       le.Uint64(b[24:]),
		chain:      digest(b[32:64]),
	}
	switch {
	case string(b[:8]) != fileMagic, le.Uint32(b[68:]) != crc32.Checksum(b[:68], crcTable):
		return h, errors.New("no segment header")
	case h.version > unchained:
		return h, fmt.Errorf("%w: format version %d is newer than %d, the newest that this program knows: run the version of muniment that wrote it, or a newer one",
			errNewer, h.version, unchained)
	case h.version != chained && h.version != unchained:
		return h, fmt.Errorf("segment of unknown version %d", h.version)
	case h.first < 0, h.first > 1<<62, h.generation == 0, le.Uint32(b[64:]) != 0:
		return h, errors.New("impossible segment header")
	}
	return h, nil
}

// link is what the group behind this one, or the next file, names as the hash of the
// group before.
func (h *fileHeader) link(group []byte) digest {
	if h.version == unchained {
		return digest{}
	}
	return sha256.Sum256(group)
}

// newSalt makes a salt that no other file has.
func newSalt() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

type groupHeader struct {
	body    int // length of the records
	count   int
	salt    uint64
	first   int64
	written int64 // milliseconds since 1970
	chain   digest
}

// size is that of header and records together.
func (h *groupHeader) size() int64 { return groupHeaderSize + int64(h.body) }

// put writes the header into the first groupHeaderSize bytes of b.
func (h *groupHeader) put(b []byte) {
	copy(b, groupMagic)
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(h.body))
	le.PutUint32(b[8:], uint32(h.count))
	le.PutUint64(b[12:], h.salt)
	le.PutUint64(b[20:], uint64(h.first))
	le.PutUint64(b[28:], uint64(h.written))
	copy(b[36:], h.chain[:])
	le.PutUint32(b[68:], crc32.Checksum(b[:68], crcTable))
}

// parseGroupHeader takes groupHeaderSize bytes; ok is false if they are not the header of
// a group in the file with this salt.
func parseGroupHeader(b []byte, salt uint64) (h groupHeader, ok bool) {
	le := binary.LittleEndian
	h = groupHeader{
		body:    int(le.Uint32(b[4:])),
		count:   int(le.Uint32(b[8:])),
		salt:    le.Uint64(b[12:]),
		first:   int64(le.Uint64(b[20:])),
		written: int64(le.Uint64(b[28:])),
		chain:   digest(b[36:68]),
	}
	ok = string(b[:4]) == groupMagic && h.salt == salt &&
		le.Uint32(b[68:]) == crc32.Checksum(b[:68], crcTable)
	return h, ok
}

// beginRecord appends space for a record's header; finishRecord fills it in once the
// payload is behind it. start is len(dst) before beginRecord.
func beginRecord(dst []byte) []byte { return append(dst, make([]byte, recordHeaderSize)...) }

func finishRecord(b []byte, start int) {
	rec := b[start:]
	binary.LittleEndian.PutUint32(rec, uint32(len(rec)-recordHeaderSize))
	binary.LittleEndian.PutUint32(rec[4:], recordCRC(rec))
}

func recordCRC(rec []byte) uint32 {
	return crc32.Update(crc32.Checksum(rec[:4], crcTable), crcTable, rec[recordHeaderSize:])
}

// cutRecord takes the first record off a group's body, checked.
func cutRecord(body []byte) (payload, rest []byte, ok bool) {
	if len(body) < recordHeaderSize {
		return nil, nil, false
	}
	n := binary.LittleEndian.Uint32(body)
	if n > maxRecord || int(n) > len(body)-recordHeaderSize {
		return nil, nil, false
	}
	rec := body[: recordHeaderSize+n : recordHeaderSize+n]
	if binary.LittleEndian.Uint32(body[4:]) != recordCRC(rec) {
		return nil, nil, false
	}
	return rec[recordHeaderSize:], body[len(rec):], true
}

// checkBody checks every record of a group and that nothing else is in it.
func checkBody(body []byte, count int) bool {
	for range count {
		var ok bool
		if _, body, ok = cutRecord(body); !ok {
			return false
		}
	}
	return len(body) == 0
}
