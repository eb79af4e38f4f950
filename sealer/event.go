package sealer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"muniment.example/sealer/canonical"
)

// Ref names something by its kind and id: {"id":…,"kind":…}.
type Ref struct{ Kind, ID string }

// Event is one state change, as it is hashed: its canonical text is a leaf of
// the tenant's Merkle log and is kept verbatim everywhere.
type Event struct {
	// EventID is "evt_" + a ULID of the moment At. It is the event's identity.
	EventID  string
	TenantID string
	// Type is <noun>.<past participle>, such as "right.revoked".
	Type           string
	At             time.Time
	Actor, Subject Ref
	// Data is an object in RFC 8785 form (see Canonical). No personal data
	// belongs here: an event is never erased.
	Data []byte
	// PrivateCommitment is Commit of the private part; empty for none, which is
	// null in the text.
	PrivateCommitment string
}

// MaxEventBytes is the most bytes of an event. A longer one is neither written nor read, so that
// every event of a log fits in a pack.
const MaxEventBytes = 1 << 20

// AppendEvent appends the canonical text of e. It fails when Data is not a
// canonical object, when a string is empty or not UTF-8, when the id is not of the
// moment At, or when the text is longer than MaxEventBytes.
func AppendEvent(dst []byte, e *Event) ([]byte, error) {
	if err := e.check(); err != nil {
		return dst, fmt.Errorf("cannot write event: %w", err)
	}
	if len(e.Data) == 0 || e.Data[0] != '{' || !canonical.IsJSON(e.Data) {
		return dst, fmt.Errorf("cannot write event: data is not an object in RFC 8785 form: %w", canonical.ErrNotCanonical)
	}
	start := len(dst)
	dst = e.appendHead(dst)
	dst = append(dst, e.Data...)
	dst = e.appendTail(dst)
	if err := CheckLength(dst[start:]); err != nil {
		return dst[:start], fmt.Errorf("cannot write event: %w", err)
	}
	return dst, nil
}

// CheckLength checks that an event fits in a line of a pack.
func CheckLength(event []byte) error {
	if len(event) > MaxEventBytes {
		return fmt.Errorf("the event has %d bytes, more than %d", len(event), MaxEventBytes)
	}
	return nil
}

// appendHead appends what comes before data.
func (e *Event) appendHead(dst []byte) []byte {
	dst = append(dst, `{"actor":`...)
	dst = appendRef(dst, e.Actor)
	dst = append(dst, `,"at":`...)
	dst = canonical.AppendQuotedTime(dst, e.At)
	return append(dst, `,"data":`...)
}

// appendTail appends what comes after data.
func (e *Event) appendTail(dst []byte) []byte {
	dst = append(dst, `,"eventId":`...)
	dst = canonical.AppendString(dst, e.EventID)
	dst = append(dst, `,"privateCommitment":`...)
	if e.PrivateCommitment == "" {
		dst = append(dst, "null"...)
	} else {
		dst = canonical.AppendString(dst, e.PrivateCommitment)
	}
	dst = append(dst, `,"subject":`...)
	dst = appendRef(dst, e.Subject)
	dst = append(dst, `,"tenantId":`...)
	dst = canonical.AppendString(dst, e.TenantID)
	dst = append(dst, `,"type":`...)
	dst = canonical.AppendString(dst, e.Type)
	return append(dst, `,"v":1}`...)
}

func appendRef(dst []byte, r Ref) []byte {
	dst = append(dst, `{"id":`...)
	dst = canonical.AppendString(dst, r.ID)
	dst = append(dst, `,"kind":`...)
	dst = canonical.AppendString(dst, r.Kind)
	return append(dst, '}')
}

// check checks all of an event except its data.
func (e *Event) check() error {
	if err := checkID(EventPrefix, e.EventID, e.At); err != nil {
		return err
	}
	return e.checkText()
}

