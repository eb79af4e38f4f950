package trace

import (
	"encoding/hex"
	"strings"
	"time"
)

// Kind is what a span is among the processes, as OTLP numbers it.
type Kind int

// The kinds of spans.
const (
	Internal Kind = iota + 1
	Server        // answers a request
	Client        // sends a request, and waits for the answer
	Producer      // sends a message
	Consumer      // processes a message
)

// maxText bounds the texts of a span, in bytes.
const maxText = 256

// Span is a piece of work with a beginning and an end. One goroutine at a time may use it, but any number may
// make children of it. Without an End it is not exported. A nil Span does nothing.
type Span struct {
	tracer       *Tracer
	id           ID
	parent       [8]byte
	kind         Kind
	name         string
	began, ended time.Time
	attributes   []attribute
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// value is OTLP's AnyValue: one of its fields.
type value struct {
	Text   *string `json:"stringValue,omitempty"`
	Number *int64  `json:"intValue,string,omitempty"`
	Truth  *bool   `json:"boolValue,omitempty"`
}

// ID names the span; the zero ID names that of a nil Span.
func (s *Span) ID() ID {
	if s == nil {
		return ID{}
	}
	return s.id
}

// Traceparent is what a message or a request carries, so that who gets it continues from this span; empty
// for a nil Span.
func (s *Span) Traceparent() string { return s.ID().String() }

// TraceID is the trace's, in hexadecimal.
func (s *Span) TraceID() string { return hex.EncodeToString(s.id.Trace[:]) }

// Child begins a span that is part of this one.
func (s *Span) Child(kind Kind, name string) *Span {
	if s == nil {
		return nil
	}
	return s.tracer.begin(s.id, kind, name, time.Now())
}

// Rename names a span that began before it was known what it is.
func (s *Span) Rename(name string) {
	if s != nil {
		s.name = name
	}
}

// Set says something of the span. The text is copied, and cut at maxText bytes.
func (s *Span) Set(key, text string) {
	if s != nil {
		kept := strings.ToValidUTF8(strings.Clone(text[:min(len(text), maxText)]), "�")
		s.attributes = append(s.attributes, attribute{key, value{Text: &kept}})
	}
}

// SetInt says a number.
func (s *Span) SetInt(key string, n int64) {
	if s != nil {
		s.attributes = append(s.attributes, attribute{key, value{Number: new(n)}})
	}
}

// SetBool says whether.
func (s *Span) SetBool(key string, is bool) {
	if s != nil {
		s.attributes = append(s.attributes, attribute{key, value{Truth: new(is)}})
	}
}

// End has the span exported. It may not be used any more.
func (s *Span) End() {
	if s != nil {
		s.ended = s.began.Add(time.Since(s.began)) // whatever the clock does meanwhile
		s.tracer.enqueue(s)
	}
}
