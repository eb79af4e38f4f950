// Package event serves a tenant's events: lists of them, the receipts among them with their proofs,
// and exports of those that are sealed.
//
// Lists are read from the warehouse, in the order of the log, and may lack what it has not loaded
// yet; asOf in the response is the position up to which they looked. A cursor neither skips nor
// repeats an event, whatever arrives meanwhile. The private part of an event is never served.
//
// A receipt can be read as soon as its caller has it: the request waits until the log is loaded, as
// long as a seal, and answers 503 WAREHOUSE_BEHIND rather than 404.
//
// Only sealed events are proven and exported: control/proof has the packs, and verifies each proof
// before it is served. Each export is an event of the tenant's log, committed before the first byte
// is sent. If it can't be recorded, nothing is sent.
//
// This package stores nothing.
package event

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"muniment.example/control/proof"
	"muniment.example/control/store"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
)

// Config of the service. All but Logger is required.
type Config struct {
	DB        *store.DB
	Warehouse pipeline.Warehouse
	// Log is read only for a tenant's partition, and for that partition's end.
	Log pipeline.Reader
	// Packs has the sealed events.
	Packs *proof.Service
	// Kinds are all kinds of events.
	Kinds store.Kinds
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// Service serves events. It is safe for concurrent use.
type Service struct {
	db        *store.DB
	warehouse pipeline.Warehouse
	log       pipeline.Reader
	packs     *proof.Service
	kinds     store.Kinds
	logger    *slog.Logger
	turns     *store.Turns // in which lists are read
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Warehouse == nil || cfg.Log == nil || cfg.Packs == nil || cfg.Kinds == nil {
		return nil, errors.New("cannot open events: DB, Warehouse, Log, Packs or Kinds is missing")
	}
	return &Service{
		db: cfg.DB, warehouse: cfg.Warehouse, log: cfg.Log, packs: cfg.Packs, kinds: cfg.Kinds,
		logger: cmp.Or(cfg.Logger, slog.Default()), turns: store.NewTurns(listsAtOnce),
	}, nil
}

// listsAtOnce is how many lists of one tenant, or of all the sandbox's, are read from the warehouse at a time: the filters of one may leave nothing
// to find in all that the tenant has. Further ones wait for their turn, and not at the warehouse, where other tenants' would wait behind
// them. With a tenant's Heavy operations (control's tenantHeavyLimit) they are fewer than the readers of the embedded warehouse.
const listsAtOnce = 3

// list reads a page of events of the caller's tenant when it is its turn.
func (s *Service) list(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	caller := auth.PrincipalFrom(ctx)
	owner := caller.TenantID
	if caller.Sandbox {
		owner = store.SandboxOwner
	}
	leave, err := s.turns.Take(ctx, owner)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.warehouse.Events(ctx, q)
}
