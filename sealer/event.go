package sealer

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
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

// AppendEvent appends the canonical text of e. It fails when Data is no
// canonical object, when a string is empty or no UTF-8, when the id is not of the
// moment At, or when the text is longer than MaxEventBytes.
func AppendEvent(dst []byte, e *Event) ([]byte, error) {
	if err := e.check(); err != nil {
		return dst, fmt.Errorf("cannot write event: %w", err)
	}
	if len(e.Data) == 0 || e.Data[0] != '{' || !isCanonical(e.Data) {
		return dst, fmt.Errorf("cannot write event: data is no object in RFC 8785 form: %w", ErrNotCanonical)
	}
	start := len(dst)
	dst = e.appendHead(dst)
	dst = append(dst, e.Data...)
	dst = e.appendTail(dst)
	if err := checkLength(dst[start:]); err != nil {
		return dst[:start], fmt.Errorf("cannot write event: %w", err)
	}
	return dst, nil
}

// checkLength asks that an event can be a line of a pack.
func checkLength(event []byte) error {
	if len(event) > MaxEventBytes {
		return fmt.Errorf("an event of %d bytes, of which %d are the most", len(event), MaxEventBytes)
	}
	return nil
}

// appendHead appends what comes before data.
func (e *Event) appendHead(dst []byte) []byte {
	dst = append(dst, `{"actor":`...)
	dst = appendRef(dst, e.Actor)
	dst = append(dst, `,"at":`...)
	dst = appendQuotedTime(dst, e.At)
	return append(dst, `,"data":`...)
}

// appendTail appends what comes behind data.
func (e *Event) appendTail(dst []byte) []byte {
	dst = append(dst, `,"eventId":`...)
	dst = AppendString(dst, e.EventID)
	dst = append(dst, `,"privateCommitment":`...)
	if e.PrivateCommitment == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, e.PrivateCommitment)
	}
	dst = append(dst, `,"subject":`...)
	dst = appendRef(dst, e.Subject)
	dst = append(dst, `,"tenantId":`...)
	dst = AppendString(dst, e.TenantID)
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, e.Type)
	return append(dst, `,"v":1}`...)
}

func appendRef(dst []byte, r Ref) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, r.ID)
	dst = append(dst, `,"kind":`...)
	dst = AppendString(dst, r.Kind)
	return append(dst, '}')
}

// check asks for all that an event must have beside its data.
func (e *Event) check() error {
	if _, err := checkID(eventPrefix, e.EventID, e.At); err != nil {
		return err
	}
	return e.checkText()
}

// checkText is check for an event whose id is known to be right. Its errors hold no
// string of the event, which may so stay on the caller's stack.
func (e *Event) checkText() error {
	for _, f := range [...]struct{ name, value string }{
		{"tenantId", e.TenantID}, {"type", e.Type},
		{"actor.kind", e.Actor.Kind}, {"actor.id", e.Actor.ID},
		{"subject.kind", e.Subject.Kind}, {"subject.id", e.Subject.ID},
	} {
		if f.value == "" || !utf8.ValidString(f.value) {
			return errors.New(f.name + " is empty or no UTF-8")
		}
	}
	if c := e.PrivateCommitment; c != "" && !isHash(c) {
		return errors.New("privateCommitment " + strconv.Quote(c) + " is no base64url SHA-256")
	}
	return nil
}

// ParseEvent reads exactly what AppendEvent writes; another spelling is
// ErrNotCanonical. Data aliases b, the strings don't.
func ParseEvent(b []byte) (Event, error) {
	v, err := parseEnvelope(b)
	if err == nil && !isCanonical(v.Data) {
		err = fmt.Errorf("data: %w", ErrNotCanonical)
	}
	if err != nil {
		return Event{}, fmt.Errorf("cannot read event: %w", err)
	}
	return v.Event, nil
}

// envelope is an event whose data is only delimited yet.
type envelope struct {
	Event
	text   string // a copy of the whole, which the event's strings are cut from
	dataAt int    // where data begins in it
}

func parseEnvelope(b []byte) (e envelope, err error) {
	if err := checkLength(b); err != nil {
		return e, err
	}
	e.text = string(b)
	s := scanner{text: e.text}
	s.lit(`{"actor":`)
	e.Actor = readRef(&s)
	s.lit(`,"at":`)
	e.At = s.time()
	s.lit(`,"data":`)
	e.dataAt = s.at
	s.object()
	e.Data = b[e.dataAt:s.at:s.at]
	s.lit(`,"eventId":`)
	e.EventID = s.name()
	s.lit(`,"privateCommitment":`)
	if !s.has("null") {
		e.PrivateCommitment = s.name()
	}
	s.lit(`,"subject":`)
	e.Subject = readRef(&s)
	s.lit(`,"tenantId":`)
	e.TenantID = s.name()
	s.lit(`,"type":`)
	e.Type = s.name()
	s.lit(`,"v":1}`)
	if err = s.end(); err == nil {
		err = e.check()
	}
	return e, err
}

func readRef(s *scanner) (r Ref) {
	s.lit(`{"id":`)
	r.ID = s.name()
	s.lit(`,"kind":`)
	r.Kind = s.name()
	s.lit(`}`)
	return r
}
