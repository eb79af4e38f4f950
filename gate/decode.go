package gate

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Fault is a field that breaks the contract's type, values or bounds.
type Fault struct {
	Field   string // "telemetry.speedMph", or "telemetry" itself
	Message string
}

// Decode resets t and reads the value of the telemetry member into it from d,
// which stands right before that value. It consumes the whole value and appends a
// fault for each field that breaks the contract; after a fault t must not be
// evaluated. Names are matched in exact case. Fields that are not in
// the contract are never a fault: an extension of the wrong type counts as
// absent, except an opt-out, which then counts as given.
//
// The error is d's: no JSON, a name given twice, invalid UTF-8, an I/O error.
func (t *Telemetry) Decode(d *jsontext.Decoder, faults []Fault) ([]Fault, error) {
	t.Reset()
	if d.PeekKind() != jsontext.KindBeginObject {
		if err := d.SkipValue(); err != nil {
			return faults, err
		}
		return append(faults, Fault{"telemetry", "must be an object"}), nil
	}
	if _, err := d.ReadToken(); err != nil {
		return faults, err
	}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadValue()
		if err != nil {
			return faults, err
		}
		f, known := t.fieldOf(name)
		raw, err := d.ReadValue() // name is gone from here
		if err != nil {
			return faults, err
		}
		if !known || fields[f].class == extension {
			t.extra++
		}
		if known && !t.read(f, raw) && fields[f].class != extension {
			faults = append(faults, Fault{f.path(), fields[f].requirement()})
		}
	}
	_, err := d.ReadToken()
	return faults, err
}

func (t *Telemetry) fieldOf(name jsontext.Value) (field, bool) {
	plain, ok := t.unquote(name)
	if !ok {
		return 0, false
	}
	f, ok := fieldNamed[string(plain)]
	return f, ok
}

// unquote returns the text of a JSON string. It is valid until the next call: it
// is either a part of raw or behind the end of scratch. A text that must be
// longer than any that the gate accepts is refused unread, so that scratch stays
// small whatever is sent.
func (t *Telemetry) unquote(raw jsontext.Value) ([]byte, bool) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], true
	}
	const longest = len(`\u0000`) // the most that stands for one byte
	if len(raw) > maxTextBytes*longest+len(`""`) {
		return nil, false
	}
	used := len(t.scratch)
	all, err := jsontext.AppendUnquote(t.scratch, raw)
	t.scratch = all[:used]
	return all[used:], err == nil
}

// read takes the value of f over into t, or says that the contract forbids it.
func (t *Telemetry) read(f field, raw jsontext.Value) bool {
	spec, kind := &fields[f], raw.Kind()
	switch {
	case kind == jsontext.KindNull && (spec.nullable || spec.failSafe):
		return true
	case spec.failSafe:
		if kind == jsontext.KindFalse {
			return t.choose(f, no)
		}
		return t.choose(f, yes)
	}
	switch spec.kind {
	case boolean:
		switch kind {
		case jsontext.KindFalse:
			return t.choose(f, no)
		case jsontext.KindTrue:
			return t.choose(f, yes)
		}
	case enum:
		if kind == jsontext.KindString {
			return t.readEnum(f, raw)
		}
	case number:
		if kind == jsontext.KindNumber {
			return t.readNumber(f, raw)
		}
	case text:
		if kind == jsontext.KindString {
			return t.readText(f, raw)
		}
	}
	return false
}

func (t *Telemetry) choose(f field, place int) bool {
	spec := &fields[f]
	t.given |= 1 << f
	t.stated |= 1<<spec.given | 1<<spec.values[place].fact
	t.choice[f] = uint8(place)
	return true
}

func (t *Telemetry) readEnum(f field, raw jsontext.Value) bool {
	plain, ok := t.unquote(raw)
	if !ok {
		return false
	}
	for place := range fields[f].values {
		if fields[f].values[place].text == string(plain) {
			return t.choose(f, place)
		}
	}
	return false
}

func (t *Telemetry) readNumber(f field, raw jsontext.Value) bool {
	spec := &fields[f]
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || x < spec.min || x > maxNumber {
		return false
	}
	if x == 0 {
		x = 0 // canonical JSON has no negative zero
	}
	t.given |= 1 << f
	t.stated |= 1 << spec.given
	for _, o := range spec.over {
		if o.met(x) {
			t.stated |= 1 << o.fact
		}
	}
	t.number[f] = x
	return true
}

func (t *Telemetry) readText(f field, raw jsontext.Value) bool {
	plain, ok := t.unquote(raw)
	if !ok || len(plain) > maxTextBytes {
		return false
	}
	t.given |= 1 << f
	if len(bytes.TrimSpace(plain)) > 0 {
		t.stated |= 1 << fields[f].given
	}
	from := len(t.scratch)
	t.scratch = append(t.scratch, plain...)
	t.text[f] = span{from, len(t.scratch)}
	return true
}

// requirement is what a field must be, as a fault says it.
func (s *spec) requirement() string {
	switch s.kind {
	case boolean:
		return "must be true or false"
	case enum:
		names := make([]string, len(s.values))
		for i, v := range s.values {
			names[i] = v.text
		}
		return "must be one of " + strings.Join(names, ", ")
	case number:
		return fmt.Sprintf("must be a number from %.0f to %d", s.min, maxNumber)
	default:
		if s.nullable {
			return fmt.Sprintf("must be null or a string of at most %d bytes", maxTextBytes)
		}
		return fmt.Sprintf("must be a string of at most %d bytes", maxTextBytes)
	}
}
