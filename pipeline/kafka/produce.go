package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Append implements pipeline.Appender.
func (l *Log) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	at, err := l.append(ctx, nil, r, time.Now())
	if err != nil {
		return sealer.Position{}, fmt.Errorf("cannot append to %s: %w", l.cfg.Topic, err)
	}
	return at, nil
}

// append also gives up when timeout is closed. The caller has begun at started.
func (l *Log) append(ctx context.Context, timeout <-chan struct{}, r *sealer.Record, started time.Time) (sealer.Position, error) {
	p, err := l.enqueue(ctx, r, nil)
	if err != nil {
		return sealer.Position{}, err
	}
	at, err := p.waitUntil(ctx, timeout)
	if err == nil {
		l.metrics.append.Observe(time.Since(started).Seconds())
	}
	return at, err
}

// AppendAll implements pipeline.Appender. All records of a partition are queued before the
// first is sent, so the next request takes as many of them as fit.
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
		q.offer()
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

// AppendInOrder implements pipeline.OrderedLog: the records are a sequence.
func (l *Log) AppendInOrder(ctx context.Context, rs []*sealer.Record) (n int, err error) {
	started := time.Now()
	row := new(sequence)
	var waiting []pending
	var idle []*queue
	for _, r := range rs {
		p, was, placeErr := l.place(ctx, r, row)
		if placeErr != nil {
			err = placeErr
			break
		}
		if waiting = append(waiting, p); was {
			idle = append(idle, p.queue)
		}
	}
	for _, q := range idle {
		q.offer()
	}
	for _, p := range waiting {
		select {
		case <-p.done:
		case <-ctx.Done():
			row.refuse(ctx.Err()) // before one of them is given up alone
		}
		if _, failed := p.wait(ctx); failed != nil {
			err = failed
			break
		}
		n++
	}
	if n > 0 {
		l.metrics.append.Observe(time.Since(started).Seconds())
	}
	if errors.Is(err, pipeline.ErrFull) && n > 0 {
		err = nil // the queue was full, and is empty now
	}
	if err != nil {
		err = fmt.Errorf("cannot append to %s: %w", l.cfg.Topic, err)
	}
	return n, err
}

// pending is a record in a queue: the i-th of its batch.
type pending struct {
	*batch
	i int
}

// enqueue puts a record behind those of its tenant: the log has them in the order of the
// calls. Once a record of a sequence is refused, none of the sequence is sent any more.
func (l *Log) enqueue(ctx context.Context, r *sealer.Record, s *sequence) (pending, error) {
	p, idle, err := l.place(ctx, r, s)
	if idle {
		p.queue.offer()
	}
	return p, err
}

// place is enqueue, but if the queue was idle the caller now owns it and has to offer it.
func (l *Log) place(ctx context.Context, r *sealer.Record, s *sequence) (p pending, idle bool, err error) {
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
	if p, idle, err = q.add(r, size, s); err != nil {
		l.queued.Add(int64(-size))
	}
	return p, idle, err
}

// wait returns when the record's outcome is known, or ctx is done: then the record is not
// sent any more.
func (p pending) wait(ctx context.Context) (sealer.Position, error) { return p.waitUntil(ctx, nil) }

// waitUntil is wait, and also gives up when timeout is closed.
func (p pending) waitUntil(ctx context.Context, timeout <-chan struct{}) (sealer.Position, error) {
	cause := context.DeadlineExceeded
	select {
	case <-p.done:
		it := &p.items[p.i] // no longer changes
		return it.at, it.err
	case <-ctx.Done():
		cause = ctx.Err()
	case <-timeout:
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
