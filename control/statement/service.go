package statement

import (
	"context"
	"errors"
	"time"

	"muniment.example/control/paper"
	"muniment.example/control/proof"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
)

// Warehouse has the methods of pipeline.Warehouse and drift.Auditor that statements need, with their
// contracts.
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
	// SealToEnd seals a tenant's new events, and returns the end of its newest pack; nil if it has
	// none.
	SealToEnd(ctx context.Context, tenantID string, by sealer.Ref) (*proof.End, error)
	// RulesAt returns the settlement rules that the tenant's log holds at a size.
	RulesAt(ctx context.Context, tenantID string, size uint64) ([]settlement.Rule, error)
	// SealedIn returns the packs that were sealed in a period, Span the sums of their headers.
	SealedIn(ctx context.Context, tenantID string, from, to time.Time, through []string) (first, last int64, err error)
	Span(ctx context.Context, tenantID string, first, last int64) (*proof.Span, error)
	// Scopes returns what names has of the scopes of rights, as the log has them; nil names everything.
	Scopes(ctx context.Context, tenantID string, names *settlement.ScopeNames, rightIDs []string) ([]settlement.Right, error)
	// AwaitRecorded waits until the warehouse has the events of the tenant's current records.
	AwaitRecorded(ctx context.Context, tenantID string) error
}

// Keys signs statements.
type Keys interface {
	// Signer returns the current key of a keydir.PackPurpose.
	Signer(ctx context.Context, purpose string) (*sealer.Signer, error)
	// Vouches reports whether the transaction may still commit a signature by the key.
	Vouches(ctx context.Context, tx *store.Tx, keyID string) (bool, error)
}

// Config of the service. All are required.
type Config struct {
	DB *store.DB
	// Sums is what settlements, dry runs and disputes' amounts are computed from (see proof.Sums), Checked what
	// drafts are (see its Checked). Reconciliation adds up the rows of Warehouse, which is independent of them.
	Sums      Sums
	Checked   Sums
	Warehouse Warehouse
	Log       route.LogBounds
	Packs     Packs
	Keys      Keys
	// Titles returns how people name rights. Those that the tenant does not have are left out.
	Titles func(ctx context.Context, tenantID string, rightIDs []string) (map[string]paper.Right, error)
	// Purpose returns the keydir.PackPurpose of a tenant.
	Purpose func(ctx context.Context, q store.Querier, tenantID string) (string, error)
}

// Service is safe for concurrent use.
type Service struct {
	*core
	*rater
	*drafter
	*reconciler
}

// core is shared by all parts of the service.
type core struct {
	cfg Config
	db  *store.DB
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Sums == nil || cfg.Checked == nil || cfg.Warehouse == nil || cfg.Log == nil || cfg.Packs == nil || cfg.Keys == nil || cfg.Titles == nil || cfg.Purpose == nil {
		return nil, errors.New("cannot open the statements: DB, Sums, Checked, Warehouse, Log, Packs, Keys, Titles or Purpose is missing")
	}
	return newService(cfg), nil
}

func newService(cfg Config) *Service {
	c := &core{cfg: cfg, db: cfg.DB}
	rows := *c
	rows.cfg.Sums, rows.cfg.Checked = cfg.Warehouse, cfg.Warehouse
	return &Service{c, &rater{c}, &drafter{c}, &reconciler{&rows}}
}
