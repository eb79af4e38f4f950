package kafka

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"muniment/pipeline"
	"muniment/sealer"
)

// Append implements pipeline.Appender.
func (l *Log) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	at, err := l.append(ctx, nil, r)
	if err != nil {
		return sealer.Position{}, fmt.Errorf("cannot append to %s: %w", l.cfg.Topic, err)
	}
	return at, nil
}

// append also gives up when enough is closed.
func (l *Log) append(ctx context.Context, enough <-chan struct{}, r *sealer.Record) (sealer.Position, error) {
	started := time.Now()
	p, err := l.enqueue(ctx, r, nil)
	if err != nil {
		return sealer.Position{}, err
	}
	at, err := p.waitUnless(ctx, enough)
	if err == nil {
		l.metrics.append.Observe(time.Since(started).Seconds())
	}
	return at, err
}

// pending is a record in a queue: the i-th of its batch.
type pending struct {
	*batch
	i int
}

// enqueue puts a record behind those of its tenant. Whoever enqueues two records one
// after the other finds them in that order in the log. Once a record of a chain is
// refused, none of the chain is sent any more.
func (l *Log) enqueue(ctx context.Context, r *sealer.Record, c *chain) (pending, error) {
	t, err := l.await(ctx)
	if err != nil {
		return pending{}, err
	}
	if err := ctx.Err(); err != nil {
		return pending{}, err
	}
	select {
	case <-l.closing:
		return pending{}, pipeline.ErrClosed
	default:
	}
	size := wireSize(r)
	if most := t.messageBytes.Load(); int64(size+batchOverhead) > most {
		return pending{}, fmt.Errorf("%w: %d bytes, the topic takes %d", ErrTooLarge, size+batchOverhead, most)
	}
	if l.queued.Add(int64(size)) > int64(l.cfg.QueueBytes) {
		l.queued.Add(int64(-size))
		l.metrics.failures.WithLabelValues("full").Inc()
		return pending{}, fmt.Errorf("%w: %d bytes wait for the brokers", pipeline.ErrFull, l.cfg.QueueBytes)
	}
	q := t.queues[partitionOf(r.TenantID, len(t.queues))]
	p, err := q.add(r, size, c)
	if err != nil {
		l.queued.Add(int64(-size))
	}
	return p, err
}

// wait returns when the record's batch is done with, or ctx is. In the second case it
// withdraws the record, unless its outcome is known.
func (p pending) wait(ctx context.Context) (sealer.Position, error) { return p.waitUnless(ctx, nil) }

// waitUnless also stops to wait when enough is closed.
func (p pending) waitUnless(ctx context.Context, enough <-chan struct{}) (sealer.Position, error) {
	cause := context.DeadlineExceeded
	select {
	case <-p.done:
		it := &p.items[p.i] // nobody changes it any more
		return it.at, it.err
	case <-ctx.Done():
		cause = ctx.Err()
	case <-enough:
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	it := &p.items[p.i]
	switch {
	case it.settled():
		return it.at, it.err
	case p.lastErr != nil:
		it.err = fmt.Errorf("gave up: %w, %w: %w", cause, errFailing, p.lastErr)
	default:
		it.err = fmt.Errorf("gave up: %w", cause)
	}
	return sealer.Position{}, it.err
}

// queue is what waits for the sender of one partition.
type queue struct {
	log       *Log
	partition int32
	work      chan struct{} // holds a token when there may be something to take
	failing   bool          // the last request failed; belongs to run

	mu      sync.Mutex
	last    int      // items of the batch that was taken last: the next may be as large
	waiting []*batch // the last one takes more records until it is large enough
	refuse  error    // why it takes nothing more
}

// batch is what one request sends.
type batch struct {
	queue *queue
	done  chan struct{} // closed when every item has its at or err

	// These are guarded by queue.mu until done is closed.

	buf     []byte
	items   []item
	size    int
	lastErr error // of the last attempt that failed
}

type item struct {
	message
	size  int
	chain *chain // nil if it stands for itself
	at    sealer.Position
	err   error
}

// chain keeps those in a row from overtaking one that was refused.
type chain struct{ refused atomic.Pointer[error] }

// settled says that the outcome is known: nobody waits any more. No position of a
// topic is zero, for its generation isn't.
func (it *item) settled() bool { return it.err != nil || it.at != (sealer.Position{}) }

func newQueue(l *Log, partition int32) *queue {
	return &queue{log: l, partition: partition, work: make(chan struct{}, 1)}
}

func (q *queue) add(r *sealer.Record, size int, c *chain) (pending, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuse != nil {
		return pending{}, q.refuse
	}
	var b *batch
	if n := len(q.waiting); n > 0 && q.waiting[n-1].size+size <= q.log.requestBytes() {
		b = q.waiting[n-1]
	} else {
		b = &batch{queue: q, done: make(chan struct{}), size: batchOverhead, items: make([]item, 0, max(1, q.last))}
		q.waiting = append(q.waiting, b)
	}
	it := item{size: size, chain: c}
	it.message, b.buf = newMessage(b.buf, r)
	b.items = append(b.items, it)
	b.size += size
	q.wake()
	return pending{b, len(b.items) - 1}, nil
}

// wake leaves a token for the sender.
func (q *queue) wake() {
	select {
	case q.work <- struct{}{}:
	default:
	}
}

// run sends batch after batch until the log ends.
func (q *queue) run() {
	l := q.log
	for {
		b := q.take()
		if b == nil {
			select {
			case <-q.work:
				continue
			case <-l.ctx.Done():
			case <-l.closing:
			}
			// Nothing comes after this: what is there now is the last.
			q.mu.Lock()
			q.refuse = pipeline.ErrClosed
			if err := l.dead(); err != nil {
				q.refuse = err
			}
			empty := len(q.waiting) == 0
			q.mu.Unlock()
			if empty {
				return
			}
			continue
		}
		q.send(b)
		l.release(b)
	}
}

// take cuts the first batch off; nil when nothing waits.
func (q *queue) take() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	b := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.last = len(b.items)
	return b
}

