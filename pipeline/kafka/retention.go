package kafka

import (
	"context"
	"errors"
	"math"
	"sort"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"muniment/pipeline"
	"muniment/sealer"
)

// retentionSteps is how finely RetentionUsed tells.
const retentionSteps = 64

// RetentionUsed is how much of the topic's retention the oldest record at or behind a
// position has used up, rounded down to a 64th: from 1 on the brokers may drop it. 0
// when none stands there yet, or records are kept for ever; +Inf when it is gone; NaN
// when the brokers drop records by their size (retention.bytes), so that nobody knows.
//
// The age is what the brokers go by, the time at which they appended the record: they
// are asked for the first record younger than an age, since the library tells a
// record's time as its producer had it.
func (l *Log) RetentionUsed(ctx context.Context, at sealer.Position) (used float64, err error) {
	err = l.read(ctx, "cannot tell what is left of the retention of", at.Partition, func(ctx context.Context, t *topic) error {
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
			first, err2 := l.firstSince(ctx, at.Partition, now.Add(-keep/retentionSteps*time.Duration(steps)))
			err = errors.Join(err, err2)
			return err2 == nil && first > at.Offset
		}
		steps := 0
		if older(1) { // else it is one question, as it nearly always is
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

// firstSince is the offset of the first record that was appended at a time or later,
// and behind every offset if there is none.
func (l *Log) firstSince(ctx context.Context, partition int32, since time.Time) (int64, error) {
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
