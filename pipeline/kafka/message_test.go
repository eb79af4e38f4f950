package kafka

import (
	"slices"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// TestMurmur2 holds the hash against the vectors of Apache Kafka's own tests.
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
	m := sent(t, &r)[0]
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
		"headers swapped":        func(m *raw) { m.headers[0], m.headers[1] = m.headers[1], m.headers[0] },
		"a sign":                 func(m *raw) { m.headers[3].Value = []byte("+1") },
		"leading zeros":          func(m *raw) { m.headers[4].Value = []byte("01") },
		"too large a number":     func(m *raw) { m.headers[4].Value = []byte("18446744073709551616") },
		"an empty private part":  func(m *raw) { m.headers[5].Value = []byte{} },
	} {
		r := testRecord("tnt_a", 1)
		m := sent(t, &r)[0]
		spoilt := raw{m.key, m.value, slices.Clone(m.headers)}
		spoil(&spoilt)
		e, err := entry(sealer.Position{Generation: 1}, &kafkago.Record{
			Key: kafkago.NewBytes(spoilt.key), Value: kafkago.NewBytes(spoilt.value), Headers: spoilt.headers,
		})
		require.NoError(t, err)
		require.Equal(t, sealer.Record{Event: e.Event}, e.Record, name)
		require.Equal(t, foreign(spoilt.key, spoilt.value, spoilt.headers).Event, e.Event, name)
	}
}

// TestForeignIsWhole fixes the bytes: zigzag lengths, −1 for null.
func TestForeignIsWhole(t *testing.T) {
	got := foreign(nil, []byte("v"), []kafkago.Header{{Key: "h", Value: []byte{}}, {Key: "n"}})
	require.Equal(t, "\x01\x02v\x04\x02h\x00\x02n\x01", string(got.Event))
}