// release ends a batch: its items have their outcome.
func (l *Log) release(b *batch) {
	for i := range b.items {
		l.queued.Add(int64(-b.items[i].size))
	}
	close(b.done)
}

// send tries until each item has its outcome: a position, an error of its own, or
// the log's end.
func (q *queue) send(b *batch) {
	l := q.log
	backoff := l.cfg.MinBackoff
	for {
		open := q.open(b)
		if len(open) == 0 {
			return
		}
		if err := l.dead(); err != nil {
			q.settle(b, open, sealer.Position{}, err)
			return
		}
		base, err := q.produce(b, open)
		switch {
		case err == nil:
			q.recovered()
			q.settle(b, open, sealer.Position{Generation: l.topic.generation, Partition: q.partition, Offset: base}, nil)
			return
		case refusedContent(err):
			l.metrics.failures.WithLabelValues("refused").Inc()
			if len(open) > 1 {
				q.sendEach(b, open)
				return
			}
			q.settle(b, open, sealer.Position{}, err)
			return
		}
		q.mu.Lock()
		b.lastErr = err
		q.mu.Unlock()
		q.failed(err)
		pause(l.ctx, backoff)
		backoff = min(2*backoff, l.cfg.MaxBackoff)
	}
}

// sendEach sends the records one by one, so that the one that the brokers refuse
// fails alone.
func (q *queue) sendEach(b *batch, open []int) {
	for _, i := range open {
		one := &batch{queue: q, items: b.items[i : i+1 : i+1]}
		q.send(one)
	}
}

// open lists the items without an outcome that somebody still waits for.
func (q *queue) open(b *batch) []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	open := make([]int, 0, len(b.items))
	for i := range b.items {
		it := &b.items[i]
		if it.chain != nil && !it.settled() {
			if refused := it.chain.refused.Load(); refused != nil {
				it.err = *refused
			}
		}
		if !it.settled() {
			open = append(open, i)
		}
	}
	return open
}

// settle gives the items their outcome: an error, or positions from first on.
func (q *queue) settle(b *batch, open []int, first sealer.Position, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n, i := range open {
		it := &b.items[i]
		switch {
		case it.settled(): // withdrawn meanwhile
		case err != nil:
			it.err = err
			if it.chain != nil {
				it.chain.refused.CompareAndSwap(nil, &err)
			}
		default:
			it.at = first
			it.at.Offset += int64(n)
		}
	}
}

// produce sends the items once, and returns the offset of the first.
func (q *queue) produce(b *batch, open []int) (base int64, err error) {
	l := q.log
	records := make([]kafkago.Record, len(open))
	for n, i := range open {
		records[n] = b.items[i].record()
	}
	started := time.Now()
	res, err := l.client.Produce(l.ctx, &kafkago.ProduceRequest{
		Topic:        l.cfg.Topic,
		Partition:    int(q.partition),
		RequiredAcks: kafkago.RequireAll,
		Records:      kafkago.NewRecordReader(records...),
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return 0, err
	}
	l.metrics.request.Observe(time.Since(started).Seconds())
	l.metrics.records.Observe(float64(len(open)))
	return res.BaseOffset, nil
}

// failed tells of a request that will be sent again.
func (q *queue) failed(err error) {
	q.log.metrics.failures.WithLabelValues("unavailable").Inc()
	if !q.failing {
		q.failing = true
		q.log.cfg.Log.Warn("cannot write to Kafka, trying again", "topic", q.log.cfg.Topic, "partition", q.partition, "err", err)
	}
	q.log.lookAgain()
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
