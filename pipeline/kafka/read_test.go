package kafka

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// stranger is another program that writes the topic.
func stranger(tb testing.TB, cfg Config, opts ...kgo.Opt) *kgo.Client {
	opts = append(opts, kgo.SeedBrokers(cfg.Brokers...), kgo.DefaultProduceTopic(cfg.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	client, err := kgo.NewClient(opts...)
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	return client
}

// TestTraceparentGoesThroughTheTopic: what an append says is what a loader reads.
func TestTraceparentGoesThroughTheTopic(t *testing.T) {
	_, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{Partitions: 1})
	l := mustOpen(t, cfg)
	traced, plain := testRecord("tnt_a", 0), testRecord("tnt_a", 1)
	traced.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	_, errs := l.AppendAll(t.Context(), []*sealer.Record{&traced, &plain})
	require.Equal(t, []error{nil, nil}, errs)
	// Somebody on the way adds headers of a trace.
	message := &kgo.Record{Key: []byte(plain.TenantID), Value: plain.Event}
	for _, h := range sent(t, newBatch(&plain))[0].headers {
		message.Headers = append(message.Headers, kgo.RecordHeader(h))
	}
	message.Headers = append(message.Headers, kgo.RecordHeader{Key: "tracestate", Value: []byte("x")}, kgo.RecordHeader{Key: "traceparent", Value: make([]byte, 1<<16)})
	require.NoError(t, stranger(t, cfg).ProduceSync(t.Context(), message).FirstErr())

	all := collect(t, l)
	require.Len(t, all, 3)
	require.Equal(t, traced, all[0].Record)
	require.Equal(t, plain, all[1].Record)
	require.Equal(t, plain, all[2].Record)
}

// TestForeignMessage: a foreign message takes its place among ours, whole.
func TestForeignMessage(t *testing.T) {
	_, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{Partitions: 1})
	l := mustOpen(t, cfg)
	r := testRecord("tnt_a", 0)
	_, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	message := &kgo.Record{Key: []byte("k"), Value: []byte("not ours"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}}
	require.NoError(t, stranger(t, cfg).ProduceSync(t.Context(), message).FirstErr())
	_, err = l.Append(t.Context(), &r)
	require.NoError(t, err)

	all := collect(t, l)
	require.Len(t, all, 3)
	require.Equal(t, r, all[0].Record)
	require.Equal(t, foreign([]byte("k"), []byte("not ours"), []kafkago.Header{{Key: "h", Value: []byte("v")}}), all[1].Record)
	require.Equal(t, r, all[2].Record)
}

// TestGap: a transaction's marker takes an offset that no record has.
func TestGap(t *testing.T) {
	_, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{Partitions: 1})
	client := stranger(t, cfg, kgo.TransactionalID("stranger"))
	require.NoError(t, client.BeginTransaction())
	require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr())
	require.NoError(t, client.EndTransaction(t.Context(), kgo.TryCommit))

	l := mustOpen(t, cfg)
	r := testRecord("tnt_a", 0)
	last, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	require.Equal(t, int64(2), last.Offset)
	first, end, err := l.Bounds(t.Context(), 0)
	require.NoError(t, err)
	calls := 0
	err = l.Scan(t.Context(), first, end, func(sealer.Entry) error { calls++; return nil })
	require.ErrorIs(t, err, pipeline.ErrGap)
	require.ErrorContains(t, err, "from offset 1 up to 2")
	require.Equal(t, 1, calls)
	_, err = l.Read(t.Context(), sealer.Position{Generation: first.Generation, Offset: 1})
	require.ErrorIs(t, err, pipeline.ErrGap)
	e, err := l.Read(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, r, e.Record)
}

// fetchAnswer makes every fetch bring these bytes, from a log that ends at end.
func fetchAnswer(cluster *kfake.Cluster, batches []byte, end int64) {
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		f := req.(*kmsg.FetchRequest)
		res := f.ResponseKind().(*kmsg.FetchResponse)
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.HighWatermark, p.RecordBatches = f.Topics[0].Partitions[0].Partition, end, batches
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.Partitions = f.Topics[0].Topic, append(topic.Partitions, p)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
}

// TestDamagedBatch: bytes that don't match their checksum are not tried again and
// not served.
func TestDamagedBatch(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{Partitions: 1}))
	r := testRecord("tnt_a", 0)
	at, err := l.Append(t.Context(), &r)
	require.NoError(t, err)

	batch := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: make([]byte, 30)}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	fetchAnswer(cluster, batch.AppendTo(nil), 1)
	_, err = l.Read(t.Context(), at)
	require.ErrorIs(t, err, pipeline.ErrDamaged)
	err = l.Scan(t.Context(), at, at.Next(), func(sealer.Entry) error { return nil })
	require.ErrorIs(t, err, pipeline.ErrDamaged)
}

