// Package trace follows single deliveries through the processes of a service: which of them, and where
// the time went. It sends spans to a collector of OpenTelemetry, by OTLP over HTTP in JSON.
//
// A trace is named by the header traceparent (W3C Trace Context): callers send it, records carry it through
// the log to the loader (sealer.Record.Traceparent), and what is forwarded to control has it. The header
// tracestate is not read.
//
// Without a Tracer nothing is traced: a nil Tracer and a nil Span do nothing, and each call on them is a
// comparison. Of all requests a Tracer samples the part that is configured, and those of which a caller says
// that its trace is sampled, but no more than mostOfCallers a second of these: callers don't decide how much
// a service exports.
//
// Nothing waits for the collector. Spans that have ended stand in a queue of mostQueued; what does not fit, and
// what the collector does not take at the first try, is dropped and counted. The first failure is logged, and
// the end of it.
//
// A span says which tenant, right and event it concerns, by their ids, and how the request was decided. It has
// no API key, no telemetry, no name of a person, and of what a caller sends nothing but the ids of its trace.
// Requests that are refused have no span: neither the queue nor the collector is filled by them.
//
// OpenTelemetry's own SDK is not used: with its exporter it makes the binary 3.0 MB larger, with an
// exporter such as this one 0.9 MB; this package does so by less than 0.1 MB.
package trace

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
)

// Header is the name of the header, and of the header of a message in Kafka.
const Header = "traceparent"

// ID names a span, and the trace that it is part of. The zero ID names none.
type ID struct {
	Trace [16]byte
	Span  [8]byte
	// Sampled says that whoever made the span exports it.
	Sampled bool
}

// length of a traceparent of version 00, the only one that there is.
const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// Parse reads a traceparent. It returns the zero ID for what is none. A later version may have more behind
// its fields, which is not read.
func Parse(text string) (id ID) {
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return ID{}
	}
	var version, flags [1]byte
	ok := lowerHex(version[:], text[:2]) && lowerHex(id.Trace[:], text[3:35]) && lowerHex(id.Span[:], text[36:52]) && lowerHex(flags[:], text[53:length])
	switch {
	case !ok, version[0] == 0xff, id.Trace == [16]byte{}, id.Span == [8]byte{}:
		return ID{}
	case len(text) > length && (version[0] == 0 || text[length] != '-'):
		return ID{}
	}
	id.Sampled = flags[0]&1 == 1
	return id
}

// lowerHex decodes hexadecimal digits, which must be lower case.
func lowerHex(dst []byte, text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(dst, []byte(text))
	return err == nil
}

// String is the traceparent; empty for the zero ID.
func (id ID) String() string {
	if id == (ID{}) {
		return ""
	}
	flags := "-00"
	if id.Sampled {
		flags = "-01"
	}
	return "00-" + hex.EncodeToString(id.Trace[:]) + "-" + hex.EncodeToString(id.Span[:]) + flags
}

// fill draws random bytes that are not all zero. Names of spans are no secrets.
func fill(dst []byte) {
	for i := range dst {
		dst[i] = byte(rand.Uint32())
	}
	dst[0] |= 1
}

// NotSampled is what a request that is not traced has as its ID where it is sent on, so that the next process
// does not decide again: the caller's, or a new one.
func NotSampled(caller ID) ID {
	if caller == (ID{}) {
		fill(caller.Trace[:])
		fill(caller.Span[:])
	}
	caller.Sampled = false
	return caller
}

type inContext struct{}

// With returns a context that carries a span, if there is one.
func With(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, inContext{}, s)
}

// From is the span that a context carries; nil if it carries none.
func From(ctx context.Context) *Span {
	s, _ := ctx.Value(inContext{}).(*Span)
	return s
}
