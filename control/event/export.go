package event

import (
	"context"
	"fmt"
	"io"

	"muniment.example/control/proof"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

type exportRequest struct {
	After string `query:"after" maxLength:"100" doc:"Position; only events after it. Default: from the first event on."`
	UpTo  string `query:"upTo" maxLength:"100" doc:"Position; only events up to and including it. Default: up to the newest sealed event."`
}

var (
	errNothingSealed = api.Conflict("this range has no sealed event")
	errNotAllSealed  = api.Conflict("an event of this range is in no proof pack yet: seal one first, or give a lower upTo")
)

func (s *Service) exportEvents(ctx context.Context, in *exportRequest) (*route.File, error) {
	caller := auth.PrincipalFrom(ctx)
	first, last, err := s.leaves(ctx, caller.TenantID, in)
	if err != nil {
		return nil, err
	}
	events, err := s.packs.Range(ctx, caller.TenantID, first, last)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("events-%d-%d.ndjson", first, last)
	return &route.File{Name: name, Size: events.Bytes, Open: func(ctx context.Context) (func(io.Writer), error) {
		err := s.db.Change(ctx, func(tx *store.Tx) error {
			return tx.EmitRecord(ctx, proof.EventExported, sealer.Event{
				TenantID: caller.TenantID, Actor: store.ByKey(caller.ID), Subject: sealer.Ref{Kind: "tenant", ID: caller.TenantID},
			}, proof.EventsExported{FirstIndex: first, LastIndex: last})
		})
		return func(to io.Writer) {
			if err := events.Write(ctx, to); err != nil {
				s.logger.Info("an export was not sent completely", "tenantId", caller.TenantID, "err", err)
			}
		}, err
	}}, nil
}

// leaves finds the first and the last leaf of an export.
func (s *Service) leaves(ctx context.Context, tenantID string, in *exportRequest) (first, last uint64, err error) {
	partition, err := s.log.PartitionOf(ctx, tenantID)
	if err != nil {
		return 0, 0, err
	}
	after, err := route.GivenPosition("after", in.After, partition)
	if err != nil {
		return 0, 0, err
	}
	upTo, err := route.GivenPosition("upTo", in.UpTo, partition)
	if err != nil {
		return 0, 0, err
	}
	size, sealed, err := s.packs.Head(ctx, tenantID)
	if err == nil && size == 0 {
		err = errNothingSealed
	}
	if err == nil && upTo != nil && upTo.Compare(sealed) > 0 {
		err = s.packs.AwaitLoaded(ctx, tenantID) // a durable event that is not loaded yet must not be omitted silently
	}
	if err != nil {
		return 0, 0, err
	}
	last = size - 1
	if after != nil {
		behind := sealed.Next()
		if first, err = s.leafOfNext(ctx, pipeline.EventQuery{TenantID: tenantID, After: after, Before: &behind}); err != nil {
			return 0, 0, err
		}
	}
	if upTo != nil {
		behind := upTo.Next()
		if last, err = s.leafOfNext(ctx, pipeline.EventQuery{TenantID: tenantID, Before: &behind, Newest: true}); err != nil {
			return 0, 0, err
		}
	}
	if first > last {
		err = errNothingSealed
	}
	return first, last, err
}

// leafOfNext returns the leaf of the first event that a query finds.
func (s *Service) leafOfNext(ctx context.Context, query pipeline.EventQuery) (uint64, error) {
	query.Limit = 1
	rows, err := s.warehouse.Events(ctx, query)
	if err == nil && len(rows) == 0 {
		err = errNothingSealed
	}
	if err != nil {
		return 0, err
	}
	_, leaf, found, err := s.packs.LeafOf(ctx, rows[0])
	if err == nil && !found {
		err = errNotAllSealed
	}
	return leaf, err
}