// checkText is check for an event whose id was checked already. Its errors hold no string of
// the event, so that the event can stay on the caller's stack.
func (e *Event) checkText() error {
	for _, f := range [...]struct{ name, value string }{
		{"tenantId", e.TenantID}, {"type", e.Type},
		{"actor.kind", e.Actor.Kind}, {"actor.id", e.Actor.ID},
		{"subject.kind", e.Subject.Kind}, {"subject.id", e.Subject.ID},
	} {
		if f.value == "" || !utf8.ValidString(f.value) {
			return errors.New(f.name + " is empty or not UTF-8")
		}
	}
	if c := e.PrivateCommitment; c != "" && !isHash(c) {
		return errors.New("privateCommitment " + strconv.Quote(c) + " is not a base64url SHA-256")
	}
	return nil
}

// ParseEvent reads exactly what AppendEvent writes; any other form is ErrNotCanonical.
// Data aliases b, the strings don't.
func ParseEvent(b []byte) (Event, error) {
	v, err := parseEnvelope(b)
	if err == nil && !canonical.IsJSON(v.Data) {
		err = fmt.Errorf("data: %w", canonical.ErrNotCanonical)
	}
	if err != nil {
		return Event{}, fmt.Errorf("cannot read event: %w", err)
	}
	return v.Event, nil
}

// envelope is an event whose data is not parsed yet.
type envelope struct {
	Event
	text   string // a copy of the whole, of which the event's strings are substrings
	dataAt int    // where data begins in text
}

func parseEnvelope(b []byte) (e envelope, err error) {
	if err := CheckLength(b); err != nil {
		return e, err
	}
	e.text = string(b)
	s := NewScanner(e.text)
	s.Lit(`{"actor":`)
	e.Actor = readRef(&s)
	s.Lit(`,"at":`)
	e.At = s.Time()
	s.Lit(`,"data":`)
	e.dataAt = s.At
	s.Object()
	e.Data = b[e.dataAt:s.At:s.At]
	s.Lit(`,"eventId":`)
	e.EventID = s.Name()
	s.Lit(`,"privateCommitment":`)
	if !s.Has("null") {
		e.PrivateCommitment = s.Name()
	}
	s.Lit(`,"subject":`)
	e.Subject = readRef(&s)
	s.Lit(`,"tenantId":`)
	e.TenantID = s.Name()
	s.Lit(`,"type":`)
	e.Type = s.Name()
	s.Lit(`,"v":1}`)
	if err = s.End(); err == nil {
		err = e.check()
	}
	return e, err
}

func readRef(s *Scanner) (r Ref) {
	s.Lit(`{"id":`)
	r.ID = s.Name()
	s.Lit(`,"kind":`)
	r.Kind = s.Name()
	s.Lit(`}`)
	return r
}

// Position is the place of a record in the event log. Positions of one partition are
// ordered; two partitions have no common order. It is opaque to callers of the service:
// they receive it as text and may only send it back.
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

// Next is the position right after p.
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
		return Position{}, fmt.Errorf("%q is not a log position", s)
	}
	return p, nil
}

// Record is one entry of the event log as it is written: the hashed Event, its
// Private part that erasure may delete, and the headers that route it.
type Record struct {
	TenantID string
	EventID  string
	// Node, Epoch and Seq only serve to detect gaps: a node counts Seq from 1 in
	// each epoch, and starts a new epoch with each start.
	Node  string
	Epoch uint64
	Seq   uint64
	// Event is the canonical text of the event, the leaf of the tenant's Merkle log.
	Event []byte
	// Private is the canonical text of the private part; empty when there is none.
	Private []byte
	// Traceparent names the span that appended the record, if that is traced (package trace). It is
	// no part of what is signed, hashed, or encoded by AppendRecord, and may be lost on the way.
	Traceparent string
}

// Entry is a record that has a place in the log.
type Entry struct {
	Position
	Record
}

const recordVersion = 1

// ErrRecord says that bytes are not an encoded record.
var ErrRecord = errors.New("not a record")

// AppendRecord appends the binary form of r: a version byte 1, then tenant,
// event id, node, event and private part, each after its length, with epoch
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
