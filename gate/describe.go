package gate

// Field describes one telemetry field, for documents.
type Field struct {
	Name string `json:"name"`
	// Meaning is what it means, in words.
	Meaning string `json:"meaning"`
	// Type is boolean, number or string.
	Type string `json:"type"`
	// Values are what an enumeration allows; nil for every other field.
	Values []string `json:"values,omitempty"`
	// Min is the least that a number may be; nil when it may be negative.
	Min *float64 `json:"min,omitempty"`
	// Max is the most that a number may be; nil for every other field.
	Max *float64 `json:"max,omitempty"`
	// MaxBytes is the most that a text may have; 0 for every other field.
	MaxBytes int  `json:"maxBytes,omitempty"`
	Nullable bool `json:"nullable,omitempty"`
	// Additional says that the contract has it not: a wrong type of it is no fault, and reads
	// as if it were absent.
	Additional bool `json:"additional,omitempty"`
	// FailSafe says of an additional field that a wrong type of it reads as true.
	FailSafe bool `json:"failSafe,omitempty"`
	// Kept says what becomes of the field after the gate has read it.
	Kept Kept `json:"kept"`
	// ReadBy are the codes of the rules and the reasons of the suppressions that it is part of.
	ReadBy []string `json:"readBy,omitempty"`
}

// Kept says when a field is kept for metering, in the private part of the event.
type Kept string

// When fields are kept; every other one is dropped once the gate has read it.
const (
	KeptAlways         Kept = "always"
	KeptNever          Kept = "never"
	KeptNotOfMinors    Kept = "unless minorMode"
	KeptByEyeConsent   Kept = "with eyeTrackingConsent, unless minorMode"
	KeptBySpaceConsent Kept = "with spatialMappingConsent, unless minorMode or bystanders may be captured"
)

// Fields lists the contract's telemetry fields in its order, without the
// additional ones that the gate recognises.
func Fields() []Field { return allFields()[:optOut] }

// allFields lists the additional ones as well, after those of the contract.
func allFields() []Field {
	list := make([]Field, 0, fieldCount)
	readers := readersOf()
	for f := range fieldCount {
		one := f.describe()
		one.ReadBy = readers[f]
		list = append(list, one)
	}
	return list
}

func (f field) describe() Field {
	s := &fields[f]
	one := Field{Name: s.name, Meaning: meanings[f], Nullable: s.nullable, Additional: s.class == extension, FailSafe: s.failSafe, Kept: [classCount]Kept{
		measurement: KeptAlways, eye: KeptByEyeConsent, space: KeptBySpaceConsent, networkPlace: KeptNotOfMinors, gateOnly: KeptNever, extension: KeptNever,
	}[s.class]}
	switch s.kind {
	case boolean:
		one.Type = "boolean"
	case number:
		most := float64(maxNumber)
		one.Type, one.Max = "number", &most
		if s.min >= 0 {
			least := s.min // a copy, so that callers can't change the table
			one.Min = &least
		}
	case text:
		one.Type, one.MaxBytes = "string", maxTextBytes
	case enum:
		one.Type = "string"
		for _, v := range s.values {
			one.Values = append(one.Values, v.text)
		}
	}
	return one
}

// readersOf returns, for each field, the rows with a term that has a fact of the field.
func readersOf() (names [fieldCount][]string) {
	facts := readings()
	add := func(row string, terms []term) {
		var read fieldSet
		for i := range terms {
			for _, f := range append(setOf(terms[i].All).list(), setOf(terms[i].None).list()...) {
				for _, r := range facts[f] {
					if r.field < fieldCount && !read.has(r.field) {
						read |= 1 << r.field
						names[r.field] = append(names[r.field], row)
					}
				}
			}
		}
	}
	for i := range rules {
		add(rules[i].Code, rules[i].Terms)
	}
	for i := range suppressions {
		add(suppressions[i].Reason.String(), suppressions[i].Terms)
	}
	return names
}
