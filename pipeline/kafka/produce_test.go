package kafka

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

var produceKey = []kmsg.Key{kmsg.Produce}

// TestLostAcknowledgement: the brokers have written and say that they don't know. The
// record is sent again, and each copy is whole.
func TestLostAcknowledgement(t *testing.T) {
	for _, answer := range []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend} {
		cluster, brokers := fakeCluster(t)
		l := mustOpen(t, freshTopic(t, brokers, Topic{}))
		fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: answer, Count: 2})
		r := testRecord("tnt_a", 1)
		at, err := l.Append(t.Context(), &r)
		require.NoError(t, err)
		require.Equal(t, 2, fault.Hits())
		require.Equal(t, int64(2), at.Offset, "the acknowledged copy")
		all := collect(t, l)
		require.Len(t, all, 3)
		for _, e := range all {
			require.Equal(t, r, e.Record)
		}
	}
}

// TestConnectionLostBehindTheWrite: the connection breaks before the answer.
func TestConnectionLostBehindTheWrite(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{}))
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("cut the connection"), true
	})
	r := testRecord("tnt_a", 1)
	_, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	require.Len(t, collect(t, l), 1)
}

// TestFailOver: what a broker answers while a partition has no leader, or too few
// replicas, delays records and keeps their order.
func TestFailOver(t *testing.T) {
	cluster, brokers := fakeCluster(t, kfake.NumBrokers(3))
	cfg := freshTopic(t, brokers, Topic{Replication: 3})
	cfg.MaxBackoff = 20 * time.Millisecond
	l := mustOpen(t, cfg)
	for _, answer := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.KafkaStorageError, kerr.TopicAuthorizationFailed} {
		cluster.Fault(kfake.Fault{Keys: produceKey, Err: answer, Count: 3})
	}
	const n = 300
	sent := make([]pending, n)
	for i := range n {
		r := testRecord("tnt_a", i)
		var err error
		sent[i], err = l.enqueue(t.Context(), &r, nil)
		require.NoError(t, err)
		if i%50 == 0 {
			cluster.ShufflePartitionLeaders()
		}
	}
	for i := range n {
		_, err := sent[i].wait(t.Context())
		require.NoError(t, err)
	}
	all := collect(t, l)
	require.Len(t, all, n)
	for i, e := range all {
		require.Equal(t, testRecord("tnt_a", i), e.Record)
	}
}

// TestOneRequestInFlight: what queues while a request runs is the next one.
func TestOneRequestInFlight(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{}))
	var mu sync.Mutex
	var batches []int32
	entered, release := make(chan struct{}), make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		var batch kmsg.RecordBatch
		require.NoError(t, batch.ReadFrom(req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records))
		mu.Lock()
		batches = append(batches, batch.NumRecords)
		first := len(batches) == 1
		mu.Unlock()
		if first {
			cluster.SleepControl(func() { close(entered); <-release })
		}
		return nil, nil, false
	})
	var sent []pending
	enqueue := func(i int) {
		r := testRecord("tnt_a", i)
		p, err := l.enqueue(t.Context(), &r, nil)
		require.NoError(t, err)
		sent = append(sent, p)
	}
	enqueue(0)
	<-entered
	for i := 1; i <= 100; i++ {
		enqueue(i)
	}
	close(release)
	for i, p := range sent {
		at, err := p.wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(i), at.Offset)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []int32{1, 100}, batches)
}

// TestManyAreOneRequest: those of one tenant that are handed over together. One that is too
// large, or that the brokers refuse, fails alone.
func TestManyAreOneRequest(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{MessageBytes: 200_000}))
	poison := []byte("POISON")
	var mu sync.Mutex
	var batches []int32
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		topic := req.(*kmsg.ProduceRequest).Topics[0]
		var batch kmsg.RecordBatch
		require.NoError(t, batch.ReadFrom(topic.Partitions[0].Records))
		mu.Lock()
		batches = append(batches, batch.NumRecords)
		mu.Unlock()
		if !bytes.Contains(topic.Partitions[0].Records, poison) {
			return nil, nil, false
		}
		return refusing(req), nil, true
	})
	many := func(from, n int) []*sealer.Record {
		rs := make([]*sealer.Record, n)
		for i := range rs {
			r := testRecord("tnt_a", from+i)
			rs[i] = &r
		}
		return rs
	}
	at, errs := l.AppendAll(yielding{t.Context()}, many(0, 300))
	for i := range at {
		require.NoError(t, errs[i])
		require.Equal(t, int64(i), at[i].Offset)
	}
	require.Equal(t, []int32{300}, batches)

	rs := many(300, 10)
	rs[3].Event, rs[7].Private = poison, bytes.Repeat([]byte("x"), 200_000)
	at, errs = l.AppendAll(t.Context(), rs)
	for i := range rs {
		switch i {
		case 3:
			require.ErrorIs(t, errs[i], kafkago.InvalidRecord)
		case 7:
			require.ErrorIs(t, errs[i], ErrTooLarge)
		default:
			require.NoError(t, errs[i])
			continue
		}
		require.Zero(t, at[i])
	}
	require.Len(t, collect(t, l), 308)
}

