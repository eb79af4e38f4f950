package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net"
	"strconv"
	"time"

	"muniment/sealer"
)

// What a request brings to a partition is a batch of Kafka's record format 2. It is
// written here because the library writes it field by field: records are
// encoded when they queue, side by side, and a request only puts a head before them.

const (
	batchOverhead = 61 // the head
	lengthEnds    = 12 // where the batch's length is, which counts what follows it
	crcEnds       = 21 // where the checksum is, likewise
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordSet is a batch behind its length, as a produce request has it. It can be read
// once.
type recordSet = *net.Buffers

// newRecordSet puts the head in front of encoded records.
func newRecordSet(count int, now time.Time, records ...[]byte) recordSet {
	size := batchOverhead
	for _, r := range records {
		size += len(r)
	}
	be := binary.BigEndian
	b := make([]byte, 0, 4+batchOverhead) // behind the length of all that a partition gets
	b = be.AppendUint32(b, uint32(size))
	b = be.AppendUint64(b, 0) // base offset, which the broker gives
	b = be.AppendUint32(b, uint32(size-lengthEnds))
	b = be.AppendUint32(b, ^uint32(0)) // epoch of the partition's leader, which the broker gives
	b = append(b, 2)                   // format
	b = be.AppendUint32(b, 0)          // checksum
	b = be.AppendUint16(b, 0)          // attributes: not compressed
	b = be.AppendUint32(b, uint32(count-1))
	b = be.AppendUint64(b, uint64(now.UnixMilli())) // first timestamp,
	b = be.AppendUint64(b, uint64(now.UnixMilli())) // and last: the topic has the broker set them
	b = be.AppendUint64(b, ^uint64(0))              // no producer id,
	b = be.AppendUint16(b, ^uint16(0))              // nor its epoch,
	b = be.AppendUint32(b, ^uint32(0))              // nor a sequence
	b = be.AppendUint32(b, uint32(count))
	crc := crc32.Checksum(b[4+crcEnds:], castagnoli)
	for _, r := range records {
		crc = crc32.Update(crc, castagnoli, r)
	}
	be.PutUint32(b[4+crcEnds-4:], crc)
	set := append(make(net.Buffers, 0, 1+len(records)), b)
	set = append(set, records...)
	return &set
}

// record is an encoded record: its length, attributes, and two deltas, of the time and
// of the offset, and from rest on what message.go describes.
type record struct {
	bytes []byte
	rest  int
}

// appendRecord encodes a record as the nth of its batch behind b, and returns what
// follows it with the next one.
func appendRecord(b []byte, n int, r *sealer.Record) (record, []byte) {
	var digits [40]byte
	epoch := strconv.AppendUint(digits[:0], r.Epoch, 10)
	seq := strconv.AppendUint(digits[20:20], r.Seq, 10)
	headers := requiredHeaders
	rest := fieldLen(len(r.TenantID)) + fieldLen(len(r.Event)) + 1 + headerNamesLen +
		fieldLen(len(r.TenantID)) + fieldLen(len(r.EventID)) + fieldLen(len(r.Node)) + fieldLen(len(epoch)) + fieldLen(len(seq))
	if len(r.Private) > 0 {
		headers++
		rest += fieldLen(len(headerNames[requiredHeaders])) + fieldLen(len(r.Private))
	}
	from := len(b)
	b = appendHead(b, n, rest)
	at := len(b) - from
	b = appendField(b, r.TenantID)
	b = appendField(b, r.Event)
	b = binary.AppendVarint(b, int64(headers))
	b = appendField(appendField(b, headerNames[0]), r.TenantID)
	b = appendField(appendField(b, headerNames[1]), r.EventID)
	b = appendField(appendField(b, headerNames[2]), r.Node)
	b = appendField(appendField(b, headerNames[3]), epoch)
	b = appendField(appendField(b, headerNames[4]), seq)
	if headers > requiredHeaders {
		b = appendField(appendField(b, headerNames[requiredHeaders]), r.Private)
	}
	return record{b[from:len(b):len(b)], at}, b
}

// appendAt appends the record as the nth of another batch.
func (r record) appendAt(b []byte, n int) []byte {
	rest := r.bytes[r.rest:]
	return append(appendHead(b, n, len(rest)), rest...)
}

// appendHead appends the head of the nth record, whose rest has a given length.
func appendHead(b []byte, n, rest int) []byte {
	b = binary.AppendVarint(b, int64(2+varintLen(n)+rest))
	b = append(b, 0, 0) // no attributes; the time is the batch's
	return binary.AppendVarint(b, int64(n))
}

// appendField appends bytes behind their length.
func appendField[T string | []byte](b []byte, field T) []byte {
	return append(binary.AppendVarint(b, int64(len(field))), field...)
}

func fieldLen(n int) int { return varintLen(n) + n }

// varintLen is the length of a number that isn't negative as a zigzag varint.
func varintLen(n int) int { return (bits.Len(uint(n)) + 1 + 6) / 7 }
