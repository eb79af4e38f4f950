package challenge

import (
	"context"
	"errors"

	"muniment/control/right"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Config of the room. Both are required.
type Config struct {
	DB    *store.DB
	Nodes right.Nodes
}

// Room is safe for concurrent use.
type Room struct {
	db    *store.DB
	nodes right.Nodes
}

// New wires the room.
func New(cfg Config) (*Room, error) {
	if cfg.DB == nil || cfg.Nodes == nil {
		return nil, errors.New("cannot open the challenges: DB or Nodes is missing")
	}
	return &Room{db: cfg.DB, nodes: cfg.Nodes}, nil
}

const prefix api.Prefix = "chg_"

// open writes a new challenge, of which the caller has filled in what was asked for.
// tenantOrgID is the tenant's organisation, which asserts that the challenger challenges.
func (r *Room) open(ctx context.Context, asked Challenge, tenantOrgID string, by sealer.Ref) (made Challenge, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		of, err := right.Find(ctx, tx, asked.TenantID, asked.RightID)
		if err != nil {
			return err
		}
		now := store.At(tx.Now())
		if made, err = open(asked, of.State, now); err != nil {
			return err
		}
		made.ID = api.NewID(prefix, now.Time)
		if made.Revision, err = tx.Revision(ctx); err != nil {
			return err
		}
		if err := insert(ctx, tx, &made); err != nil {
			return err
		}
		return made.emit(ctx, tx, "challenge.opened", made.ChallengerOrgID, tenantOrgID, by)
	})
	return made, err
}

// closing is how a challenge of a tenant is to be moved, and by whom.
type closing struct {
	tenantID, id string
	action       Action
	resolution   *string
	// tenantOrgID is the tenant's organisation, which resolves, and asserts a withdrawal.
	tenantOrgID string
	by          sealer.Ref
}

// close moves a challenge, and answers with its right, which upholding revokes.
func (r *Room) close(ctx context.Context, how closing) (closed Challenge, of right.View, err error) {
	record := r.db.Change
	if transitions[how.action].revokes {
		record = r.db.Stop
	}
	err = record(ctx, func(tx *store.Tx) error {
		was, err := find(ctx, tx, how.tenantID, how.id)
		if err != nil {
			return err
		}
		if closed, err = was.After(how.action, how.resolution, store.At(tx.Now())); err != nil {
			return err
		}
		if closed.Revision, err = tx.Revision(ctx); err != nil {
			return err
		}
		if err := update(ctx, tx, was, &closed); err != nil {
			return err
		}
		acting := how.tenantOrgID
		if how.action == Withdraw {
			acting = closed.ChallengerOrgID
		}
		move := transitions[how.action]
		if err := closed.emit(ctx, tx, move.event, acting, how.tenantOrgID, how.by); err != nil {
			return err
		}
		if !move.revokes {
			of, err = right.Find(ctx, tx, how.tenantID, closed.RightID)
			return err
		}
		reason := "challenge " + closed.ID + " was upheld"
		of, err = right.Move(ctx, tx, how.tenantID, closed.RightID, right.Revoke, &reason, how.by)
		return err
	})
	return closed, of, err
}

// emit tells of a challenge's new state: the record, who acted, and who says so.
func (c *Challenge) emit(ctx context.Context, tx *store.Tx, event, actingOrgID, assertedBy string, by sealer.Ref) error {
	e := sealer.Event{TenantID: c.TenantID, Type: event, At: c.UpdatedAt.Time, Actor: by, Subject: sealer.Ref{Kind: "challenge", ID: c.ID}}
	return tx.EmitRecord(ctx, e, struct {
		*Challenge
		ActingOrgID string `json:"actingOrgId"`
		AssertedBy  string `json:"assertedBy"`
	}{c, actingOrgID, assertedBy})
}
