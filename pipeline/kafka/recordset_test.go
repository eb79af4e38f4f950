package kafka

import (
	"bytes"
	"io"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muniment/sealer"
)

// message is what a reader finds of a record.
type message struct {
	key, value []byte
	headers    []kafkago.Header
}

// sent is what brokers get of records that share a batch, as the library reads it.
func sent(tb testing.TB, records ...*sealer.Record) []message {
	return read(tb, newBatch(records...))
}

// newBatch makes a batch that goes nowhere.
func newBatch(records ...*sealer.Record) *batch {
	b := &batch{queue: newQueue(&Log{}, 0), done: make(chan struct{})}
	for _, r := range records {
		b.add(r, wireSize(r), nil)
	}
	return b
}

// read encodes what is open of a batch and reads it back with the library, and with
// another client's description of the format.
func read(tb testing.TB, b *batch) (all []message) {
	require.True(tb, b.prepare())
	now := time.UnixMilli(1795264802123)
	set, err := io.ReadAll(b.encode(now))
	require.NoError(tb, err)

	var head kmsg.RecordBatch
	require.NoError(tb, head.ReadFrom(set[4:]))
	require.EqualValues(tb, len(b.open), head.NumRecords)
	require.Equal(tb, kmsg.RecordBatch{
		Length: int32(len(set) - 4 - 12), PartitionLeaderEpoch: -1, Magic: 2, CRC: head.CRC, LastOffsetDelta: int32(len(b.open) - 1),
		FirstTimestamp: now.UnixMilli(), MaxTimestamp: now.UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: head.NumRecords, Records: head.Records,
	}, head)
	for rest := head.Records; len(rest) > 0; {
		var r kmsg.Record
		require.NoError(tb, r.ReadFrom(rest))
		require.EqualValues(tb, len(all), r.OffsetDelta)
		m := message{key: r.Key, value: r.Value}
		for _, h := range r.Headers {
			m.headers = append(m.headers, kafkago.Header{Key: h.Key, Value: h.Value})
		}
		all = append(all, m)
		rest = rest[varintLen(int(r.Length))+int(r.Length):]
	}

	var theirs protocol.RecordSet
	_, err = theirs.ReadFrom(bytes.NewReader(set))
	require.NoError(tb, err)
	for i := 0; ; i++ {
		r, err := theirs.Records.ReadRecord()
		if err == io.EOF {
			require.Len(tb, all, i)
			return all
		}
		require.NoError(tb, err)
		require.EqualValues(tb, i, r.Offset)
		require.True(tb, now.Equal(r.Time))
		key, err := protocol.ReadAll(r.Key)
		require.NoError(tb, err)
		value, err := protocol.ReadAll(r.Value)
		require.NoError(tb, err)
		require.Equal(tb, message{key, value, r.Headers}, all[i])
	}
}

// TestRecordSet: records of all lengths come back whole, in one chunk of memory or in
// several, and also when some of them were withdrawn, with which the places of the
// others change, and the lengths of their heads.
func TestRecordSet(t *testing.T) {
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
	check := func(withdrawn func(i int) bool) {
		all := read(t, b)
		for i, r := range records {
			if withdrawn(i) {
				continue
			}
			back, ok := parse(all[0].key, all[0].value, all[0].headers)
			require.True(t, ok)
			require.Equal(t, *r, back)
			all = all[1:]
		}
		require.Empty(t, all)
	}
	check(func(int) bool { return false })
	odd := func(i int) bool { return i%2 == 1 }
	for i := range b.items {
		if odd(i) {
			b.items[i].err = io.EOF
		}
	}
	check(odd)
}

// TestWireSize: no record takes more than its bound.
func TestWireSize(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 8191, 8192, 1 << 20} {
		text := bytes.Repeat([]byte("x"), n)
		r := &sealer.Record{TenantID: string(text), EventID: string(text), Node: string(text), Epoch: 1<<64 - 1, Seq: 1<<64 - 1, Event: text, Private: text}
		encoded, _ := appendRecord(nil, 1<<20, r)
		require.LessOrEqual(t, len(encoded.bytes), wireSize(r))
	}
}
