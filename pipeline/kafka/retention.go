package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// retentionSteps is the resolution of RetentionUsed.
const retentionSteps = 64

// RetentionUsed is how much of the topic's retention the oldest record at or behind a
// position has used up, rounded down to a 64th: from 1 on the brokers may drop it. It is 0
// when no record stands there yet, or records are kept for ever; +Inf when it is gone; NaN
// when the brokers also drop records by the partition's size (retention.bytes).
//
// The age counts from when the brokers appended the record. The library returns the
// producer's time instead, so this searches for the first record younger than an age.
func (l *Log) RetentionUsed(ctx context.Context, at sealer.Position) (used float64, err error) {
	err = l.read(ctx, "cannot read what is left of the retention of", at.Partition, func(ctx context.Context, t *topic) error {
		end, err := l.heldTo(ctx, t, at)
		keep := time.Duration(t.retention.Load()) * time.Millisecond
		if err == nil && at.Offset < end.Offset && t.sized.Load() {
			used = math.NaN()
			return nil
		}
		if err != nil || at.Offset >= end.Offset || keep < 0 {
			return err
		}
		now := time.Now()
		older := func(steps int) bool {
			first, err2 := firstSince(ctx, l, at.Partition, now.Add(-keep/retentionSteps*time.Duration(steps)))
			err = errors.Join(err, err2)
			return err2 == nil && first > at.Offset
		}
		steps := 0
		if older(1) { // nearly always false, so that one request is enough
			steps = 1 + sort.Search(retentionSteps-1, func(i int) bool { return !older(i + 2) })
		}
		used = float64(steps) / retentionSteps
		return err
	})
	if errors.Is(err, pipeline.ErrGone) {
		return math.Inf(1), nil
	}
	return used, err
}

// Kept is how long a record stays in the topic at most. The brokers remove a file once its
// youngest record is older than the retention, and its oldest is up to segment.ms older than that;
// an hour is for their checks. It is an error if they keep records for ever.
func (l *Log) Kept(ctx context.Context) (time.Duration, error) {
	kept, err := l.sum(ctx, settingRetention, settingSegment)
	return kept + time.Hour, err
}

// Retention is for how long the topic promises to keep a record, at least. It is an error if the
// brokers keep records for ever.
func (l *Log) Retention(ctx context.Context) (time.Duration, error) {
	return l.sum(ctx, settingRetention)
}

// sum adds up settings of the topic that are times.
func (l *Log) sum(ctx context.Context, settings ...string) (kept time.Duration, err error) {
	d, err := describe(ctx, l.client, l.cfg.Topic)
	if err != nil {
		return 0, err
	}
	for _, name := range settings {
		ms, err := d.number(name)
		if err == nil && (ms < 0 || ms > mostKept.Milliseconds()) {
			err = fmt.Errorf("topic %s keeps its records for ever: %s=%d", l.cfg.Topic, name, ms)
		}
		if err != nil {
			return 0, err
		}
		kept += time.Duration(ms) * time.Millisecond
	}
	return kept, nil
}

// mostKept: a longer retention counts as for ever.
const mostKept = 50 * 365 * 24 * time.Hour

// firstSince is the offset of the first record that was appended at a time or later,
// and behind every offset if there is none.
func firstSince(ctx context.Context, l *Log, partition int32, since time.Time) (int64, error) {
	res, err := l.client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{
		Topics: map[string][]kafkago.OffsetRequest{l.cfg.Topic: {kafkago.TimeOffsetOf(int(partition), since)}},
	})
	if err != nil {
		return 0, err
	}
	first := int64(math.MaxInt64)
	for _, p := range res.Topics[l.cfg.Topic] {
		if p.Error != nil {
			return 0, p.Error
		}
		for offset := range p.Offsets {
			if offset >= 0 {
				first = offset
			}
		}
	}
	return first, nil
}
