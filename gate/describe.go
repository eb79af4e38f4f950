package gate

// Field describes one telemetry field of the contract, for documents.
type Field struct {
	Name string
	// Type is boolean, number or string.
	Type string
	// Values are what an enumeration allows; nil for every other field.
	Values []string
	// Min is the least that a number may be; nil when it may be negative.
	Min *float64
	// Max is the most that a number may be; nil for every other field.
	Max *float64
	// MaxBytes is the most that a text may have; 0 for every other field.
	MaxBytes int
	Nullable bool
	// Kept says what becomes of the field after the gate has read it.
	Kept Kept
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
func Fields() []Field {
	list := make([]Field, 0, optOut)
	for f := range optOut {
		s := &fields[f]
		one := Field{Name: s.name, Nullable: s.nullable, Kept: [classCount]Kept{
			measurement: KeptAlways, eye: KeptByEyeConsent, space: KeptBySpaceConsent, networkPlace: KeptNotOfMinors, gateOnly: KeptNever,
		}[s.class]}
		switch s.kind {
		case boolean:
			one.Type = "boolean"
		case number:
			most := float64(maxNumber)
			one.Type, one.Max = "number", &most
			if s.min >= 0 {
				least := s.min // nobody else's hands on the table
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
		list = append(list, one)
	}
	return list
}
