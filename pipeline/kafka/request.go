package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/produce"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

const (
	// slowRequest is how long a broker's next request waits for the one before it.
	slowRequest = 200 * time.Millisecond
	// requestBatches is how many full batches a request takes.
	requestBatches = 4
)

// broker sends what waits for the partitions that it leads in one request, and no other
// request is under way meanwhile, unless it is slow. A partition whose batch fails is
// retried in requests of its own, so that it delays no other partition.
type broker struct {
	log *Log

	mu      sync.Mutex
	ready   []*queue // not empty, and owned by the broker
	sending bool     // a goroutine runs run and takes what is ready; true unless ready is empty
	request int      // number of the request that the next one waits for
}

// offer sends what is in a queue, which the caller owns and which isn't empty. The caller no
// longer owns it then.
func (q *queue) offer() {
	l := q.log
	b := l.leaders.of(q)
	if b == nil {
		l.senders.Go(func() {
			b := q.take()
			b.send()
			b.finish()
		})
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
		batches, request := b.take()
		if len(batches) == 0 {
			return
		}
		slow := time.AfterFunc(l.slow, func() { b.overtake(request) })
		l.attempt(batches...)
		slow.Stop()
		for _, sent := range batches {
			if sent.conclude() {
				sent.finish()
			} else {
				l.senders.Go(func() { sent.retry(); sent.finish() })
			}
		}
		if !b.next(request) {
			return
		}
	}
}

// take takes a batch of each queue that is ready, as many as fit into a request. If nothing
// is ready no goroutine sends any more.
func (b *broker) take() (batches []*batch, request int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, size := 0, 0
	for ; n < len(b.ready) && size < requestBatches*b.log.topic.batchBytes(b.log.cfg); n++ {
		next := b.ready[n].take()
		batches, size = append(batches, next), size+next.size
	}
	b.ready = slices.Delete(b.ready, 0, n)
	b.sending = n > 0
	return batches, b.request
}

// next reports whether the caller sends the next request; false if overtake has begun it.
func (b *broker) next(request int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.request != request {
		return false
	}
	b.request++
	return true
}

// overtake begins the next request, of other partitions, beside one that is slow.
func (b *broker) overtake(request int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.request != request {
		return
	}
	b.request++
	if b.sending = len(b.ready) > 0; b.sending {
		b.log.senders.Go(b.run)
	}
}

// send tries until each item has its outcome: a position, an error of its own, or the
// log's end.
func (b *batch) send() {
	b.queue.log.attempt(b)
	if !b.conclude() {
		b.retry()
	}
}

// retry goes on after an attempt that has failed.
func (b *batch) retry() {
	l := b.queue.log
	for backoff := l.cfg.MinBackoff; ; backoff = min(2*backoff, l.cfg.MaxBackoff) {
		if refusedContent(b.err) {
			b.sendEach()
			return
		}
		_ = pipeline.Pause(l.ctx, pipeline.Jittered(backoff)) // if the log has ended, so has the next attempt
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

// conclude settles the items of the last attempt, and returns false if it has to be retried.
func (b *batch) conclude() bool {
	q, l := b.queue, b.queue.log
	switch {
	case len(b.open) == 0:
	case b.err == nil:
		q.recovered()
		b.settle(sealer.Position{Generation: l.topic.generation, Partition: q.partition, Offset: b.base}, nil)
	case l.stopErr() != nil:
		b.settle(sealer.Position{}, l.stopErr())
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

// attempt sends batches of one broker's partitions in one request, and sets base and err of
// each of them.
func (l *Log) attempt(batches ...*batch) {
	started := time.Now()
	topic := produce.RequestTopic{Topic: l.cfg.Topic, Partitions: make([]produce.RequestPartition, 0, len(batches))}
	records := 0
	for _, b := range batches {
		if b.prepare() {
			topic.Partitions = append(topic.Partitions, produce.RequestPartition{
				Partition: b.queue.partition, RecordSet: b.records(),
			})
			records += len(b.open)
		}
	}
	if records == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.RequestTimeout)
	defer cancel()
	res, err := l.transport.RoundTrip(ctx, l.client.Addr, &produce.Request{
		Acks:    int16(kafkago.RequireAll),
		Timeout: int32(l.cfg.RequestTimeout.Milliseconds() / 2),
		Topics:  []produce.RequestTopic{topic},
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

// answered is a response's result for one partition.
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
	return 0, fmt.Errorf("the broker's response leaves out partition %d", partition)
}

// failed counts and logs a batch that will be sent again.
func (q *queue) failed(err error) {
	q.log.metrics.failures.WithLabelValues("unavailable").Inc()
	if !q.failing {
		q.failing = true
		q.log.cfg.Log.Warn("cannot write to Kafka, trying again", "topic", q.log.cfg.Topic, "partition", q.partition, "err", err)
	}
	q.log.lookAgain()
	q.log.leaders.expire()
}

func (q *queue) recovered() {
	if q.failing {
		q.failing = false
		q.log.cfg.Log.Info("writing to Kafka again", "topic", q.log.cfg.Topic, "partition", q.partition)
	}
}
