package main

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control"
	"muniment/control/proof"
	"muniment/control/statement"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/pipeline/drift"
	"muniment/sealer"
)

// driftJob is the kind of a job that never ends: the process that has its lease checks for
// drift.
const driftJob = "drift.check"

// driftCheck returns the worker of the job, and the sweep that queues it. checking is true while this
// process has the job. metrics takes the metrics of the check, which are the process's, too.
func driftCheck(cfg planeConfig, packs *proof.Service, statements *statement.Service, metrics *prometheus.Registry, checking *atomic.Bool) (control.Worker, control.Sweep, error) {
	checker, err := drift.New(drift.Config{
		Log: cfg.Log, Loaded: cfg.Warehouse.Resume, Auditor: cfg.Warehouse,
		NextPack: func(ctx context.Context, after string) (*drift.Pack, error) {
			p, found, err := packs.PackAfter(ctx, after)
			if err != nil || !found {
				return nil, err
			}
			return auditedPack(p)
		},
		NextStatement: func(ctx context.Context, after string) (*drift.Statement, error) {
			s, err := statements.IssuedAfter(ctx, after)
			if err != nil || s == nil {
				return nil, err
			}
			at, _ := sealer.ParsePosition(s.AsOf) // Restate checks it
			return &drift.Statement{ID: s.ID, TenantID: s.TenantID, Currency: s.Currency, AsOf: at}, nil
		},
		Restate: func(ctx context.Context, s *drift.Statement) (*drift.Difference, error) {
			apart, err := statements.Restate(ctx, s.TenantID, s.ID)
			return (*drift.Difference)(apart), err
		},
		Logger: cfg.Logger, Registerer: metrics,
	})
	if err == nil {
		err = cfg.Registerer.Register(metrics)
	}
	work := control.Worker{Kind: driftJob, AtOnce: 1, Attempts: math.MaxInt, Do: func(ctx context.Context, _ *store.Job) error {
		checking.Store(true)
		defer checking.Store(false)
		checker.Run(ctx)
		return ctx.Err() // not done: the next process goes on
	}}
	queue := control.Sweep{Name: "queue the check for drift", Every: 10 * time.Minute, Do: func(ctx context.Context) error {
		_, err := cfg.DB.Enqueue(ctx, store.NewJob{Kind: driftJob, TenantID: api.SystemTenant, Key: driftJob})
		return err
	}}
	return work, queue, err
}

// auditedPack is a pack as the check compares it.
func auditedPack(p proof.Pack) (*drift.Pack, error) {
	h, err := sealer.ParsePackHeader(p.Header)
	if err != nil {
		return nil, err
	}
	return &drift.Pack{ID: p.ID, TenantID: p.TenantID, First: p.First, Last: p.Last, Count: int64(p.Count), Metering: h.Metering}, nil
}
