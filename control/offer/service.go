package offer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/right"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Config of the service. DB is required.
type Config struct {
	DB *store.DB
	// Registerer takes the metric; nil leaves it unregistered.
	Registerer prometheus.Registerer
}

// Service is safe for concurrent use.
type Service struct {
	db     *store.DB
	passed atomic.Pointer[time.Time] // when no offer was last due
}

// New returns the service. It starts nothing.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil {
		return nil, errors.New("cannot open the offers: DB is missing")
	}
	r := &Service{db: cfg.DB}
	now := r.db.Now()
	r.passed.Store(&now)
	return r, r.register(cfg.Registerer)
}

const prefix api.Prefix = "ofr_"

// asserter is the caller of a move, which asserts for which organisation the move is made.
type asserter struct {
	// orgID is the tenant's organisation; nil is the system, which acts for no side.
	orgID *string
	by    sealer.Ref
}

// propose writes a new offer, with the requested fields filled in.
func (s *Service) propose(ctx context.Context, requested Offer, who asserter) (made Offer, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		of, err := right.Find(ctx, tx, requested.TenantID, requested.RightID)
		if err != nil {
			return err
		}
		if made, err = propose(requested, of.HolderOrgID, store.At(tx.Now())); err != nil {
			return err
		}
		made.ID = api.NewID(prefix, made.CreatedAt.Time)
		return made.write(ctx, tx, of.HolderOrgID, who)
	})
	return made, err
}

// write writes a completed offer about a right of the holder, and emits its event.
func (o *Offer) write(ctx context.Context, tx *store.Tx, holder string, who asserter) error {
	derivable, err := right.Derivable(ctx, tx, o.derivation(holder), o.CreatedAt)
	if err != nil {
		return err
	}
	o.Scope, o.EffectiveUntil = derivable.Scope, derivable.EffectiveUntil
	return offers.Create(ctx, tx, eventProposed, o, who.by, store.Acting{ActingOrgID: &o.FromOrgID, AssertedBy: who.orgID})
}

// derivation is the right that accepting the offer issues.
func (o *Offer) derivation(holder string) right.Derivation {
	return right.Derivation{
		TenantID: o.TenantID, ParentID: o.RightID, HolderOrgID: o.beneficiary(holder), Scope: o.Scope,
		EffectiveFrom: o.EffectiveFrom, EffectiveUntil: o.EffectiveUntil,
	}
}

// close moves an offer of the tenant by an action without further effects.
func (s *Service) close(ctx context.Context, tenantID, id string, a Action, reason *string, who asserter) (closed Offer, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) (err error) {
		closed, err = move(ctx, tx, tenantID, id, a, who, func(next *Offer) error { next.StateReason = reason; return nil })
		return err
	})
	return closed, err
}

// counter closes an offer and makes another in the opposite direction.
func (s *Service) counter(ctx context.Context, tenantID, id string, requested Offer, who asserter) (countered, made Offer, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) (err error) {
		countered, err = move(ctx, tx, tenantID, id, Counter, who, func(next *Offer) error {
			if made, err = next.counter(requested, next.UpdatedAt); err != nil {
				return err
			}
			made.ID = api.NewID(prefix, next.UpdatedAt.Time)
			next.CounteredBy = &made.ID
			return nil
		})
		if err != nil {
			return err
		}
		of, err := right.Find(ctx, tx, tenantID, countered.RightID)
		if err != nil {
			return err
		}
		return made.write(ctx, tx, of.HolderOrgID, who)
	})
	return countered, made, err
}

// accept closes an offer and issues its right.
func (s *Service) accept(ctx context.Context, tenantID, id string, who asserter) (accepted Offer, issued right.View, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) (err error) {
		var d right.Derivation
		accepted, err = move(ctx, tx, tenantID, id, Accept, who, func(next *Offer) error {
			of, err := right.Find(ctx, tx, tenantID, next.RightID)
			if err != nil {
				return err
			}
			d = next.derivation(of.HolderOrgID)
			derivable, err := right.Derivable(ctx, tx, d, next.UpdatedAt)
			if err != nil {
				return err
			}
			d.ID, d.EffectiveFrom = api.NewID(api.PrefixRight, next.UpdatedAt.Time), derivable.EffectiveFrom
			next.DerivedRightID, next.EffectiveFrom = &d.ID, d.EffectiveFrom
			return nil
		})
		if err != nil {
			return err
		}
		hash, err := accepted.contentHash()
		if err != nil {
			return err
		}
		d.ContentHash = &hash
		issued, err = right.Derive(ctx, tx, d, who.by)
		return err
	})
	return accepted, issued, err
}

// move applies an action to an offer of the tenant. edit sets further fields.
func move(ctx context.Context, tx *store.Tx, tenantID, id string, a Action, who asserter, edit func(next *Offer) error) (Offer, error) {
	return offers.Move(ctx, tx, store.Move[Offer, Action]{
		TenantID: tenantID, ID: id, Action: a, By: who.by, Edit: edit,
		Also: func(next *Offer) any { return store.Acting{ActingOrgID: next.actor(a), AssertedBy: who.orgID} },
	})
}
