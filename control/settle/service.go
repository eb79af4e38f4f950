package settle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Config of the service.
type Config struct {
	// DB is required.
	DB *store.DB
}

// Service is safe for concurrent use.
type Service struct{ db *store.DB }

// New returns the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil {
		return nil, errors.New("cannot open the settlement rules: DB is missing")
	}
	return &Service{cfg.DB}, nil
}

const (
	eventCreated     = "counterparty.created"
	eventChanged     = "counterparty.changed"
	eventDeactivated = "counterparty.deactivated"
)

// maxRules and maxCounterparties are how many a tenant may have, in whatever state.
const maxRules, maxCounterparties = 1000, 10_000

// invalid is VALIDATION_FAILED for faults; nil where there are none.
func invalid(faults []api.ValidationError) error {
	if len(faults) == 0 {
		return nil
	}
	return api.Invalid(faults...)
}

// CreateCounterparty writes a counterparty of asked.TenantID: its name, kind and currency
// are required, orgId, payoutRef and taxId optional, and all else is filled in. What is
// wrong with it is VALIDATION_FAILED, one too many STATE_CONFLICT.
func CreateCounterparty(ctx context.Context, tx *store.Tx, asked Counterparty, by sealer.Ref) (Counterparty, error) {
	c := asked
	if err := invalid(c.faults()); err != nil {
		return c, err
	}
	if err := hasSpace(ctx, tx, "counterparties", "counterparties", maxCounterparties, c.TenantID); err != nil {
		return c, err
	}
	now := store.At(tx.Now())
	c.ID, c.State, c.CreatedAt, c.UpdatedAt = api.NewID(api.PrefixCounterparty, now.Time), Active, now, now
	if err := counterparties.Insert(ctx, tx, &c); err != nil {
		return c, err
	}
	return c, emit(ctx, tx, eventCreated, &c, by)
}

// emit emits an event about a counterparty, without what may name a person.
func emit(ctx context.Context, tx *store.Tx, event string, c *Counterparty, by sealer.Ref) error {
	public := *c
	public.PayoutRef, public.TaxID = nil, nil
	return counterparties.Emit(ctx, tx, event, &public, by, nil)
}

// createCounterparty is CreateCounterparty in a change of its own.
func (r *Service) createCounterparty(ctx context.Context, asked Counterparty, by sealer.Ref) (made Counterparty, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		made, err = CreateCounterparty(ctx, tx, asked, by)
		return err
	})
	return made, err
}

// changeCounterparty replaces what a caller may choose of a counterparty. What leaves it as it
// is makes no event.
func (r *Service) changeCounterparty(ctx context.Context, id string, asked Counterparty, by sealer.Ref) (next Counterparty, err error) {
	if err := invalid(asked.faults()); err != nil {
		return asked, err
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		was, err := counterparties.Find(ctx, tx, asked.TenantID, id)
		if err != nil {
			return err
		}
		next = *was
		if !next.replace(&asked) {
			return nil
		}
		if next.Currency != was.Currency {
			if err := unnamed(ctx, tx, was, "its currency can't change"); err != nil {
				return err
			}
		}
		return revise(ctx, tx, eventChanged, was, &next, by)
	})
	return next, err
}

// deactivate makes a counterparty INACTIVE; one that is so already is left as it is.
func (r *Service) deactivate(ctx context.Context, tenantID, id string, by sealer.Ref) (next Counterparty, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		was, err := counterparties.Find(ctx, tx, tenantID, id)
		if err != nil {
			return err
		}
		if next = *was; next.State == Inactive {
			return nil
		}
		if err := unnamed(ctx, tx, was, "it can't be deactivated"); err != nil {
			return err
		}
		next.State = Inactive
		return revise(ctx, tx, eventDeactivated, was, &next, by)
	})
	return next, err
}

// revise writes what a counterparty has become, and its event.
func revise(ctx context.Context, tx *store.Tx, event string, was, next *Counterparty, by sealer.Ref) error {
	next.UpdatedAt = store.At(tx.Now())
	if err := counterparties.Update(ctx, tx, was, next); err != nil {
		return err
	}
	return emit(ctx, tx, event, next, by)
}

