package kafka

import (
	"encoding/binary"
	"fmt"
	"strconv"

	kafkago "github.com/segmentio/kafka-go"

	"muniment.example/sealer"
)

// A record is a message in which every tool can read the event:
//
//	key      tenant id
//	value    event, verbatim
//	headers  tenantId, eventId, node, epoch, seq in this order, as text, and
//	         private, verbatim, where there is a private part, and
//	         traceparent, where the delivery is traced
//
// Epoch and seq are decimal without leading zeros. A message that deviates from
// this in anything is foreign, but for headers of traces at the end: whoever sees
// a message on its way may add them, and what they say changes nothing else.
var headerNames = [...]string{"tenantId", "eventId", "node", "epoch", "seq", "private"}

const requiredHeaders = len(headerNames) - 1

// Headers of traces, of which ours has the first, and its length.
const (
	headerTrace, headerTraceState = "traceparent", "tracestate"
	traceBytes                    = 55
)

// recordOverhead bounds what a message adds to its record's bytes: the lengths,
// the header names and two numbers. The tenant id, which it has twice, is not in it.
const recordOverhead = 160

// traceOverhead is what a traceparent adds.
const traceOverhead = len(headerTrace) + traceBytes + 2

// batchOverhead is what a batch adds to its messages.
const batchOverhead = 61

// wireSize bounds the bytes of a record in a batch.
func wireSize(r *sealer.Record) int {
	size := recordOverhead + 2*len(r.TenantID) + len(r.EventID) + len(r.Node) + len(r.Event) + len(r.Private)
	if r.Traceparent != "" {
		size += traceOverhead
	}
	return size
}

// message is a record in the form that the library sends.
type message struct {
	key, value []byte
	headers    []kafkago.Header
}

// appendMessage copies what it needs of r behind dst, at most wireSize bytes, and returns the
// longer dst.
func appendMessage(dst []byte, r *sealer.Record) (message, []byte) {
	var m message
	from := len(dst)
	field := func() []byte { // what was appended since the last call
		b := dst[from:len(dst):len(dst)]
		from = len(dst)
		return b
	}
	dst = append(dst, r.TenantID...)
	m.key = field()
	dst = append(dst, r.Event...)
	m.value = field()
	m.headers = append(make([]kafkago.Header, 0, len(headerNames)), kafkago.Header{Key: headerNames[0], Value: m.key})
	header := func() {
		m.headers = append(m.headers, kafkago.Header{Key: headerNames[len(m.headers)], Value: field()})
	}
	dst = append(dst, r.EventID...)
	header()
	dst = append(dst, r.Node...)
	header()
	dst = strconv.AppendUint(dst, r.Epoch, 10)
	header()
	dst = strconv.AppendUint(dst, r.Seq, 10)
	header()
	if len(r.Private) > 0 {
		dst = append(dst, r.Private...)
		header()
	}
	if len(r.Traceparent) == traceBytes {
		dst = append(dst, r.Traceparent...)
		m.headers = append(m.headers, kafkago.Header{Key: headerTrace, Value: field()})
	}
	return m, dst
}

// parse reads a message; ok is false for a foreign one.
func parse(key, value []byte, headers []kafkago.Header) (r sealer.Record, ok bool) {
	headers, traceparent := cutTrace(headers)
	if len(headers) < requiredHeaders || len(headers) > len(headerNames) {
		return r, false
	}
	for i, h := range headers {
		if h.Key != headerNames[i] {
			return r, false
		}
	}
	r = sealer.Record{
		TenantID: string(headers[0].Value),
		EventID:  string(headers[1].Value),
		Node:     string(headers[2].Value),
		Event:    value,

		Traceparent: traceparent,
	}
	if len(headers) == len(headerNames) {
		if r.Private = headers[requiredHeaders].Value; len(r.Private) == 0 {
			return r, false
		}
	}
	if string(key) != r.TenantID || key == nil || value == nil {
		return r, false
	}
	return r, parseNumber(headers[3].Value, &r.Epoch) && parseNumber(headers[4].Value, &r.Seq)
}

// cutTrace cuts the headers of traces at the end, and returns the first traceparent among them, which is
// ours; empty if it can't be one.
func cutTrace(headers []kafkago.Header) (_ []kafkago.Header, traceparent string) {
	for n := len(headers) - 1; n >= 0 && (headers[n].Key == headerTrace || headers[n].Key == headerTraceState); n-- {
		if h := headers[n]; h.Key == headerTrace {
			traceparent = ""
			if len(h.Value) == traceBytes {
				traceparent = string(h.Value)
			}
		}
		headers = headers[:n]
	}
	return headers, traceparent
}

func parseNumber(text []byte, n *uint64) bool {
	v, err := strconv.ParseUint(string(text), 10, 64)
	*n = v
	return err == nil && strconv.FormatUint(v, 10) == string(text)
}

// foreign is the record of a foreign message: its bytes in Kafka's record format from the
// key on, where each length is a zigzag varint and −1 stands for null.
func foreign(key, value []byte, headers []kafkago.Header) sealer.Record {
	field := func(dst, b []byte) []byte {
		if b == nil {
			return binary.AppendVarint(dst, -1)
		}
		return append(binary.AppendVarint(dst, int64(len(b))), b...)
	}
	b := field(nil, key)
	b = field(b, value)
	b = binary.AppendVarint(b, int64(len(headers)))
	for _, h := range headers {
		b = field(b, []byte(h.Key))
		b = field(b, h.Value)
	}
	return sealer.Record{Event: b}
}

// entry reads what stands at a position. It owns its bytes.
func entry(at sealer.Position, m *kafkago.Record) (sealer.Entry, error) {
	defer closeRecord(m)
	key, err := kafkago.ReadAll(m.Key)
	if err != nil {
		return sealer.Entry{}, fmt.Errorf("cannot read key at %s: %w", at, err)
	}
	value, err := kafkago.ReadAll(m.Value)
	if err != nil {
		return sealer.Entry{}, fmt.Errorf("cannot read value at %s: %w", at, err)
	}
	r, ok := parse(key, value, m.Headers)
	if !ok {
		r = foreign(key, value, m.Headers)
	}
	return sealer.Entry{Position: at, Record: r}, nil
}

// closeRecord returns the record's pages to the library.
func closeRecord(m *kafkago.Record) {
	if m.Key != nil {
		m.Key.Close()
	}
	if m.Value != nil {
		m.Value.Close()
	}
}
