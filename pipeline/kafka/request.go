package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"

	"muniment/sealer"
)

const (
	// slowRequest is how long a broker's next request waits for the one before it.
	slowRequest = 200 * time.Millisecond
	// requestBatches is how many full batches a request takes.
	requestBatches = 4
)

// broker is what waits to be sent to one broker: whatever has gathered for the
// partitions that it leads goes into one request, and no other one is under way
// meanwhile, unless it is slow. A partition whose batch fails there is tried again in
// requests of its own, and so holds nobody up.
type broker struct {
	log *Log

	mu      sync.Mutex
	ready   []*queue // each has something to send, and nobody else has it
	sending bool     // a goroutine has the turn; one does unless ready is empty
	turn    int      // number of the turn
}

// offer has a queue sent, which the caller has and which isn't empty.
func (l *Log) offer(q *queue) {
	b := l.leaders.of(q)
	if b == nil {
		l.senders.Go(func() { l.sendAlone(q) })
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = append(b.ready, q)
	if !b.sending {
		b.sending = true
		l.senders.Go(b.run)
	}
}

// run sends request after request until nothing is ready, or a request was slow.
func (b *broker) run() {
	l := b.log
	for {
		batches, turn := b.take()
		if len(batches) == 0 {
			return
		}
		slow := time.AfterFunc(l.slow, func() { b.pass(turn) })
		l.attempt(batches...)
		slow.Stop()
		for _, sent := range batches {
			if sent.conclude() {
				l.finish(sent)
			} else {
				l.senders.Go(func() { sent.insist(); l.finish(sent) })
			}
		}
		if !b.keep(turn) {
			return
		}
	}
}

// take takes a batch of each queue that is ready, as far as a request takes them. With
// nothing ready the turn is over.
func (b *broker) take() (batches []*batch, turn int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, size := 0, 0
	for ; n < len(b.ready) && size < requestBatches*b.log.requestBytes(); n++ {
		next := b.ready[n].take()
		batches, size = append(batches, next), size+next.size
	}
	b.ready = slices.Delete(b.ready, 0, n)
	b.sending = n > 0
	return batches, b.turn
}

// keep begins the next turn; false if it has passed to somebody else.
func (b *broker) keep(turn int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turn != turn {
		return false
	}
	b.turn++
	return true
}

// pass gives the turn of a request that is slow to the partitions that aren't in it.
func (b *broker) pass(turn int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turn != turn {
		return
	}
	b.turn++
	if b.sending = len(b.ready) > 0; b.sending {
		b.log.senders.Go(b.run)
	}
}

// sendAlone sends the next batch of a queue in requests of its own.
func (l *Log) sendAlone(q *queue) {
	b := q.take()
	b.send()
	l.finish(b)
}

// finish ends a batch whose items have their outcome, and offers what waits behind it.
func (l *Log) finish(b *batch) {
	if b.finish() {
		l.offer(b.queue)
	}
}

// send tries until each item has its outcome: a position, an error of its own, or the
// log's end.
func (b *batch) send() {
	b.queue.log.attempt(b)
	if !b.conclude() {
		b.insist()
	}
}

// insist goes on after an attempt that has failed.
func (b *batch) insist() {
	l := b.queue.log
	for backoff := l.cfg.MinBackoff; ; backoff = min(2*backoff, l.cfg.MaxBackoff) {
		if refusedContent(b.err) {
			b.sendEach()
			return
		}
		pause(l.ctx, backoff)
		l.attempt(b)
		if b.conclude() {
			return
		}
	}
}

// sendEach sends the records one by one, so that the one that the brokers refuse
// fails alone.
func (b *batch) sendEach() {
	for _, i := range b.open {
		one := &batch{queue: b.queue, whole: b, items: b.items[i : i+1 : i+1]}
		one.send()
	}
}

// conclude says whether the last attempt has given each item its outcome.
func (b *batch) conclude() bool {
	q, l := b.queue, b.queue.log
	switch {
	case len(b.open) == 0:
	case b.err == nil:
		q.recovered()
		b.settle(sealer.Position{Generation: l.topic.generation, Partition: q.partition, Offset: b.base}, nil)
	case l.dead() != nil:
		b.settle(sealer.Position{}, l.dead())
	case refusedContent(b.err):
		l.metrics.failures.WithLabelValues("refused").Inc()
		if len(b.open) > 1 {
			return false
		}
		b.settle(sealer.Position{}, b.err)
	default:
		q.mu.Lock()
		cmp.Or(b.whole, b).lastErr = b.err
		q.mu.Unlock()
		q.failed(b.err)
		return false
	}
	return true
}

// attempt sends batches of one broker's partitions in one request, and notes with each
// of them what became of it.
func (l *Log) attempt(batches ...*batch) {
	started := time.Now()
	topic := rawproduce.RequestTopic{Topic: l.cfg.Topic, Partitions: make([]rawproduce.RequestPartition, 0, len(batches))}
	records := 0
	for _, b := range batches {
		if b.prepare() {
			topic.Partitions = append(topic.Partitions, rawproduce.RequestPartition{
				Partition: b.queue.partition, RecordSet: protocol.RawRecordSet{Reader: b.encode(started)},
			})
			records += len(b.open)
		}
	}
	if records == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.RequestTimeout)
	defer cancel()
	res, err := l.transport.RoundTrip(ctx, l.client.Addr, &rawproduce.Request{
		Acks:    int16(kafkago.RequireAll),
		Timeout: int32(l.cfg.RequestTimeout.Milliseconds() / 2),
		Topics:  []rawproduce.RequestTopic{topic},
	})
	if err == nil {
		l.metrics.request.Observe(time.Since(started).Seconds())
		l.metrics.records.Observe(float64(records))
	}
	for _, b := range batches {
		b.base, b.err = 0, err
		if err == nil {
			b.base, b.err = answered(res.(*produce.Response), b.queue.partition)
		}
	}
}

// answered is what a broker says of one partition.
func answered(res *produce.Response, partition int32) (base int64, err error) {
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			switch {
			case p.Partition != partition:
			case p.ErrorCode != 0 && p.ErrorMessage != "":
				return 0, fmt.Errorf("%w: %s", kafkago.Error(p.ErrorCode), p.ErrorMessage)
			case p.ErrorCode != 0:
				return 0, kafkago.Error(p.ErrorCode)
			default:
				return p.BaseOffset, nil
			}
		}
	}
	return 0, fmt.Errorf("the broker's answer leaves out partition %d", partition)
}

// failed tells of a batch that will be sent again.
func (q *queue) failed(err error) {
	q.log.metrics.failures.WithLabelValues("unavailable").Inc()
	if !q.failing {
		q.failing = true
		q.log.cfg.Log.Warn("cannot write to Kafka, trying again", "topic", q.log.cfg.Topic, "partition", q.partition, "err", err)
	}
	q.log.lookAgain()
	q.log.leaders.doubt()
}

func (q *queue) recovered() {
	if q.failing {
		q.failing = false
		q.log.cfg.Log.Info("writing to Kafka again", "topic", q.log.cfg.Topic, "partition", q.partition)
	}
}

// requestBytes is the size at which a batch takes no further record.
func (l *Log) requestBytes() int { return min(l.cfg.RequestBytes, int(l.topic.messageBytes.Load())) }

// pause waits; false when ctx was done before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
