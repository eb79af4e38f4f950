package kafka

import (
	"encoding/binary"
	"fmt"
	"strconv"

	kafkago "github.com/segmentio/kafka-go"

	"muniment/sealer"
)

// A record is a message in which every tool can read the event:
//
//	key      tenant id
//	value    event, verbatim
//	headers  tenantId, eventId, node, epoch, seq in this order, as text, and
//	         private, verbatim, where there is a private part
//
// Epoch and seq are decimal without leading zeros. A message that deviates from
// this in anything is foreign.
var headerNames = [...]string{"tenantId", "eventId", "node", "epoch", "seq", "private"}

const requiredHeaders = len(headerNames) - 1

// recordOverhead bounds what a message adds to its record's bytes: the lengths,
// the header names, two numbers, the tenant id a second time is counted apart.
const recordOverhead = 160

// batchOverhead is the header of a batch in Kafka's record format.
const batchOverhead = 61

// wireSize bounds the bytes of a record in a batch.
func wireSize(r *sealer.Record) int {
	return recordOverhead + 2*len(r.TenantID) + len(r.EventID) + len(r.Node) + len(r.Event) + len(r.Private)
}

// message is a record as it is sent. Its bytes are shared by all attempts.
type message struct {
	key, value []byte
	headers    []kafkago.Header
}

// chunkBytes is how much memory the messages of a batch get at a time, at least.
const chunkBytes = 16 << 10

// newMessage copies a record behind buf, and returns what follows it with the next one.
// Where buf has no room left it begins another: to let it grow would copy all that is
// in it, and keep the old one for those that point there.
func newMessage(buf []byte, r *sealer.Record) (message, []byte) {
	if need := wireSize(r); cap(buf)-len(buf) < need {
		size := max(chunkBytes, need)
		if buf == nil {
			size = need // most batches are small when little is to do
		}
		buf = make([]byte, 0, size)
	}
	from := len(buf)
	cut := func() []byte {
		b := buf[from:len(buf):len(buf)]
		from = len(buf)
		return b
	}
	text := func(s string) []byte { buf = append(buf, s...); return cut() }
	number := func(n uint64) []byte { buf = strconv.AppendUint(buf, n, 10); return cut() }

	tenant := text(r.TenantID)
	headers := make([]kafkago.Header, requiredHeaders, len(headerNames))
	for i, value := range [...][]byte{tenant, text(r.EventID), text(r.Node), number(r.Epoch), number(r.Seq)} {
		headers[i] = kafkago.Header{Key: headerNames[i], Value: value}
	}
	buf = append(buf, r.Event...)
	event := cut()
	if len(r.Private) > 0 {
		buf = append(buf, r.Private...)
		headers = append(headers, kafkago.Header{Key: headerNames[requiredHeaders], Value: cut()})
	}
	return message{tenant, event, headers}, buf
}

// record is what one attempt sends.
func (m message) record() kafkago.Record {
	return kafkago.Record{Key: kafkago.NewBytes(m.key), Value: kafkago.NewBytes(m.value), Headers: m.headers}
}

// parse reads a message; ok is false for a foreign one.
func parse(key, value []byte, headers []kafkago.Header) (r sealer.Record, ok bool) {
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

func parseNumber(text []byte, n *uint64) bool {
	v, err := strconv.ParseUint(string(text), 10, 64)
	*n = v
	return err == nil && strconv.FormatUint(v, 10) == string(text)
}

// foreign keeps a foreign message whole: as Kafka's record format has it from the
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

// closeRecord gives the library its pages back.
func closeRecord(m *kafkago.Record) {
	if m.Key != nil {
		m.Key.Close()
	}
	if m.Value != nil {
		m.Value.Close()
	}
}