// maxListed is how many rules a refusal names.
const maxListed = 10

// unnamed refuses what can't be while active rules name a counterparty, and names them.
func unnamed(ctx context.Context, tx *store.Tx, c *Counterparty, what string) error {
	ids, err := listNaming(ctx, tx, c.TenantID, c.ID, maxListed+1)
	if err != nil || len(ids) == 0 {
		return err
	}
	listed := strings.Join(ids[:min(len(ids), maxListed)], ", ")
	if len(ids) > maxListed {
		listed += " and more"
	}
	return api.Conflict("active settlement rules give the counterparty a share, so " + what + ": change or retire " + listed)
}

// CreateRule writes a rule of asked.TenantID: unit, price, currency and shares are
// required, match, priority, minimum, cap, effectiveFrom (default: now) and effectiveUntil
// optional, and all else is filled in. Shares name active counterparties of the tenant, who are paid in
// the rule's currency; match names a right and a basis of the tenant. All that is wrong with
// it is one VALIDATION_FAILED, one rule too many STATE_CONFLICT. The rule rates what is sealed
// from then on.
func CreateRule(ctx context.Context, tx *store.Tx, asked Rule, by sealer.Ref) (Rule, error) {
	r := asked
	r.settle(store.At(tx.Now()))
	if err := r.check(ctx, tx); err != nil {
		return r, err
	}
	if err := hasSpace(ctx, tx, "settlement rules", "settlement_rules", maxRules, r.TenantID); err != nil {
		return r, err
	}
	return r, rules.Create(ctx, tx, "settlement_rule.created", &r, by, nil)
}

// check is VALIDATION_FAILED for a settled rule with faults.
func (r *Rule) check(ctx context.Context, q store.Querier) error {
	faults, err := r.faults(ctx, q)
	if err == nil {
		err = invalid(faults)
	}
	return err
}

// createRule is CreateRule in a change of its own.
func (r *Service) createRule(ctx context.Context, asked Rule, by sealer.Ref) (made Rule, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		made, err = CreateRule(ctx, tx, asked, by)
		return err
	})
	return made, err
}

// errSame says that a change leaves a rule as it is.
var errSame = errors.New("the rule is as it was")

// changeRule replaces what a caller may choose of an ACTIVE rule. What leaves it as it is
// makes no event.
func (r *Service) changeRule(ctx context.Context, id string, asked Rule, by sealer.Ref) (next Rule, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		move := store.Move[Rule, Action]{TenantID: asked.TenantID, ID: id, Action: Change, By: by, Edit: func(edited *Rule) error {
			asked.normalize()
			if !edited.replace(&asked) {
				return errSame
			}
			return edited.check(ctx, tx)
		}}
		if next, err = rules.Move(ctx, tx, move); !errors.Is(err, errSame) {
			return err
		}
		was, err := rules.Find(ctx, tx, asked.TenantID, id)
		if err == nil {
			next = *was
		}
		return err
	})
	return next, err
}

// retireRule ends a rule; one that is RETIRED already is left as it is.
func (r *Service) retireRule(ctx context.Context, tenantID, id string, by sealer.Ref) (next Rule, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		next, err = rules.Move(ctx, tx, store.Move[Rule, Action]{TenantID: tenantID, ID: id, Action: Retire, By: by, Edit: func(next *Rule) error {
			next.retire(next.UpdatedAt)
			return next.readable()
		}})
		return err
	})
	return next, err
}

// hasSpace refuses a record more than a tenant may have.
func hasSpace(ctx context.Context, q store.Querier, what, table string, most int64, tenantID string) error {
	n, err := store.Count(ctx, q, what, `SELECT COUNT(*) FROM `+table+` WHERE tenant_id = $1`, tenantID)
	if err == nil && n >= most {
		err = api.Conflict(fmt.Sprintf("a tenant has at most %d %s", most, what))
	}
	return err
}
