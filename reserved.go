package main

import (
	"context"
	"fmt"

	"muniment/control/store"
	"muniment/pipeline"
	"muniment/pipeline/segment"
	"muniment/pipeline/sqlite"
	"muniment/sealer"
)

// reservedLog is the log of an embedded service for deliveries: it refuses records while only
// the space that is reserved for stops is free. A delivery may need no more space in the log,
// whose segments are allocated ahead, but it will in the warehouse.
type reservedLog struct {
	*segment.Log
	db *store.DB
}

// Append is segment.Log's.
func (l reservedLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if err := l.db.Reserved(); err != nil {
		return sealer.Position{}, fmt.Errorf("%w: %w", pipeline.ErrFull, err)
	}
	return l.Log.Append(ctx, r)
}

// AppendAll is segment.Log's.
func (l reservedLog) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	if err := l.db.Reserved(); err != nil {
		return pipeline.RefuseAll(rs, fmt.Errorf("%w: %w", pipeline.ErrFull, err))
	}
	return l.Log.AppendAll(ctx, rs)
}

// reservedSink is the warehouse for the loader of an embedded service: loading pauses while
// only the reserved space is free.
type reservedSink struct {
	*sqlite.Warehouse
	db *store.DB
}

// Load is pipeline.Sink's.
func (s reservedSink) Load(ctx context.Context, b pipeline.Batch) error {
	if err := s.db.Reserved(); err != nil {
		return err
	}
	return s.Warehouse.Load(ctx, b)
}
