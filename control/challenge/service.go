package challenge

import (
	"context"
	"errors"

	"muniment.example/control/right"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Config of the service. Both are required.
type Config struct {
	DB    *store.DB
	Nodes right.Nodes
}

// Service is safe for concurrent use.
type Service struct {
	db    *store.DB
	nodes right.Nodes
}

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Nodes == nil {
		return nil, errors.New("cannot open the challenges: DB or Nodes is missing")
	}
	return &Service{db: cfg.DB, nodes: cfg.Nodes}, nil
}

const prefix api.Prefix = "chg_"

// open writes a new challenge, with the requested fields filled in. tenantOrgID is the tenant's
// organisation, which asserts that the challenger challenges.
func (s *Service) open(ctx context.Context, requested Challenge, tenantOrgID string, by sealer.Ref) (made Challenge, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		of, err := right.Find(ctx, tx, requested.TenantID, requested.RightID)
		if err != nil {
			return err
		}
		now := store.At(tx.Now())
		if made, err = open(requested, of.State, now); err != nil {
			return err
		}
		made.ID = api.NewID(prefix, now.Time)
		return challenges.Create(ctx, tx, eventOpened, &made, by, store.Acting{ActingOrgID: &made.ChallengerOrgID, AssertedBy: &tenantOrgID})
	})
	return made, err
}

// closing is a move of a challenge.
type closing struct {
	tenantID, id string
	action       Action
	resolution   *string
	// tenantOrgID is the tenant's organisation, which resolves, and asserts a withdrawal.
	tenantOrgID string
	by          sealer.Ref
}

// close moves a challenge, and returns its right, which upholding revokes.
func (s *Service) close(ctx context.Context, how closing) (closed Challenge, of right.View, err error) {
	err = challenges.Do(ctx, s.db, how.action, func(tx *store.Tx) (err error) {
		closed, err = challenges.Move(ctx, tx, store.Move[Challenge, Action]{
			TenantID: how.tenantID, ID: how.id, Action: how.action, By: how.by,
			Edit: func(next *Challenge) error { next.Resolution = how.resolution; return nil },
			Also: func(next *Challenge) any {
				acting := store.Acting{ActingOrgID: &how.tenantOrgID, AssertedBy: &how.tenantOrgID}
				if how.action == Withdraw {
					acting.ActingOrgID = &next.ChallengerOrgID
				}
				return acting
			},
		})
		if err != nil {
			return err
		}
		if how.action != Uphold {
			of, err = right.FindView(ctx, tx, how.tenantID, closed.RightID, tx.Now())
			return err
		}
		reason := "challenge " + closed.ID + " was upheld"
		of, err = right.Move(ctx, tx, how.tenantID, closed.RightID, right.Revoke, &reason, how.by)
		return err
	})
	return closed, of, err
}