// TestNothingWhereSomethingIs: a broker whose response lacks records that it names is
// not asked for ever.
func TestNothingWhereSomethingIs(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{Partitions: 1}))
	r := testRecord("tnt_a", 0)
	at, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	fetchAnswer(cluster, nil, 1)
	err = l.Scan(t.Context(), at, at.Next(), func(sealer.Entry) error { return nil })
	require.ErrorIs(t, err, pipeline.ErrGap)
}

// TestReadsOutlastAFailOver, and give up when it lasts.
func TestReadsOutlastAFailOver(t *testing.T) {
	t.Parallel()
	cluster, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{Partitions: 1})
	cfg.ReadTimeout = time.Hour
	l := mustOpen(t, cfg)
	r := testRecord("tnt_a", 0)
	at, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	reads := []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets}
	cluster.Fault(kfake.Fault{Keys: reads, Err: kerr.NotLeaderForPartition, Count: 3})
	e, err := l.Read(t.Context(), at)
	require.NoError(t, err)
	require.Equal(t, r, e.Record)
	cluster.Fault(kfake.Fault{Keys: reads, Err: kerr.OffsetNotAvailable, Count: 3})
	_, end, err := l.Bounds(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, at.Next(), end)

	cfg.ReadTimeout = 500 * time.Millisecond
	l = mustOpen(t, cfg)
	waittest.Until(t, l.isKnown)
	cluster.Fault(kfake.Fault{Keys: reads, Err: kerr.NotLeaderForPartition, Count: -1})
	_, _, err = l.Bounds(t.Context(), 0)
	require.ErrorIs(t, err, kafkago.NotLeaderForPartition)
	_, err = l.Read(t.Context(), at)
	require.ErrorIs(t, err, kafkago.NotLeaderForPartition)
}

// TestPartitionsSideBySide: many tenants written, waited for and read at once.
func TestPartitionsSideBySide(t *testing.T) {
	_, brokers := fakeCluster(t, kfake.NumBrokers(3))
	l := mustOpen(t, freshTopic(t, brokers, Topic{Partitions: 8}))
	const tenants, each = 40, 50
	ctx := t.Context()
	var read sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	failed := make(chan error, 8+tenants)
	reading, stop := context.WithCancel(ctx)
	_, err := l.Partitions(ctx)
	require.NoError(t, err)
	for p := range int32(8) {
		read.Go(func() {
			next, _, err := l.Bounds(ctx, p)
			for err == nil && l.Wait(reading, next) == nil {
				var end sealer.Position
				if _, end, err = l.Bounds(ctx, p); err == nil {
					err = l.Scan(ctx, next, end, func(e sealer.Entry) error {
						mu.Lock()
						defer mu.Unlock()
						if e.Seq != uint64(got[e.TenantID]+1) {
							return fmt.Errorf("%s: %d after %d", e.TenantID, e.Seq, got[e.TenantID])
						}
						got[e.TenantID]++
						return nil
					})
				}
				next = end
			}
			failed <- err
		})
	}
	var written sync.WaitGroup
	for i := range tenants {
		written.Go(func() {
			for n := range each {
				r := testRecord(fmt.Sprintf("tnt_%d", i), n)
				if _, err := l.Append(ctx, &r); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	written.Wait()
	waittest.Until(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		total := 0
		for _, n := range got {
			total += n
		}
		return total == tenants*each
	})
	stop()
	read.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	_, _, err = l.Bounds(ctx, 8)
	require.ErrorContains(t, err, "no partition 8")
}

// TestReadBehindClose: a read that began before Close, and doesn't know of it when it sends
// the brokers, leaves nothing behind, even if it is answered.
func TestReadBehindClose(t *testing.T) {
	before := goleak.IgnoreCurrent()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	l, err := Open(freshTopic(t, cluster.ListenAddrs(), Topic{}))
	require.NoError(t, err)
	require.NoError(t, l.read(t.Context(), "cannot read", 0, func(_ context.Context, topic *topic) error {
		require.NoError(t, l.Close())
		_, _, err := l.bounds(t.Context(), topic, 0)
		return err
	}))
	cluster.Close()
	requireNothingLeft(t, before)
}