// yielding lets goroutines that are ready to send do so between two records.
type yielding struct{ context.Context }

func (yielding) Err() error {
	for range 100 {
		runtime.Gosched()
	}
	return nil
}

// refusing is the answer of a broker that takes none of a request's records.
func refusing(req kmsg.Request) kmsg.Response {
	topic := req.(*kmsg.ProduceRequest).Topics[0]
	res := req.ResponseKind().(*kmsg.ProduceResponse)
	rt := kmsg.NewProduceResponseTopic()
	rp := kmsg.NewProduceResponseTopicPartition()
	rp.Partition, rp.ErrorCode = topic.Partitions[0].Partition, kerr.InvalidRecord.Code
	rt.Topic, rt.Partitions = topic.Topic, append(rt.Partitions, rp)
	res.Topics = append(res.Topics, rt)
	return res
}

// TestPoisonedRecord: a record that the brokers will never take fails alone, and one
// that is too large is not even sent.
func TestPoisonedRecord(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{MessageBytes: 20000}))

	large := testRecord("tnt_a", 0)
	large.Private = bytes.Repeat([]byte("x"), 20000)
	_, err := l.Append(t.Context(), &large)
	require.ErrorIs(t, err, ErrTooLarge)
	require.Empty(t, collect(t, l))

	// A broker that refuses whatever holds the poison.
	poison := []byte("POISON")
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		topic := req.(*kmsg.ProduceRequest).Topics[0]
		if !bytes.Contains(topic.Partitions[0].Records, poison) {
			return nil, nil, false
		}
		return refusing(req), nil, true
	})
	var sent []pending
	for i := range 20 {
		r := testRecord("tnt_a", i)
		if i == 7 {
			r.Event = poison
		}
		p, err := l.enqueue(t.Context(), &r, nil)
		require.NoError(t, err)
		sent = append(sent, p)
	}
	for i, p := range sent {
		_, err := p.wait(t.Context())
		if i == 7 {
			require.ErrorIs(t, err, kafkago.InvalidRecord)
		} else {
			require.NoError(t, err, "record %d", i)
		}
	}
	all := collect(t, l)
	require.Len(t, all, 19)
	require.Equal(t, testRecord("tnt_a", 8), all[7].Record)
}

// TestInOrder: behind a record that is refused, or given up, nothing is sent.
func TestInOrder(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{}))
	records := func(poisoned int) (rs []*sealer.Record) {
		for i := range 20 {
			r := testRecord("tnt_a", i)
			if i == poisoned {
				r.Event = []byte("POISON")
			}
			rs = append(rs, &r)
		}
		return rs
	}
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if !bytes.Contains(req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records, []byte("POISON")) {
			return nil, nil, false
		}
		return refusing(req), nil, true
	})
	n, err := l.AppendInOrder(t.Context(), records(7))
	require.ErrorIs(t, err, kafkago.InvalidRecord)
	require.Equal(t, 7, n)
	require.Len(t, collect(t, l), 7)

	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotLeaderForPartition, Count: -1})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		assert.NoError(t, fault.Wait(t.Context(), 2))
		cancel()
	}()
	n, err = l.AppendInOrder(ctx, records(-1))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, n)
	fault.Remove()
	n, err = l.AppendInOrder(t.Context(), records(-1))
	require.NoError(t, err)
	require.Equal(t, 20, n)
	require.Len(t, collect(t, l), 27, "what was given up is not sent")
}

// TestFullQueue: what waits is bounded; a place is free again when its record is done
// with, also when its caller has given up.
func TestFullQueue(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{})
	cfg.QueueBytes = 10_000
	l := mustOpen(t, cfg)
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotLeaderForPartition, Count: -1})
	r := testRecord("tnt_a", 0)
	var sent []pending
	for {
		p, err := l.enqueue(t.Context(), &r, nil)
		if err != nil {
			require.ErrorIs(t, err, pipeline.ErrFull)
			break
		}
		sent = append(sent, p)
	}
	require.Len(t, sent, 10_000/wireSize(&r))

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, p := range sent {
		_, err := p.wait(gone)
		require.ErrorIs(t, err, context.Canceled)
	}
	for _, p := range sent {
		<-p.done
	}
	fault.Remove()
	_, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	require.Len(t, collect(t, l), 1, "what its caller gave up is not sent")
}

// TestGivingUpNamesTheCause: a deadline alone would not help an operator.
func TestGivingUpNamesTheCause(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{}))
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	ctx, cancel := context.WithCancel(t.Context())
	r := testRecord("tnt_a", 0)
	p, err := l.enqueue(ctx, &r, nil)
	require.NoError(t, err)
	require.NoError(t, fault.Wait(t.Context(), 2))
	cancel()
	_, err = p.wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, kafkago.NotEnoughReplicas)
}

