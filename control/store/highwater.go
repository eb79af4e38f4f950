package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"muniment/sealer"
)

// HighWater is the newest log position that SetHighWater was told of; ok is false
// when it never was. A log that ends before it has lost records.
func (db *DB) HighWater(ctx context.Context) (p sealer.Position, ok bool, err error) {
	return highWater(ctx, db.read)
}

// execer is the writing connection or a change.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func highWater(ctx context.Context, q Querier) (p sealer.Position, ok bool, err error) {
	var text string
	err = q.QueryRowContext(ctx, `SELECT position FROM high_water WHERE name = 'log'`).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return p, false, nil
	}
	if err == nil {
		p, err = sealer.ParsePosition(text)
	}
	if err != nil {
		return p, false, fmt.Errorf("cannot read the log's high-water mark: %w", err)
	}
	return p, true, nil
}

// SetHighWater records that the log is durable up to p. A position before the
// recorded one changes nothing: the mark only rises.
func (db *DB) SetHighWater(ctx context.Context, p sealer.Position) error {
	return db.Change(ctx, func(tx *Tx) error { return tx.setHighWater(ctx, p) })
}

func (tx *Tx) setHighWater(ctx context.Context, p sealer.Position) error {
	old, known, err := highWater(ctx, tx)
	if err != nil || known && p.Compare(old) <= 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO high_water (name, position) VALUES ('log', $1)
		ON CONFLICT (name) DO UPDATE SET position = excluded.position`, p.String())
	if err != nil {
		return fmt.Errorf("cannot record the log's high-water mark: %w", err)
	}
	return nil
}

// followEvery is how often the mark follows the log: what the log loses at its
// end, and stood there for longer, is noticed.
const followEvery = time.Second

// Follow records every second how far the log is durable, until ctx is done, and
// once more then. A failure, as on a full disk, is logged once and tried again:
// the mark is behind meanwhile, which is all that it costs.
func (db *DB) Follow(ctx context.Context, log Reader) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for failing := false; ; {
		err := db.follow(context.WithoutCancel(ctx), log)
		if err != nil && !failing {
			db.cfg.Logger.Error("cannot record how far the log is durable", "err", err)
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

func (db *DB) follow(ctx context.Context, log Reader) error {
	_, end, err := log.Bounds(ctx, Partition)
	if err != nil {
		return err
	}
	return db.SetHighWater(ctx, end)
}
