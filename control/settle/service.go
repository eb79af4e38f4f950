package settle

import (
	"context"
	"errors"
	"strings"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
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

// maxRules and maxCounterparties bound the records of a tenant, in all states together.
const maxRules, maxCounterparties = 1000, 10_000

// invalid returns VALIDATION_FAILED with the faults, or nil if there are none.
func invalid(faults []api.ValidationError) error {
	if len(faults) == 0 {
		return nil
	}
	return api.Invalid(faults...)
}

// CreateCounterparty writes a counterparty of requested.TenantID. The caller sets name, kind and
// currency, and may set orgId, payoutRef and taxId. The error is VALIDATION_FAILED for invalid
// fields, and STATE_CONFLICT if the tenant has the maximum already.
func CreateCounterparty(ctx context.Context, tx *store.Tx, requested Counterparty, by sealer.Ref) (Counterparty, error) {
	c := requested
	if err := invalid(c.faults()); err != nil {
		return c, err
	}
	if err := store.WithinLimit(ctx, tx, maxCounterparties, "counterparties", "change one of them instead", `SELECT COUNT(*) FROM counterparties WHERE tenant_id = $1`, c.TenantID); err != nil {
		return c, err
	}
	now := store.At(tx.Now())
	c.ID, c.State, c.CreatedAt, c.UpdatedAt = api.NewID(api.PrefixCounterparty, now.Time), Active, now, now
	if err := counterparties.Insert(ctx, tx, &c); err != nil {
		return c, err
	}
	return c, emit(ctx, tx, eventCreated, &c, by)
}

// emit emits an event about a counterparty, without the fields that may be personal data.
func emit(ctx context.Context, tx *store.Tx, event *store.Kind, c *Counterparty, by sealer.Ref) error {
	public := *c
	public.Private = Private{}
	return counterparties.Emit(ctx, tx, event, &public, by, nil)
}

// createCounterparty runs CreateCounterparty in its own transaction.
func (r *Service) createCounterparty(ctx context.Context, requested Counterparty, by sealer.Ref) (made Counterparty, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		made, err = CreateCounterparty(ctx, tx, requested, by)
		return err
	})
	return made, err
}

// changeCounterparty replaces the fields that a caller may set. If none changes, there is no event.
func (r *Service) changeCounterparty(ctx context.Context, id string, requested Counterparty, by sealer.Ref) (next Counterparty, err error) {
	if err := invalid(requested.faults()); err != nil {
		return requested, err
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		was, err := counterparties.Find(ctx, tx, requested.TenantID, id)
		if err != nil {
			return err
		}
		next = *was
		if !next.replace(&requested) {
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

// deactivate makes a counterparty INACTIVE. It does nothing to one that is already INACTIVE.
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

// revise writes a changed counterparty, and emits its event.
func revise(ctx context.Context, tx *store.Tx, event *store.Kind, was, next *Counterparty, by sealer.Ref) error {
	next.UpdatedAt = store.At(tx.Now())
	if err := counterparties.Update(ctx, tx, was, next); err != nil {
		return err
	}
	return emit(ctx, tx, event, next, by)
}

// maxListed is how many rules an error message lists.
const maxListed = 10

// unnamed returns STATE_CONFLICT while active rules give the counterparty a share, and lists the
// rules. what says what is refused.
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

// CreateRule writes a rule of requested.TenantID, which rates, in packs, receipts that are sealed from then
// on, and in statements all that none states yet. The caller sets unit, price, currency and shares, and may set match, priority, tiers, minimum, cap,
// timeZone (default: the tenant's), effectiveFrom (default: now) and effectiveUntil. Shares name active counterparties of the tenant
// that are paid in the rule's currency; match names a right and a basis of the tenant. The error is
// VALIDATION_FAILED with all invalid fields, or STATE_CONFLICT if the tenant has the maximum
// already.
func CreateRule(ctx context.Context, tx *store.Tx, requested Rule, by sealer.Ref) (Rule, error) {
	r := requested
	r.settle(store.At(tx.Now()))
	if err := r.locate(ctx, tx); err != nil {
		return r, err
	}
	if err := r.check(ctx, tx); err != nil {
		return r, err
	}
	if err := store.WithinLimit(ctx, tx, maxRules, "settlement rules", "change one of them instead", `SELECT COUNT(*) FROM settlement_rules WHERE tenant_id = $1`, r.TenantID); err != nil {
		return r, err
	}
	return r, rules.Create(ctx, tx, ruleCreated, &r, by, nil)
}

// check returns VALIDATION_FAILED for a settled rule with faults.
func (r *Rule) check(ctx context.Context, q store.Querier) error {
	faults, err := r.faults(ctx, q)
	if err == nil {
		err = invalid(faults)
	}
	return err
}

// createRule runs CreateRule in its own transaction.
func (r *Service) createRule(ctx context.Context, requested Rule, by sealer.Ref) (made Rule, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		made, err = CreateRule(ctx, tx, requested, by)
		return err
	})
	return made, err
}

// errSame means that a request changes nothing.
var errSame = errors.New("the rule is as it was")

// changeRule replaces the fields that a caller may set of an ACTIVE rule. If none changes, there is
// no event.
func (r *Service) changeRule(ctx context.Context, id string, requested Rule, by sealer.Ref) (next Rule, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		move := store.Move[Rule, Action]{TenantID: requested.TenantID, ID: id, Action: Change, By: by, Edit: func(edited *Rule) error {
			if requested.TimeZone == "" {
				requested.TimeZone = edited.TimeZone
			}
			if err := edited.moves(&requested); err != nil {
				return err
			}
			requested.normalize()
			if !edited.replace(&requested) {
				return errSame
			}
			return edited.check(ctx, tx)
		}}
		if next, err = rules.Move(ctx, tx, move); !errors.Is(err, errSame) {
			return err
		}
		was, err := rules.Find(ctx, tx, requested.TenantID, id)
		if err == nil {
			next = *was
		}
		return err
	})
	return next, err
}

// retireRule retires a rule. It does nothing to one that is already RETIRED.
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
