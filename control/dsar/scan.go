package dsar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

const (
	// pageRows is how many rows of the warehouse are held in memory.
	pageRows = 1000
	// stretch is how much of the log one query covers: without a bound, a warehouse may sort all
	// remaining rows for each page.
	stretch = 1 << 14
)

// report says that a worker makes progress; an error ends its work.
type report func(context.Context) error

// spoolEvery is how often an export that waits for spools polls them.
const spoolEvery = 50 * time.Millisecond

// spools waits, at most WaitFor, until the spools of live nodes have no acknowledged record that is
// not in the log. It returns the number of such records by node, of silent nodes too. alive is called
// while it waits, here and below.
func (s *Service) spools(ctx context.Context, alive report) (pending map[string]int64, err error) {
	pending = map[string]int64{}
	if s.cfg.Nodes == nil {
		return pending, nil
	}
	limit := time.NewTimer(s.cfg.WaitFor)
	defer limit.Stop()
	for over := false; ; {
		live, silent, err := s.cfg.Nodes.Spooled(ctx)
		if err != nil {
			return nil, err
		}
		if len(live) == 0 || over {
			maps.Copy(pending, silent)
			maps.Copy(pending, live)
			return pending, nil
		}
		if err := alive(ctx); err != nil {
			return nil, err
		}
		select {
		case <-time.After(spoolEvery):
		case <-limit.C:
			over = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// catchUp waits until the warehouse has everything that is in a tenant's outbox and log now, and
// returns the position after it.
func (s *Service) catchUp(ctx context.Context, tenantID string, alive report) (asOf sealer.Position, err error) {
	drain, cancel := context.WithTimeoutCause(ctx, s.cfg.WaitFor, errors.New("the log has not accepted the tenant's events"))
	defer cancel()
	if err := s.db.Outbox.Drain(drain, tenantID); err != nil {
		return asOf, errors.Join(err, context.Cause(drain))
	}
	partition, err := s.cfg.Log.PartitionOf(ctx, tenantID)
	if err != nil {
		return asOf, err
	}
	first, end, err := s.cfg.Log.Bounds(ctx, partition)
	if err != nil || first.Compare(end) >= 0 { // retention deletes only loaded records, so all of an empty log's are loaded
		return end, err
	}
	return end, s.loaded(ctx, partition, end, alive)
}

// loaded waits until the warehouse has everything before a position, as long as it makes progress.
func (s *Service) loaded(ctx context.Context, partition int32, end sealer.Position, alive report) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	still := time.NewTimer(s.cfg.WaitFor)
	defer still.Stop()
	for at := (sealer.Position{}); ; {
		next, ok, err := s.cfg.Warehouse.Resume(ctx, partition)
		if err == nil && ok && next.Compare(end) >= 0 {
			return nil
		}
		if err == nil && next != at {
			at = next
			still.Reset(s.cfg.WaitFor)
		}
		if err := alive(ctx); err != nil {
			return err
		}
		select {
		case <-poll.C:
		case <-still.C:
			return errors.Join(err, fmt.Errorf("the warehouse makes no progress: it is at %s of %s", at, end))
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// scan calls take for the rows before a position that a query selects, in the order of their
// positions, and holds one page of them in memory. A query for few rows reads pages of its rows;
// others read the log by stretches.
func (s *Service) scan(ctx context.Context, q pipeline.EventQuery, asOf sealer.Position, few bool, alive report, take func(*pipeline.Row) error) error {
	var at *sealer.Position // everything up to here, inclusive, was taken
	for {
		q.After, q.Before, q.Limit = at, &asOf, pageRows
		switch {
		case few:
		case at == nil: // find the first row
			q.Limit = 1
		case at.Generation == asOf.Generation && at.Offset+stretch < asOf.Offset:
			end := asOf
			end.Offset = at.Offset + stretch
			q.Before = &end
		}
		rows, err := s.page(ctx, q, alive, take)
		switch {
		case err != nil:
			return err
		case len(rows) == q.Limit:
			at = &rows[len(rows)-1].Position
			continue
		case *q.Before == asOf:
			return nil
		}
		if at = before(*q.Before); len(rows) > 0 {
			continue
		}
		// This stretch is empty: continue at the next row, wherever it is.
		q.After, q.Before, q.Limit = at, &asOf, 1
		next, err := s.page(ctx, q, alive, func(*pipeline.Row) error { return nil })
		if err != nil || len(next) == 0 {
			return err
		}
		at = before(next[0].Position)
	}
}

func (s *Service) page(ctx context.Context, q pipeline.EventQuery, alive report, take func(*pipeline.Row) error) ([]pipeline.Row, error) {
	rows, err := s.cfg.Warehouse.Events(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("cannot read the warehouse: %w", err)
	}
	if err := alive(ctx); err != nil {
		return nil, err
	}
	for i := range rows {
		if err := take(&rows[i]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// before returns the position before p.
func before(p sealer.Position) *sealer.Position {
	p.Offset--
	return &p
}
