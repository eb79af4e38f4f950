package main

import (
	"context"
	"math"
	"time"

	"muniment/control"
	"muniment/control/proof"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/pipeline/drift"
	"muniment/sealer"
)

// driftJob is the kind of the one job that never ends: whichever process has its lease looks
// for drift.
const driftJob = "drift.check"

// driftCheck wires what does the job, and what has it queued.
func driftCheck(cfg planeConfig, packs *proof.Room) (control.Worker, control.Sweep, error) {
	checker, err := drift.New(drift.Config{
		Log: cfg.Log, Loaded: cfg.Warehouse.Resume, Auditor: cfg.Warehouse,
		NextPack: func(ctx context.Context, after string) (*drift.Pack, error) {
			p, found, err := packs.PackAfter(ctx, after)
			if err != nil || !found {
				return nil, err
			}
			return auditedPack(p)
		},
		Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	work := control.Worker{Kind: driftJob, AtOnce: 1, Attempts: math.MaxInt, Do: func(ctx context.Context, _ *store.Job) error {
		checker.Run(ctx)
		return ctx.Err() // not done: whoever is next goes on
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
