// Package kafka keeps the event log in a topic of Apache Kafka: the log of a
// service on more than one machine.
//
// It promises that a record whose Append returned nil is acknowledged by every
// in-sync replica, and that what reads it gets each record once, in order, or an
// error. Durability is the topic's (see Topic): three replicas, two of them in
// sync, no unclean election. Kafka itself doesn't sync to disk per message.
//
// Append puts a record into its partition's queue and waits. A partition has one
// request in flight, and so has a broker, which never lingers: what queued for the
// partitions that it leads while its last request ran is the next one. Requests that
// take longer than 200 ms are not waited for by partitions that aren't in them. What
// fails is sent again, for ever and before anything behind it, in requests of that
// partition alone, so a partition without a leader, a killed broker or a lost network
// delays records, never reorders them, and holds up no other partition for longer than
// the one request. Whoever can't wait has a ctx. What is slow but doesn't fail is shared:
// a broker answers a request when its slowest partition is acknowledged, so a follower
// that lags makes each request slow that has one of its partitions, for all that are in
// it, and one that hangs does so for half of Config.RequestTimeout until they fail.
//
// What it refuses, and what happens when something is wrong:
//   - A request's outcome is unknown (a lost acknowledgement, a timeout): it is sent
//     again, and the topic may hold its records twice. Copies share the event id,
//     and whoever reads collapses them; there is no idempotent producer here.
//   - A ctx that is done withdraws its record if no request holds it, and its copies
//     from the next attempt. It may turn up nevertheless.
//   - QueueBytes of records wait already: pipeline.ErrFull, nothing was written.
//   - A record larger than the topic takes is refused before it is sent. If the
//     brokers refuse a batch's content, its records are sent one by one, so that a
//     poisoned one fails alone.
//   - The brokers can't be reached, at the start too: Append and the reads wait, the
//     latter at most Config.ReadPatience, and their errors name the cause.
//   - The topic was recreated, or its partition count changed, while the log was
//     open: everything fails with pipeline.ErrFailed, and the process has to start
//     again. It is noticed within Config.CheckEvery or at the next failure.
//   - An offset is missing, as after compaction or behind a transaction's marker:
//     Scan stops with pipeline.ErrGap. A batch that doesn't match its checksum is
//     pipeline.ErrDamaged.
//   - A message that is not as message.go has it: an entry with empty headers whose
//     Event is the whole message.
//
// A topic has one generation, which Topic.Migrate gives it and which it keeps in its
// own configuration, so that a topic that was recreated can't pass for the one that
// it replaced. The number is the second of its creation, counted from 1970, so it
// rises without anyone having to remember the last one. It is stored as
// delete.retention.ms, which means nothing to a topic whose cleanup policy is
// delete, comes and goes with the topic, and is readable by any tool; a topic that
// doesn't set it has no generation and is refused.
//
// Spooled is a log in front of this one that goes on while Kafka is away. Group shares
// the partitions among loader processes by a consumer group.
//
// Decisions: a tenant's partition is murmur2 of its id, as Kafka's own clients place
// a key. The position of a record with copies is that of the copy that was
// acknowledged. A consumer group decides who loads and never from where: the loader
// keeps its own position in the warehouse. Record batches and the requests around them
// are put together by hand (recordset.go, request.go), for that is most of what an
// append costs. Non-goals: transactions, compression, and
// topics of an older record format.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"muniment/pipeline"
)

// Log is a topic that is open for appending and reading.
type Log struct {
	cfg       Config
	client    *kafkago.Client
	transport *kafkago.Transport
	metrics   *metrics

	// ctx is done, with why, when the log is closed or has failed.
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
	look    chan struct{} // asks the watcher for a look now
	known   chan struct{} // closed when topic is set for the first time
	closing chan struct{} // closed by Close
	closed  sync.Once

	mu       sync.RWMutex
	topic    *topic // nil until known
	topicErr error  // why the last look failed; nil if it didn't

	unwise string // what the last look found fault with; the watcher's
}

var _ pipeline.Log = (*Log)(nil)

// topic is what is known of a topic, for as long as the log is open.
type topic struct {
	generation   uint32
	messageBytes atomic.Int64 // may be raised while the log is open
	retention    atomic.Int64 // in milliseconds, may change too; negative keeps for ever
	sized        atomic.Bool  // records are dropped by their size, too; may change
	queues       []*queue     // by partition
}

// Open starts a log. It doesn't wait for the brokers: Ready tells, and appends and
// reads wait for them. Close ends it.
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
	l.metrics = newMetrics(func() float64 { return float64(l.queued.Load()) })
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

// Ready says why the log can't be used now: its topic is unknown, unfit or out of
// reach.
func (l *Log) Ready() error {
	if err := l.dead(); err != nil {
		return err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.topicErr
}

// Partitions implements pipeline.Reader: the brokers are asked when the log is opened,
// and from then on the number is known.
func (l *Log) Partitions(ctx context.Context) (int, error) {
	ctx, stop := context.WithTimeout(ctx, l.cfg.ReadPatience)
	defer stop()
	t, err := l.await(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot tell the partitions of %s: %w", l.cfg.Topic, err)
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

// dead is why the log accepts nothing any more.
func (l *Log) dead() error {
	if l.ctx.Err() == nil {
		return nil
	}
	return context.Cause(l.ctx)
}

// isKnown says whether an append needs no broker to find its queue.
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
	if err := l.dead(); err != nil {
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
		return nil, l.dead()
	case <-ctx.Done():
		l.mu.RLock()
		defer l.mu.RUnlock()
		return nil, fmt.Errorf("%w: topic %s is not known: %w", ctx.Err(), l.cfg.Topic, l.topicErr)
	}
}

// bound makes a ctx that is also done when the log is.
func (l *Log) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
