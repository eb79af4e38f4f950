package rollback

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// HighWater returns the newest position of a partition that SetHighWater recorded; ok is false if
// there is none. A partition that ends before it has lost records.
func HighWater(ctx context.Context, db *store.DB, partition int32) (p sealer.Position, ok bool, err error) {
	marks, err := positions(ctx, db.Read(), logMarks)
	p, ok = marks[partition]
	return p, ok, err
}

// Positions of each partition of the log that are kept.
const (
	logMarks  = "log"   // up to which the log is durable
	stopMarks = "stops" // up to which a start has checked the database for the log's stops
)

// positions returns the positions recorded under a name, by partition.
func positions(ctx context.Context, q store.Querier, name string) (map[int32]sealer.Position, error) {
	texts, err := store.List(ctx, q, "positions of the log", store.Text, `SELECT position FROM high_water WHERE name = $1 OR name LIKE $2`, name, name+"/%")
	marks := map[int32]sealer.Position{}
	for _, text := range texts {
		p, err := sealer.ParsePosition(text)
		if err != nil {
			return nil, fmt.Errorf("cannot read positions of the log: %w", err)
		}
		marks[p.Partition] = p
	}
	return marks, err
}

// markName is the name of a partition's position.
func markName(name string, partition int32) string {
	if partition == 0 {
		return name
	}
	return fmt.Sprintf("%s/%d", name, partition)
}

// SetHighWater records that the log is durable up to each of the positions, at most one per
// partition. A mark never falls: a position before it is ignored.
func SetHighWater(ctx context.Context, db *store.DB, ends ...sealer.Position) error {
	return db.Change(ctx, func(tx *store.Tx) error { return setHighWater(ctx, tx, ends...) })
}

func setHighWater(ctx context.Context, tx *store.Tx, ends ...sealer.Position) error {
	return setPositions(ctx, tx, logMarks, ends...)
}

func setPositions(ctx context.Context, tx *store.Tx, name string, ends ...sealer.Position) error {
	marks, err := positions(ctx, tx, name)
	if err != nil {
		return err
	}
	for _, p := range higher(ends, marks) {
		_, err = tx.ExecContext(ctx, `INSERT INTO high_water (name, position) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET position = excluded.position`, markName(name, p.Partition), p.String())
		if err != nil {
			return fmt.Errorf("cannot record a position of the log: %w", err)
		}
	}
	return nil
}

// higher returns the positions that move a mark.
func higher(ends []sealer.Position, marks map[int32]sealer.Position) (moved []sealer.Position) {
	for _, p := range ends {
		if mark, known := marks[p.Partition]; !known || p.Compare(mark) > 0 {
			moved = append(moved, p)
		}
	}
	return moved
}

// followEvery is how often the mark follows the log. The loss of a record older than this is
// detected.
const followEvery = time.Second

// Follow records every second how far each partition of the log is durable, until ctx is done, and
// then once more. A failure, such as a full disk or a partition without a leader, is logged once
// and retried; the only cost is a mark that lags behind.
func Follow(ctx context.Context, db *store.DB, log Reader) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for failing := false; ; {
		err := follow(context.WithoutCancel(ctx), db, log)
		if err != nil && !failing {
			db.Logger().Error("cannot record how far the log is durable", "err", err)
		}
		failing = err != nil
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func follow(ctx context.Context, db *store.DB, log Reader) error {
	n, err := log.Partitions(ctx)
	if err != nil {
		return err
	}
	// All at once: a partition without a leader takes the log's whole timeout.
	all, faults := make([]sealer.Position, n), make([]error, n)
	var reading sync.WaitGroup
	for partition := range all {
		reading.Go(func() { _, all[partition], faults[partition] = log.Bounds(ctx, int32(partition)) })
	}
	reading.Wait()
	var ends []sealer.Position
	for partition, end := range all {
		if faults[partition] == nil {
			ends = append(ends, end)
		}
	}
	marks, err := positions(ctx, db.Read(), logMarks)
	if err == nil && len(higher(ends, marks)) > 0 {
		err = SetHighWater(ctx, db, ends...)
	}
	return errors.Join(append(faults, err)...)
}
