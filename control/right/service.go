package right

import (
	"context"
	"errors"

	"muniment.example/control/node"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Nodes knows which revision the nodes have applied. control/node implements it.
type Nodes interface {
	// Await waits a bounded time for every live node to apply the revision.
	Await(ctx context.Context, revision int64) node.Propagation
	// Propagation returns which revision they have applied.
	Propagation(ctx context.Context, revision int64) (node.Propagation, error)
}

// Config of the service. Both are required.
type Config struct {
	DB    *store.DB
	Nodes Nodes
}

// Service is safe for concurrent use.
type Service struct {
	db    *store.DB
	nodes Nodes
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Nodes == nil {
		return nil, errors.New("cannot open the rights: DB or Nodes is missing")
	}
	return &Service{db: cfg.DB, nodes: cfg.Nodes}, nil
}

// createBasis writes a basis that the caller has filled in.
func (s *Service) createBasis(ctx context.Context, b *Basis, by sealer.Ref) error {
	now := s.db.Now()
	b.ID, b.CreatedAt, b.UpdatedAt = api.NewID(api.PrefixBasis, now), store.At(now), store.At(now)
	return s.db.Change(ctx, func(tx *store.Tx) error { return bases.Create(ctx, tx, basisCreated, b, by, nil) })
}

// issueRight writes a right, with the requested fields filled in.
func (s *Service) issueRight(ctx context.Context, draft Right, parentID *string, by sealer.Ref) (issued View, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) (err error) {
		var parent *Right
		if parentID != nil { // if both are missing, the error names the parent
			if parent, err = rights.Find(ctx, tx, draft.TenantID, *parentID); err != nil {
				return err
			}
		}
		from, err := readLineage(ctx, tx, draft.TenantID, draft.BasisID, parent)
		if err != nil {
			return err
		}
		now := store.At(tx.Now())
		r, err := issue(draft, from, now)
		if err != nil {
			return err
		}
		r.ID = api.NewID(api.PrefixRight, now.Time)
		if err = rights.Create(ctx, tx, eventIssued, &r, by, nil); err != nil {
			return err
		}
		issued, err = view(ctx, tx, r, now.Time)
		return err
	})
	return issued, err
}

// move is Move in a change of its own.
func (s *Service) move(ctx context.Context, tenantID, id string, a Action, reason *string, by sealer.Ref) (moved View, err error) {
	err = rights.Do(ctx, s.db, a, func(tx *store.Tx) error {
		moved, err = Move(ctx, tx, tenantID, id, a, reason, by)
		return err
	})
	return moved, err
}
