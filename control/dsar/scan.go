package dsar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"muniment/pipeline"
	"muniment/sealer"
)

const (
	// pageRows is how many rows of the warehouse are held at a time.
	pageRows = 1000
	// stretch is how much of the log a page is looked for in: without a bound, a warehouse may
	// sort all that is left for each page.
	stretch = 1 << 14
)

// spoolEvery is how often an export that waits for spools looks at them.
const spoolEvery = 50 * time.Millisecond

// spools waits until no live node has anything that it has promised in its spool alone, at most
// for WaitFor, and counts by node what is left in spools.
func (s *Service) spools(ctx context.Context) (pending map[string]int64, err error) {
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
		select {
		case <-time.After(spoolEvery):
		case <-limit.C:
			over = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// catchUp waits until the warehouse has all that is in outbox and log of a tenant by now, and
// returns the position behind that.
func (s *Service) catchUp(ctx context.Context, tenantID string) (asOf sealer.Position, err error) {
	drain, cancel := context.WithTimeoutCause(ctx, s.cfg.WaitFor, errors.New("the log has not taken the tenant's events"))
	defer cancel()
	if err := s.db.Drain(drain, tenantID); err != nil {
		return asOf, errors.Join(err, context.Cause(drain))
	}
	partition, err := s.cfg.Log.PartitionOf(ctx, tenantID)
	if err != nil {
		return asOf, err
	}
	first, end, err := s.cfg.Log.Bounds(ctx, partition)
	if err != nil || first.Compare(end) >= 0 { // what an empty log held is loaded: retention waits for it
		return end, err
	}
	return end, s.loaded(ctx, partition, end)
}

// loaded waits until the warehouse has all before a position, however far behind it is, as long
// as it gets on.
func (s *Service) loaded(ctx context.Context, partition int32, end sealer.Position) error {
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
		select {
		case <-poll.C:
		case <-still.C:
			return errors.Join(err, fmt.Errorf("the warehouse loads nothing more: it is at %s of %s", at, end))
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// scan calls take for the rows before a position that a query selects, in the order of their
// positions, and holds a page of them at a time. A query for few rows reads them page by
// page, all others go through the log by stretches.
func (s *Service) scan(ctx context.Context, q pipeline.EventQuery, asOf sealer.Position, few bool, take func(*pipeline.Row) error) error {
	var at *sealer.Position // all before and here is taken
	for {
		q.After, q.Before, q.Limit = at, &asOf, pageRows
		switch {
		case few:
		case at == nil: // where it begins
			q.Limit = 1
		case at.Generation == asOf.Generation && at.Offset+stretch < asOf.Offset:
			end := asOf
			end.Offset = at.Offset + stretch
			q.Before = &end
		}
		rows, err := s.page(ctx, q, take)
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
		// Nothing here: on to the next row, wherever it is.
		q.After, q.Before, q.Limit = at, &asOf, 1
		next, err := s.page(ctx, q, func(*pipeline.Row) error { return nil })
		if err != nil || len(next) == 0 {
			return err
		}
		at = before(next[0].Position)
	}
}

func (s *Service) page(ctx context.Context, q pipeline.EventQuery, take func(*pipeline.Row) error) ([]pipeline.Row, error) {
	rows, err := s.cfg.Warehouse.Events(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("cannot read the warehouse: %w", err)
	}
	for i := range rows {
		if err := take(&rows[i]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// before is the position in front of one.
func before(p sealer.Position) *sealer.Position {
	p.Offset--
	return &p
}