// TestGivingUpOneByOne: the same for a record that is sent alone, since the brokers
// refused its batch.
func TestGivingUpOneByOne(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{}))
	_, err := l.Partitions(t.Context())
	require.NoError(t, err)
	cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.InvalidRecord, Count: 1})
	fault := cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotEnoughReplicas, Count: -1})
	b := &batch{queue: l.topic.queues[partitionOf("tnt_a", 4)], done: make(chan struct{})}
	for i := range 2 {
		r := testRecord("tnt_a", i)
		b.add(&r, wireSize(&r), nil)
	}
	l.senders.Go(b.send)
	require.NoError(t, fault.Wait(t.Context(), 3))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range b.items {
		_, err := pending{b, i}.wait(gone)
		require.ErrorIs(t, err, errFailing)
		require.ErrorIs(t, err, kafkago.NotEnoughReplicas)
	}
}

// TestClose: what is queued is sent, and nothing after it.
func TestClose(t *testing.T) {
	_, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{})
	l := mustOpen(t, cfg)
	var sent []pending
	for i := range 100 {
		r := testRecord("tnt_a", i)
		p, err := l.enqueue(t.Context(), &r, nil)
		require.NoError(t, err)
		sent = append(sent, p)
	}
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	for _, p := range sent {
		_, err := p.wait(t.Context())
		require.NoError(t, err)
	}
	r := testRecord("tnt_a", 100)
	_, err := l.Append(t.Context(), &r)
	require.ErrorIs(t, err, pipeline.ErrClosed)
	_, _, err = l.Bounds(t.Context(), 0)
	require.ErrorIs(t, err, pipeline.ErrClosed)
	require.ErrorIs(t, l.Wait(t.Context(), sealer.Position{Generation: 1}), pipeline.ErrClosed)
	require.Len(t, collect(t, mustOpen(t, cfg)), 100)
}

// TestCloseWithoutBrokers ends what waits for an answer that doesn't come.
func TestCloseWithoutBrokers(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	cfg := freshTopic(t, brokers, Topic{})
	cfg.RequestTimeout = 200 * time.Millisecond
	l := mustOpen(t, cfg)
	cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.NotLeaderForPartition, Count: -1})
	r := testRecord("tnt_a", 0)
	p, err := l.enqueue(t.Context(), &r, nil)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = p.wait(t.Context())
	require.ErrorIs(t, err, pipeline.ErrClosed)
}

// TestCloseBesideAppend: a record that was put into its queue right before Close is
// sent, even if its caller doesn't know yet.
func TestCloseBesideAppend(t *testing.T) {
	before := goleak.IgnoreCurrent()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	l, err := Open(freshTopic(t, cluster.ListenAddrs(), Topic{}))
	require.NoError(t, err)
	_, err = l.Partitions(t.Context())
	require.NoError(t, err)

	q := l.topic.queues[3]
	r := testRecord(tenantOf(3), 0)
	p, idle, err := q.add(&r, wireSize(&r), nil)
	require.NoError(t, err)
	require.True(t, idle)
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	waittest.Until(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.refuse != nil
	})
	q.offer()
	_, err = p.wait(t.Context())
	require.NoError(t, err)
	require.NoError(t, <-closed)
	cluster.Close()
	requireNothingLeft(t, before)
}

// TestNothingIsLeft: a log that was closed has no goroutine and no connection.
func TestNothingIsLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	l, err := Open(freshTopic(t, cluster.ListenAddrs(), Topic{}))
	require.NoError(t, err)
	r := testRecord("tnt_a", 0)
	at, err := l.Append(t.Context(), &r)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() { waiting <- l.Wait(ctx, at.Next()) }()
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-waiting, pipeline.ErrClosed)
	cancel()
	cluster.Close()
	requireNothingLeft(t, before)
}

// TestChain: what stands behind a refused record of its row isn't sent.
func TestChain(t *testing.T) {
	cluster, brokers := fakeCluster(t)
	l := mustOpen(t, freshTopic(t, brokers, Topic{}))
	_, err := l.Partitions(t.Context())
	require.NoError(t, err)
	// The batch as a whole is refused, then the first record alone; then all is well.
	cluster.Fault(kfake.Fault{Keys: produceKey, Err: kerr.InvalidRecord, Count: 2})
	b := &batch{queue: l.topic.queues[partitionOf("tnt_a", 4)], done: make(chan struct{})}
	var row sequence
	for i := range 3 {
		r := testRecord("tnt_a", i)
		b.add(&r, wireSize(&r), &row)
	}
	b.send()
	for i := range b.items {
		require.ErrorIs(t, b.items[i].err, kafkago.InvalidRecord)
	}
	require.Empty(t, collect(t, l))
}
