package gate

import "github.com/go-json-experiment/json/jsontext"

// Telemetry is one decoded observation. The zero value is an observation that
// says nothing, which is also what an absent telemetry object means. It owns
// copies of the strings it needs, so nothing of the decoded text is kept.
//
// It is made to be reused: Decode begins anew, and Reset is for a delivery that
// has no telemetry. It must not be shared between goroutines.
type Telemetry struct {
	stated factSet  // the facts its fields state
	given  fieldSet // the fields that are given and not null
	extra  int

	// By field, and only meaningful where given says so.
	choice [fieldCount]uint8 // boolean and enum: the place in spec.values
	number [fieldCount]float64
	text   [fieldCount]span

	scratch []byte // the texts
}

// span is where a text stands in Telemetry.scratch.
type span struct{ from, to int }

// Reset forgets the observation and keeps the buffer.
func (t *Telemetry) Reset() {
	t.stated, t.given, t.extra = 0, 0, 0
	t.scratch = t.scratch[:0]
}

// Extra is the number of fields that are not in the contract, those included
// that the gate recognises. Of their values nothing is ever kept.
func (t *Telemetry) Extra() int { return t.extra }

func (t *Telemetry) isTrue(f field) bool { return t.given.has(f) && t.choice[f] == yes }

// delivered is the concrete substrate the delivery names.
func (t *Telemetry) delivered() (Substrate, bool) {
	return Substrate(t.choice[deliveredSubstrate]), t.given.has(deliveredSubstrate)
}

func (t *Telemetry) textOf(f field) []byte {
	return t.scratch[t.text[f].from:t.text[f].to]
}

// appendValue appends the value of a given field as RFC 8785 JSON.
func (t *Telemetry) appendValue(dst []byte, f field) []byte {
	switch spec := &fields[f]; spec.kind {
	case boolean:
		return append(dst, spec.values[t.choice[f]].text...)
	case enum:
		dst = append(dst, '"')
		dst = append(dst, spec.values[t.choice[f]].text...)
		return append(dst, '"')
	case number:
		return jsontext.AppendFloat(dst, t.number[f], 64)
	default:
		dst, _ = jsontext.AppendQuote(dst, t.textOf(f)) // valid UTF-8: the decoder saw to it
		return dst
	}
}
