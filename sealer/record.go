package sealer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Position is where a record stands in the event log. Positions of one
// partition are ordered; two partitions have no common order. It is opaque to
// callers of the service: they get it as text and may only hand it back.
type Position struct {
	// Generation rises whenever a log is recreated or restored, so that an
	// offset of a log that no longer exists can't be mistaken for one that does.
	Generation uint32
	// Partition is 0 in the embedded log. All records of a tenant share one.
	Partition int32
	// Offset counts records from 0, without gaps.
	Offset int64
}

// Compare orders two positions of the same partition: −1, 0 or +1.
func (p Position) Compare(q Position) int {
	if c := cmp.Compare(p.Generation, q.Generation); c != 0 {
		return c
	}
	return cmp.Compare(p.Offset, q.Offset)
}

// Next is the position right behind p.
func (p Position) Next() Position { p.Offset++; return p }

// String is the text form, the one ParsePosition reads: "generation.partition.offset".
func (p Position) String() string {
	b := strconv.AppendUint(nil, uint64(p.Generation), 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, int64(p.Partition), 10)
	b = append(b, '.')
	return string(strconv.AppendInt(b, p.Offset, 10))
}

// ParsePosition reads the text form. It accepts exactly what String writes.
func ParsePosition(s string) (Position, error) {
	var p Position
	gen, rest, ok := strings.Cut(s, ".")
	part, off, ok2 := strings.Cut(rest, ".")
	g, err1 := strconv.ParseUint(gen, 10, 32)
	n, err2 := strconv.ParseUint(part, 10, 31)
	o, err3 := strconv.ParseUint(off, 10, 63)
	p = Position{Generation: uint32(g), Partition: int32(n), Offset: int64(o)}
	if !ok || !ok2 || errors.Join(err1, err2, err3) != nil || p.String() != s {
		return Position{}, fmt.Errorf("%q is no log position", s)
	}
	return p, nil
}

// Record is one entry of the event log as it is written: the hashed Event, its
// Private part that erasure may delete, and the headers that route it.
type Record struct {
	TenantID string
	EventID  string
	// Node, Epoch and Seq only serve to notice gaps: a node counts Seq from 1 in
	// each epoch, and starts a new epoch with each start.
	Node  string
	Epoch uint64
	Seq   uint64
	// Event is the canonical text of the event, the leaf of the tenant's Merkle log.
	Event []byte
	// Private is the canonical text of the private part; empty when there is none.
	Private []byte
}

// Entry is a record that has a place in the log.
type Entry struct {
	Position
	Record
}

const recordVersion = 1

// ErrRecord says that bytes are no encoded record.
var ErrRecord = errors.New("not a record")

// AppendRecord appends the binary form of r: a version byte 1, then tenant,
// event id, node, event and private part, each behind its length, with epoch
// and seq between node and event. Lengths, epoch and seq are unsigned varints
// in their shortest form.
func AppendRecord(dst []byte, r *Record) []byte {
	dst = append(dst, recordVersion)
	dst = appendField(dst, r.TenantID)
	dst = appendField(dst, r.EventID)
	dst = appendField(dst, r.Node)
	dst = binary.AppendUvarint(dst, r.Epoch)
	dst = binary.AppendUvarint(dst, r.Seq)
	dst = appendField(dst, r.Event)
	return appendField(dst, r.Private)
}

func appendField[T string | []byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// ParseRecord reads what AppendRecord wrote and nothing else: a wrong version, a
// short field, an overlong varint and trailing bytes are ErrRecord. Event and
// Private alias b.
func ParseRecord(b []byte) (Record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return Record{}, fmt.Errorf("%w: unknown version", ErrRecord)
	}
	d := fields{rest: b[1:]}
	r := Record{
		TenantID: string(d.field()),
		EventID:  string(d.field()),
		Node:     string(d.field()),
		Epoch:    d.uvarint(),
		Seq:      d.uvarint(),
		Event:    d.field(),
		Private:  d.field(),
	}
	if d.bad || len(d.rest) != 0 {
		return Record{}, fmt.Errorf("%w: damaged fields", ErrRecord)
	}
	return r, nil
}

// fields reads varints and length-prefixed fields; after the first fault it
// returns zeros and bad stays true.
type fields struct {
	rest []byte
	bad  bool
}

func (d *fields) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || (n > 1 && d.rest[n-1] == 0) {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *fields) field() []byte {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	f := d.rest[:n:n]
	d.rest = d.rest[n:]
	return f
}
