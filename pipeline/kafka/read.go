package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

const (
	// fetchBytes is what one fetch of a scan brings, if no batch is larger.
	fetchBytes = 2 << 20
	// pollTime is how long a broker holds a fetch that waits for a record.
	pollTime = 5 * time.Second
)

// Bounds implements pipeline.Reader. Both positions are the brokers' answers of
// now: first is the log start offset, end the high watermark.
func (l *Log) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	err = l.read(ctx, "cannot read the bounds of", partition, func(ctx context.Context, t *topic) error {
		first, end, err = l.bounds(ctx, t, partition)
		return err
	})
	return first, end, err
}

func (l *Log) bounds(ctx context.Context, t *topic, partition int32) (first, end sealer.Position, err error) {
	res, err := l.client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{
		Topics: map[string][]kafkago.OffsetRequest{
			l.cfg.Topic: {kafkago.FirstOffsetOf(int(partition)), kafkago.LastOffsetOf(int(partition))},
		},
	})
	if err != nil {
		return first, end, err
	}
	for _, p := range res.Topics[l.cfg.Topic] {
		if p.Error != nil {
			return first, end, p.Error
		}
		first = sealer.Position{Generation: t.generation, Partition: partition, Offset: p.FirstOffset}
		end = first
		end.Offset = p.LastOffset
	}
	if first.Offset < 0 || end.Offset < first.Offset || end.Generation == 0 {
		return first, end, fmt.Errorf("brokers return offsets %d to %d", first.Offset, end.Offset)
	}
	return first, end, nil
}

