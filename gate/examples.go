package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Example is one complete delivery on a substrate that passes its gate and is billed.
type Example struct {
	Substrate Substrate
	// Scope of the right that it rests on: a JSON object, or empty.
	Scope     string
	Anchor    string
	Placement string
	DwellMs   float64
	Telemetry json.RawMessage
	// Refused has one for each rule of the substrate, in the order of the table.
	Refused []Refused
}

// Refused is the same delivery with other telemetry, which the rule with this code refuses.
// Where the substrate does not take minors at all, a rule for minors is not the only one.
type Refused struct {
	Code      string
	Telemetry json.RawMessage
}

// Examples are those of all substrates, in order.
func Examples() []Example {
	list := make([]Example, Substrates)
	for s := range Substrate(Substrates) {
		e := examples[s]
		e.Substrate = s
		for i := range rules {
			if r := &rules[i]; r.On.has(s) {
				change := strings.ReplaceAll(r.Example, "{other}", another(s).String())
				e.Refused = append(e.Refused, Refused{r.Code, merged(e.Telemetry, change)})
			}
		}
		list[s] = e
	}
	return list
}

// another is a concrete substrate that is not s.
func another(s Substrate) Substrate {
	if s == DOOH {
		return CTV
	}
	return DOOH
}

// merged is a telemetry object changed by an RFC 7396 patch of the tables, its fields in the
// order of their table.
func merged(telemetry json.RawMessage, patch string) json.RawMessage {
	values := membersOf(string(telemetry))
	maps.Copy(values, membersOf(patch))
	text := []byte{'{'}
	for f := range fieldCount {
		if v := values[fields[f].name]; v != nil && string(v) != "null" {
			if len(text) > 1 {
				text = append(text, ',')
			}
			text = fmt.Appendf(text, "%q:%s", fields[f].name, v)
		}
	}
	return append(text, '}')
}

func membersOf(object string) (members map[string]json.RawMessage) {
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		panic(fmt.Sprintf("an example of the tables is no JSON object: %s: %v", object, err))
	}
	return members
}
