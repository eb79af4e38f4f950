package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muniment/pipeline"
	"muniment/sealer"
)

// Append implements pipeline.Appender.
func (l *Log) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	at, err := l.append(ctx, nil, r, time.Now())
	if err != nil {
		return sealer.Position{}, fmt.Errorf("cannot append to %s: %w", l.cfg.Topic, err)
	}
	return at, nil
}

// append also gives up when enough is closed. It has started a moment ago.
func (l *Log) append(ctx context.Context, enough <-chan struct{}, r *sealer.Record, started time.Time) (sealer.Position, error) {
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

// AppendAll implements pipeline.Appender. What comes to one partition is in its queue before
// anything of it is sent: the next request takes it, as far as it takes so much.
func (l *Log) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	started := time.Now()
	at, errs = make([]sealer.Position, len(rs)), make([]error, len(rs))
	waiting := make([]pending, len(rs))
	var idle []*queue
	for i, r := range rs {
		var was bool
		if waiting[i], was, errs[i] = l.place(ctx, r, nil); was {
			idle = append(idle, waiting[i].queue)
		}
	}
	for _, q := range idle {
		l.offer(q)
	}
	for i, p := range waiting {
		if errs[i] == nil {
			at[i], errs[i] = p.wait(ctx)
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("cannot append to %s: %w", l.cfg.Topic, errs[i])
		}
	}
	if slices.Contains(errs, nil) {
		l.metrics.append.Observe(time.Since(started).Seconds())
	}
	return at, errs
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
	p, idle, err := l.place(ctx, r, c)
	if idle {
		l.offer(p.queue)
	}
	return p, err
}

// place is enqueue, but if the queue was idle the caller has it now, and offers it.
func (l *Log) place(ctx context.Context, r *sealer.Record, c *chain) (p pending, idle bool, err error) {
	t, err := l.await(ctx)
	if err != nil {
		return pending{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return pending{}, false, err
	}
	select {
	case <-l.closing:
		return pending{}, false, pipeline.ErrClosed
	default:
	}
	size := wireSize(r)
	if most := t.messageBytes.Load(); int64(size+batchOverhead) > most {
		return pending{}, false, fmt.Errorf("%w: %d bytes, the topic takes %d", ErrTooLarge, size+batchOverhead, most)
	}
	if l.queued.Add(int64(size)) > int64(l.cfg.QueueBytes) {
		l.queued.Add(int64(-size))
		l.metrics.failures.WithLabelValues("full").Inc()
		return pending{}, false, fmt.Errorf("%w: %d bytes wait for the brokers", pipeline.ErrFull, l.cfg.QueueBytes)
	}
	q := t.queues[partitionOf(r.TenantID, len(t.queues))]
	if p, idle, err = q.add(r, size, c); err != nil {
		l.queued.Add(int64(-size))
	}
	return p, idle, err
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
