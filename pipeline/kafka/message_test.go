package kafka

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

// newBatch makes a batch that is never sent.
func newBatch(records ...*sealer.Record) *batch {
	b := &batch{queue: newQueue(&Log{}, 0), done: make(chan struct{})}
	for _, r := range records {
		b.add(r, wireSize(r), nil)
	}
	return b
}

// encode returns what the brokers get of a batch.
func encode(tb testing.TB, b *batch) []byte {
	require.True(tb, b.prepare())
	set := b.records()
	set.Version = 2
	var encoded bytes.Buffer
	_, err := set.WriteTo(&encoded)
	require.NoError(tb, err)
	return encoded.Bytes()
}

// sent is what a reader gets of a batch.
func sent(tb testing.TB, b *batch) (all []message) {
	var set protocol.RecordSet
	_, err := set.ReadFrom(bytes.NewReader(encode(tb, b)))
	require.NoError(tb, err)
	for {
		r, err := set.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			require.Len(tb, all, len(b.open))
			return all
		}
		require.NoError(tb, err)
		require.EqualValues(tb, len(all), r.Offset)
		key, err := protocol.ReadAll(r.Key)
		require.NoError(tb, err)
		value, err := protocol.ReadAll(r.Value)
		require.NoError(tb, err)
		all = append(all, message{key, value, r.Headers})
	}
}

// TestBatch: records of all lengths come back whole, in one chunk of memory or in several,
// and also when the callers of some have given up.
func TestBatch(t *testing.T) {
	var records []*sealer.Record
	for i := range 200 {
		r := testRecord("tnt_a", i)
		r.Event = bytes.Repeat([]byte{byte('a' + i%26)}, 1+997*(i%40)) // some are larger than a chunk
		if i%3 == 0 {
			r.Private = nil
		}
		records = append(records, &r)
	}
	b := newBatch(records...)
	require.Greater(t, len(b.chunks), 1)
	check := func(left func(i int) bool) {
		all := sent(t, b)
		for i, r := range records {
			if left(i) {
				back, ok := parse(all[0].key, all[0].value, all[0].headers)
				require.True(t, ok)
				require.Equal(t, *r, back)
				all = all[1:]
			}
		}
		require.Empty(t, all)
	}
	check(func(int) bool { return true })
	even := func(i int) bool { return i%2 == 0 }
	for i := range b.items {
		if !even(i) {
			b.items[i].err = io.EOF
		}
	}
	check(even)
}

// TestWireSize: no record takes more than its bound.
func TestWireSize(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 8191, 8192, 1 << 20} {
		text := bytes.Repeat([]byte("x"), n)
		r := &sealer.Record{TenantID: string(text), EventID: string(text), Node: string(text), Epoch: 1<<64 - 1, Seq: 1<<64 - 1, Event: text, Private: text, Traceparent: strings.Repeat("0", traceBytes)}
		require.LessOrEqual(t, len(encode(t, newBatch(r))), 4+batchOverhead+wireSize(r))
		_, b := appendMessage(nil, r)
		require.LessOrEqual(t, len(b), wireSize(r))
	}
}

// TestMurmur2 checks the hash against the vectors of Apache Kafka's own tests.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		require.Equal(t, want, int32(murmur2(key)), key)
	}
}

func TestPartitionStays(t *testing.T) {
	require.Equal(t, int32(11), partitionOf("tnt_01JZ8Q2M3N4P5R6S7T8V9WXYZA", 12))
	require.Equal(t, int32(0), partitionOf("anything", 1))
}

func TestMessageIsReadable(t *testing.T) {
	r := testRecord("tnt_a", 41)
	m := sent(t, newBatch(&r))[0]
	require.Equal(t, "tnt_a", string(m.key))
	require.Equal(t, `{"n":41}`, string(m.value))
	var headers []string
	for _, h := range m.headers {
		headers = append(headers, h.Key+"="+string(h.Value))
	}
	require.Equal(t, []string{"tenantId=tnt_a", "eventId=" + r.EventID, "node=nod_test", "epoch=1", "seq=42", `private={"secret":41}`}, headers)

	back, ok := parse(m.key, m.value, m.headers)
	require.True(t, ok)
	require.Equal(t, r, back)
}