// Read implements pipeline.Reader.
func (l *Log) Read(ctx context.Context, at sealer.Position) (e sealer.Entry, err error) {
	err = l.read(ctx, "cannot read", at.Partition, func(ctx context.Context, t *topic) error {
		if err := t.holds(at); err != nil {
			return err
		}
		err := l.fetch(ctx, t, at, 1, 0, func(got sealer.Entry) error {
			e = got
			return errEnough
		})
		if err == nil {
			err = fmt.Errorf("%w: %s", pipeline.ErrBeyondEnd, at)
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return e, nil
	}
	return sealer.Entry{}, err
}

// Scan implements pipeline.Reader.
func (l *Log) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	var limit int64
	err := l.read(ctx, "cannot scan", from.Partition, func(ctx context.Context, t *topic) error {
		end, err := l.heldTo(ctx, t, from)
		if err != nil {
			return err
		}
		if from.Offset > end.Offset {
			return fmt.Errorf("%w: %s, the log ends at %s", pipeline.ErrBeyondEnd, from, end)
		}
		limit = end.Offset
		if to.Compare(end) < 0 {
			limit = to.Offset
		}
		return nil
	})
	if err != nil {
		return err
	}
	var stop error // fn's own
	for next := from; next.Offset < limit && stop == nil; {
		err := l.read(ctx, "cannot scan", from.Partition, func(ctx context.Context, t *topic) error {
			err := l.fetch(ctx, t, next, fetchBytes, 0, func(e sealer.Entry) error {
				if next.Offset == limit {
					return errEnough
				}
				if stop = fn(e); stop != nil {
					return errEnough
				}
				next = next.Next()
				return nil
			})
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return stop
}

// errEnough ends a fetch that has returned what was wanted.
var errEnough = errors.New("enough")

// Wait implements pipeline.Reader. The partition's leader holds each fetch until there is a
// record.
func (l *Log) Wait(ctx context.Context, at sealer.Position) error {
	for {
		there := false
		err := l.read(ctx, "cannot wait for", at.Partition, func(ctx context.Context, t *topic) error {
			if at.Generation > t.generation {
				return pipeline.Pause(ctx, pollTime)
			}
			end, err := l.heldTo(ctx, t, at)
			if err != nil {
				return err
			}
			if at.Offset < end.Offset {
				there = true
				return nil
			}
			// A fetch may begin at the end, but not beyond it.
			err = l.fetch(ctx, t, end, 1, pollTime, func(sealer.Entry) error { return errEnough })
			if errors.Is(err, errEnough) {
				there = at == end
				err = nil
			}
			return err
		})
		if there || err != nil {
			return err
		}
	}
}

// heldTo returns the log's end, or why the log no longer holds a position.
func (l *Log) heldTo(ctx context.Context, t *topic, at sealer.Position) (end sealer.Position, err error) {
	if err := t.holds(at); err != nil {
		return end, err
	}
	first, end, err := l.bounds(ctx, t, at.Partition)
	if err == nil && at.Offset < first.Offset {
		err = fmt.Errorf("%w: %s, the log begins at %s", pipeline.ErrGone, at, first)
	}
	return end, err
}

// holds returns why no record can stand at a position of another generation.
func (t *topic) holds(at sealer.Position) error {
	switch {
	case at.Generation < t.generation:
		return fmt.Errorf("%w: %s, the log is of generation %d", pipeline.ErrGone, at, t.generation)
	case at.Generation > t.generation:
		return fmt.Errorf("%w: %s, the log is of generation %d", pipeline.ErrBeyondEnd, at, t.generation)
	}
	return nil
}

// fetch sends the partition's leader one request for the records from a position on, at
// least one batch, and calls fn for each in order. If there is none yet the leader waits up
// to wait, and fn is not called. An error of fn ends the fetch.
func (l *Log) fetch(ctx context.Context, t *topic, from sealer.Position, bytes int64, wait time.Duration, fn func(sealer.Entry) error) error {
	req := &kafkago.FetchRequest{
		Topic:     l.cfg.Topic,
		Partition: int(from.Partition),
		Offset:    from.Offset,
		MaxBytes:  bytes,
		MaxWait:   max(wait, time.Millisecond),
	}
	if wait > 0 {
		req.MinBytes = 1
	}
	res, err := l.client.Fetch(ctx, req)
	switch {
	case err != nil && damagedBatch(err):
		return fmt.Errorf("%w: batch at %s: %w", pipeline.ErrDamaged, from, err)
	case err != nil:
		return err
	case errors.Is(res.Error, kafkago.OffsetOutOfRange):
		return l.outOfRange(ctx, t, from)
	case res.Error != nil:
		return res.Error
	}
	next := from
	for {
		m, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: record at %s: %w", pipeline.ErrDamaged, next, err)
		}
		if m.Offset < next.Offset { // of the batch that holds from
			closeRecord(m)
			continue
		}
		if m.Offset > next.Offset {
			return fmt.Errorf("%w: nothing from offset %d up to %d of partition %d", pipeline.ErrGap, next.Offset, m.Offset, from.Partition)
		}
		e, err := entry(next, m)
		if err != nil {
			return fmt.Errorf("%w: %w", pipeline.ErrDamaged, err)
		}
		if err := fn(e); err != nil {
			return err
		}
		next = next.Next()
	}
	if next == from && res.HighWatermark > from.Offset && res.Throttle == 0 {
		return fmt.Errorf("%w: nothing at offset %d of partition %d, which ends at %d", pipeline.ErrGap, from.Offset, from.Partition, res.HighWatermark)
	}
	return nil
}

// outOfRange returns the error for a position before or behind the log.
func (l *Log) outOfRange(ctx context.Context, t *topic, at sealer.Position) error {
	first, end, err := l.bounds(ctx, t, at.Partition)
	switch {
	case err != nil:
		return err
	case at.Offset < first.Offset:
		return fmt.Errorf("%w: %s, the log begins at %s", pipeline.ErrGone, at, first)
	case at.Offset > end.Offset:
		return fmt.Errorf("%w: %s, the log ends at %s", pipeline.ErrBeyondEnd, at, end)
	}
	return kafkago.OffsetOutOfRange // it isn't any more: try again
}

// read calls try once the topic is known, and again while it fails with an error that may
// pass, until Config.ReadTimeout has passed or ctx is done.
func (l *Log) read(ctx context.Context, what string, partition int32, try func(context.Context, *topic) error) error {
	ctx, cancel := l.untilStopped(ctx)
	defer cancel()
	defer func() {
		if l.stopErr() != nil {
			l.transport.CloseIdleConnections() // this read may have opened some after Close
		}
	}()
	bounded, stop := context.WithTimeout(ctx, l.cfg.ReadTimeout)
	defer stop()
	err := func() error {
		t, err := l.await(bounded)
		if err != nil {
			return err
		}
		if partition < 0 || int(partition) >= len(t.queues) {
			return fmt.Errorf("topic %s has no partition %d", l.cfg.Topic, partition)
		}
		for backoff := l.cfg.MinBackoff; ; backoff = min(2*backoff, l.cfg.MaxBackoff) {
			err := try(ctx, t)
			if err == nil || lasting(err) || ctx.Err() != nil {
				return err
			}
			l.lookAgain()
			if pipeline.Pause(bounded, pipeline.Jittered(backoff)) != nil {
				return err
			}
		}
	}()
	switch {
	case err == nil || errors.Is(err, errEnough):
		return err
	case l.stopErr() != nil:
		err = l.stopErr()
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return fmt.Errorf("%s %s: %w", what, l.cfg.Topic, err)
}

// lasting reports whether another try would get the same error.
func lasting(err error) bool {
	for _, e := range []error{pipeline.ErrGone, pipeline.ErrBeyondEnd, pipeline.ErrDamaged, pipeline.ErrGap, errEnough} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
