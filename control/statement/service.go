package statement

import (
	"context"
	"errors"
	"time"

	"muniment/control/proof"
	"muniment/control/route"
	"muniment/control/store"
	"muniment/pipeline"
	"muniment/sealer"
)

// Warehouse is what statements need of a pipeline.Warehouse and a drift.Auditor, with their contracts.
type Warehouse interface {
	Sums
	Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error)
	Duplicates(ctx context.Context, tenantID string, after, upTo sealer.Position) ([]pipeline.Duplicate, error)
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
	MeterTotals(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error)
	// Sum is drift.Auditor's.
	Sum(ctx context.Context, tenantID string, first, last sealer.Position) (rows int64, lines []pipeline.MeterRow, err error)
}

// Packs seals a tenant's log.
type Packs interface {
	// SealToEnd seals what is new of a tenant, and returns the end of its newest pack; nil
	// if it has none.
	SealToEnd(ctx context.Context, tenantID string, by sealer.Ref) (*proof.End, error)
	// EndOf is the end of a pack.
	EndOf(ctx context.Context, tenantID, packID string) (*proof.End, error)
	// SealedIn says which packs were sealed in a time, Span what the headers of some count.
	SealedIn(ctx context.Context, tenantID string, from, to time.Time, through []string) (first, last int64, err error)
	Span(ctx context.Context, tenantID string, first, last int64) (*proof.Span, error)
	// AwaitRecorded waits until the warehouse has the events of what the tenant's records in the
	// database are.
	AwaitRecorded(ctx context.Context, tenantID string) error
}

// Keys signs statements.
type Keys interface {
	// Signer is the current key for packs, of a sealer.PackPurpose.
	Signer(ctx context.Context, purpose string) (*sealer.Signer, error)
	// Vouches says whether a signature by the key may still be committed by the change.
	Vouches(ctx context.Context, tx *store.Tx, keyID string) (bool, error)
}

// Config of the service. All are required.
type Config struct {
	DB        *store.DB
	Warehouse Warehouse
	Log       route.Ended
	Packs     Packs
	Keys      Keys
	// Campaigns are those that the scopes of some rights list, at most a few hundred rights.
	Campaigns func(ctx context.Context, tenantID string, rightIDs []string) (map[string][]string, error)
	// Purpose is the sealer.PackPurpose of a tenant.
	Purpose func(ctx context.Context, q store.Querier, tenantID string) (string, error)
}

// Service is safe for concurrent use.
type Service struct {
	*core
	*rater
	*drafter
	*reconciler
}

// core is what all parts of the service use.
type core struct {
	cfg Config
	db  *store.DB
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Warehouse == nil || cfg.Log == nil || cfg.Packs == nil || cfg.Keys == nil || cfg.Campaigns == nil || cfg.Purpose == nil {
		return nil, errors.New("cannot open the statements: DB, Warehouse, Log, Packs, Keys, Campaigns or Purpose is missing")
	}
	return newService(cfg), nil
}

func newService(cfg Config) *Service {
	c := &core{cfg: cfg, db: cfg.DB}
	return &Service{c, &rater{c}, &drafter{c}, &reconciler{c}}
}