// TestTraceparent: a message carries it, and no header of a trace changes anything else of a record.
func TestTraceparent(t *testing.T) {
	const own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	type headers = []kafkago.Header
	for _, private := range []string{"", "{}"} {
		plain := testRecord("tnt_a", 1)
		plain.Private = []byte(private)
		if private == "" {
			plain.Private = nil
		}
		traced := plain
		traced.Traceparent = own
		m := sent(t, newBatch(&traced))[0]
		last := m.headers[len(m.headers)-1]
		require.Equal(t, "traceparent="+own, last.Key+"="+string(last.Value))
		back, ok := parse(m.key, m.value, m.headers)
		require.True(t, ok)
		require.Equal(t, traced, back)
		require.Equal(t, sealer.AppendRecord(nil, &plain), sealer.AppendRecord(nil, &traced))

		m = sent(t, newBatch(&plain))[0]
		for name, c := range map[string]struct {
			added headers
			want  string
		}{
			"an empty one":      {headers{{Key: "traceparent"}}, ""},
			"a text":            {headers{{Key: "traceparent", Value: []byte("x")}}, ""},
			"a long one":        {headers{{Key: "traceparent", Value: bytes.Repeat([]byte("0"), 1<<20)}}, ""},
			"and a state":       {headers{{Key: "traceparent", Value: []byte(own)}, {Key: "tracestate", Value: []byte("a=b")}}, own},
			"a state alone":     {headers{{Key: "tracestate", Value: []byte("a=b")}}, ""},
			"ours and another":  {headers{{Key: "traceparent", Value: []byte(own)}, {Key: "traceparent", Value: []byte("x")}}, own},
			"ours after others": {headers{{Key: "traceparent", Value: []byte("x")}, {Key: "traceparent", Value: []byte(own)}}, ""},
		} {
			want := plain
			want.Traceparent = c.want
			back, ok := parse(m.key, m.value, append(slices.Clone(m.headers), c.added...))
			require.True(t, ok, name)
			require.Equal(t, want, back, name)
		}
	}
	r := testRecord("tnt_a", 1)
	r.Traceparent = own + " and more"
	require.Len(t, sent(t, newBatch(&r))[0].headers, len(headerNames), "no such header is sent")
}

// TestForeignMessages changes one thing of a message at a time: what isn't ours in
// every detail comes back whole, without headers.
func TestForeignMessages(t *testing.T) {
	type raw struct {
		key, value []byte
		headers    []kafkago.Header
	}
	for name, spoil := range map[string]func(m *raw){
		"no key":                 func(m *raw) { m.key = nil },
		"another key":            func(m *raw) { m.key = []byte("tnt_b") },
		"a tombstone":            func(m *raw) { m.value = nil },
		"no headers":             func(m *raw) { m.headers = nil },
		"a header too few":       func(m *raw) { m.headers = m.headers[:4] },
		"a header too many":      func(m *raw) { m.headers = append(m.headers, kafkago.Header{Key: "trace"}) },
		"a header of other name": func(m *raw) { m.headers[2].Key = "host" },
		"a trace first":          func(m *raw) { m.headers = append([]kafkago.Header{{Key: "traceparent"}}, m.headers...) },
		"a trace among them":     func(m *raw) { m.headers = slices.Insert(m.headers, 5, kafkago.Header{Key: "traceparent"}) },
		"headers swapped":        func(m *raw) { m.headers[0], m.headers[1] = m.headers[1], m.headers[0] },
		"a sign":                 func(m *raw) { m.headers[3].Value = []byte("+1") },
		"leading zeros":          func(m *raw) { m.headers[4].Value = []byte("01") },
		"too large a number":     func(m *raw) { m.headers[4].Value = []byte("18446744073709551616") },
		"an empty private part":  func(m *raw) { m.headers[5].Value = []byte{} },
	} {
		r := testRecord("tnt_a", 1)
		m := sent(t, newBatch(&r))[0]
		changed := raw{m.key, m.value, slices.Clone(m.headers)}
		spoil(&changed)
		e, err := entry(sealer.Position{Generation: 1}, &kafkago.Record{
			Key: kafkago.NewBytes(changed.key), Value: kafkago.NewBytes(changed.value), Headers: changed.headers,
		})
		require.NoError(t, err)
		require.Equal(t, sealer.Record{Event: e.Event}, e.Record, name)
		require.Equal(t, foreign(changed.key, changed.value, changed.headers).Event, e.Event, name)
	}
}

// TestForeignIsWhole fixes the bytes: zigzag lengths, −1 for null.
func TestForeignIsWhole(t *testing.T) {
	got := foreign(nil, []byte("v"), []kafkago.Header{{Key: "h", Value: []byte{}}, {Key: "n"}})
	require.Equal(t, "\x01\x02v\x04\x02h\x00\x02n\x01", string(got.Event))
}
