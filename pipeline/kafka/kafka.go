// Package kafka keeps the event log in a topic of Apache Kafka: the log of a
// service on more than one machine.
//
// A record whose Append returned nil is acknowledged by every in-sync replica. A reader
// gets each record once, in order, or an error. Durability is the topic's (see Topic):
// three replicas, two of them in sync, no unclean election. Kafka doesn't sync each
// message to disk.
//
// Append puts a record into its partition's queue and waits. There is one request in
// flight for each partition, and one for each broker, which never waits for more: its next
// request takes what has gathered meanwhile for the partitions that it leads. A request
// that takes longer than 200 ms delays only the partitions in it. What fails is retried,
// for ever and before anything behind it, in requests of that partition alone: a partition
// without a leader, a killed broker or a lost network delays records, never reorders them,
// and delays other partitions by the one request at most. A caller that can't wait has a
// ctx. A request that is slow but doesn't fail delays all that is in it: a broker responds
// when the slowest partition is acknowledged, so a follower that lags delays every request
// with one of its partitions, and one that hangs does so for half of Config.RequestTimeout.
//
// What it refuses, and what happens when something is wrong:
//   - A request's outcome is unknown (a lost acknowledgement, a timeout): it is sent
//     again, and the topic may hold its records twice. Copies have the same event id,
//     and the warehouse collapses them; there is no idempotent producer here.
//   - A ctx that is done removes its record from the queue and from the next attempt. A
//     request that is under way may still write it.
//   - QueueBytes of records wait already: pipeline.ErrFull, nothing was written.
//   - A record larger than the topic takes is refused before it is sent. If the
//     brokers refuse a batch's content, its records are sent one by one, so that a
//     poisoned one fails alone.
//   - The brokers can't be reached, at the start too: Append and the reads wait, the
//     reads for at most Config.ReadTimeout, and their errors name the cause.
//   - The topic was recreated, or its partition count changed, while the log was
//     open: everything fails with pipeline.ErrFailed, and the process has to start
//     again. It is noticed within Config.CheckEvery or at the next failure.
//   - An offset is missing, as after compaction or behind a transaction's marker:
//     Scan stops with pipeline.ErrGap. A batch that doesn't match its checksum is
//     pipeline.ErrDamaged.
//   - A message doesn't have the form that message.go describes: it is an entry with
//     empty headers whose Event is the whole message.
//
// A topic has one generation, which Topic.Migrate sets in the topic's configuration, so
// that a recreated topic is not taken for the one that it replaced. It is the second of
// the topic's creation, counted from 1970, so it rises by itself. It is stored as
// delete.retention.ms, which has no effect on a topic whose cleanup policy is delete,
// is deleted with the topic, and can be read by any tool; a topic that doesn't set it
// has no generation and is refused.
//
// Spooled is a log in front of this one that goes on while Kafka is away. Group divides
// the partitions among loader processes by a consumer group.
//
// Decisions: a tenant's partition is murmur2 of its id, as Kafka's own clients place
// a key. The position of a record with copies is that of the copy that was
// acknowledged. A consumer group decides which process loads, never from which offset:
// the loader keeps its own position in the warehouse. Non-goals: transactions, compression,
// and topics of an older record format.
//
// One request for all partitions of a broker is more code than kafka-go's Client.Produce,
// which takes one partition, and stays for its figures: 16 writers, records of 900 bytes, 12
// partitions, one broker of Kafka 4.1.1 on the same two cores, acks of all replicas, median of
// four alternating rounds, 23 November 2026. Beyond some 100,000 records a second requests of
// single partitions are faster, as they keep the broker busier; a node doesn't get there.
//
//	writers                    16               256               1000
//	                one request  each   one request  each   one request  each
//	records/s            20,000 12,400        86,000 85,000        88,000 145,000
//	CPU a record, µs       22.3   50.5           6.2    8.8           5.6    6.1
//	the broker's, µs       37.7   76.8           7.5   11.6          14.0    6.8
//
// Encoding the batches ourselves as well took 1.2 to 1.8 µs less of a record, of some 90 µs
// that a receipt takes, and is left to the library. Both together once took 21 and 16 % off a
// receipt's CPU at 64 and 256 connections (bench/README.md).
package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"muniment.example/pipeline"
)

// Log is a topic that is open for appending and reading.
type Log struct {
	cfg       Config
	client    *kafkago.Client
	transport *kafkago.Transport
	metrics   *metrics

	// ctx is done when the log is closed or has failed; its cause is the error.
	ctx    context.Context
	refuse context.CancelCauseFunc
	// senders are the queues that are busy and the goroutines that send what is in them.
	// They are done when the queues are empty, or the log refuses everything.
	senders      sync.WaitGroup
	leaders      leaders
	slow         time.Duration // slowRequest, but for tests
	chunks       chunks
	watcher      sync.WaitGroup
	stopWatching context.CancelFunc

	queued  atomic.Int64  // bytes of the records that wait
	look    chan struct{} // makes the watcher describe the topic now
	known   chan struct{} // closed when topic is set for the first time
	closing chan struct{} // closed by Close
	closed  sync.Once

	mu       sync.RWMutex
	topic    *topic // nil until known
	topicErr error  // of the last description; nil if it succeeded

	warning string // about the topic's settings, of the last description; owned by the watcher
}

var _ pipeline.OrderedLog = (*Log)(nil)

// topic is what is known of a topic, for as long as the log is open.
type topic struct {
	generation   uint32
	messageBytes atomic.Int64 // may be raised while the log is open
	retention    atomic.Int64 // in milliseconds, may change too; negative keeps for ever
	sized        atomic.Bool  // the brokers also drop records by the partition's size; may change
	queues       []*queue     // by partition
}

// batchBytes is the size at which a batch takes no further record.
func (t *topic) batchBytes(cfg Config) int {
	return min(cfg.RequestBytes, int(t.messageBytes.Load()))
}

// Open starts a log. It doesn't wait for the brokers: Ready reports whether they answer,
// and appends and reads wait for them. Close ends it.
func Open(cfg Config) (*Log, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	client, transport, err := cfg.client()
	if err != nil {
		return nil, fmt.Errorf("cannot open topic %s: %w", cfg.Topic, err)
	}
	l := &Log{
		cfg:       cfg,
		client:    client,
		transport: transport,
		look:      make(chan struct{}, 1),
		known:     make(chan struct{}),
		closing:   make(chan struct{}),
		topicErr:  errors.New("no broker has answered yet"),
		slow:      slowRequest,
	}
	l.leaders = leaders{log: l, brokers: map[int]*broker{}, led: map[int]*broker{}}
	l.metrics = newMetrics(func() float64 { return float64(l.queued.Load()) }, l.Ready)
	if err := pipeline.Register(cfg.Registerer, l.metrics.all...); err != nil {
		return nil, fmt.Errorf("cannot register metrics of the log: %w", err)
	}
	l.ctx, l.refuse = context.WithCancelCause(context.Background())
	watching, stop := context.WithCancel(l.ctx)
	l.stopWatching = stop
	l.watcher.Go(func() { l.watch(watching) })
	return l, nil
}

// Close sends what is queued, for as long as one request may take, and ends the
// log. What is not acknowledged by then, and calls that run or come later, fail with
// pipeline.ErrClosed.
func (l *Log) Close() error {
	l.closed.Do(func() {
		close(l.closing)
		l.stopWatching()
		l.watcher.Wait()
		if l.topic != nil {
			for _, q := range l.topic.queues {
				q.close(pipeline.ErrClosed)
			}
		}
		sent := make(chan struct{})
		go func() { l.senders.Wait(); close(sent) }()
		ctx, cancel := context.WithTimeout(l.ctx, l.cfg.RequestTimeout)
		defer cancel()
		select {
		case <-sent:
		case <-ctx.Done():
		}
		l.refuse(pipeline.ErrClosed)
		<-sent
		l.transport.CloseIdleConnections()
		pipeline.Unregister(l.cfg.Registerer, l.metrics.all...)
	})
	return nil
}

// Ready returns why the log can't be used now: its topic is unknown, unfit or out of
// reach.
func (l *Log) Ready() error {
	if err := l.stopErr(); err != nil {
		return err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.topicErr
}

// Writable is Ready, as issue.Log has it.
func (l *Log) Writable(context.Context) error { return l.Ready() }

// Partitions implements pipeline.Reader. Once the topic is known it needs no broker.
func (l *Log) Partitions(ctx context.Context) (int, error) {
	ctx, stop := context.WithTimeout(ctx, l.cfg.ReadTimeout)
	defer stop()
	t, err := l.await(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot count the partitions of %s: %w", l.cfg.Topic, err)
	}
	return len(t.queues), nil
}

// PartitionOf implements pipeline.Reader.
func (l *Log) PartitionOf(ctx context.Context, tenantID string) (int32, error) {
	n, err := l.Partitions(ctx)
	if err != nil {
		return 0, err
	}
	return partitionOf(tenantID, n), nil
}

// stopErr is why the log accepts nothing any more; nil while it does.
func (l *Log) stopErr() error {
	if l.ctx.Err() == nil {
		return nil
	}
	return context.Cause(l.ctx)
}

// isKnown reports whether an append needs no broker to find its queue.
func (l *Log) isKnown() bool {
	select {
	case <-l.known:
		return true
	default:
		return false
	}
}

// await returns the topic as soon as it is known.
func (l *Log) await(ctx context.Context) (*topic, error) {
	if err := l.stopErr(); err != nil {
		return nil, err
	}
	select {
	case <-l.known:
		return l.topic, nil
	default:
	}
	select {
	case <-l.known:
		return l.topic, nil
	case <-l.ctx.Done():
		return nil, l.stopErr()
	case <-ctx.Done():
		l.mu.RLock()
		defer l.mu.RUnlock()
		return nil, fmt.Errorf("%w: topic %s is not known: %w", ctx.Err(), l.cfg.Topic, l.topicErr)
	}
}

// untilStopped makes a ctx that is also done when the log is closed or has failed.
func (l *Log) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
