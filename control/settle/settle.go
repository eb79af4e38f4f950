// Package settle owns counterparties and settlement rules: who is paid, and for what how
// much. Rating itself is in control/settle/rate.
//
// A rule takes effect by its event. Packs are rated by the rules whose events stand in
// the tenant's log, not by what the database says when somebody seals: so every process
// that seals comes to the same amounts, after a crash and after a restore too, and a
// stranger with the packs can follow it. The database keeps the records for those who ask
// for them, and to check new ones. A rule that rating could not read never becomes an
// event: it would keep its tenant from sealing.
//
// The events are counterparty.created and settlement_rule.created, with the record as
// their data. The record of a counterparty is told without payoutRef and taxId: these may
// be a person's, and an event is never erased. The name is told, so it is no place for that
// of a person.
//
// A rule says from when on it applies to what was rendered, which may be in the past: it
// then rates late receipts, but none that is in a pack already. A tenant has at most
// 1,000 rules, as each of its packs repeats them.
//
// Non-goals as yet: routes, changing and retiring records, statements. The format of
// packs knows what an event of a changed rule would mean.
package settle

import (
	"context"
	"fmt"
	"slices"

	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// maxRules is how many rules a tenant may have.
const maxRules = 1000

// CreateCounterparty writes a counterparty of asked.TenantID: its name, kind and currency
// are required, orgId, payoutRef and taxId optional, and all else is filled in. What is
// wrong with it is VALIDATION_FAILED.
func CreateCounterparty(ctx context.Context, tx *store.Tx, asked Counterparty, by sealer.Ref) (Counterparty, error) {
	c := asked
	switch {
	case c.Name == "" || len(c.Name) > 256:
		return c, api.InvalidField("name", "must be 1 to 256 bytes")
	case !slices.Contains(kinds, c.Kind):
		return c, api.InvalidField("kind", "must be RIGHTS_HOLDER, PUBLISHER, PLATFORM, AGENCY or OTHER")
	case c.OrgID != nil && !api.IsOrgID(*c.OrgID):
		return c, api.InvalidField("orgId", "must be the id of an organisation")
	case !rate.IsCurrency(c.Currency):
		return c, api.InvalidField("currency", "must be three capital letters")
	}
	now := tx.Now()
	c.ID, c.State = api.NewID(api.PrefixCounterparty, now), Active
	c.CreatedAt, c.UpdatedAt = store.At(now), store.At(now)
	if err := counterparties.Insert(ctx, tx, &c); err != nil {
		return c, err
	}
	told := c
	told.PayoutRef, told.TaxID = nil, nil
	return c, counterparties.Emit(ctx, tx, "counterparty.created", &told, by, nil)
}

// CreateRule writes a rule of asked.TenantID: unit, price, currency and shares are
// required, match, priority, effectiveFrom (default: now) and effectiveUntil optional, and
// all else is filled in. Shares name active counterparties of the tenant, who are paid in
// the rule's currency. What is wrong with it is VALIDATION_FAILED, one rule too many
// STATE_CONFLICT. The rule rates what is sealed from then on.
func CreateRule(ctx context.Context, tx *store.Tx, asked Rule, by sealer.Ref) (Rule, error) {
	r := asked
	now := store.At(tx.Now())
	r.ID, r.State, r.CreatedAt, r.UpdatedAt = api.NewID(api.PrefixRule, now.Time), Active, now, now
	if r.EffectiveFrom.IsZero() {
		r.EffectiveFrom = now
	}
	if err := r.spell(); err != nil {
		return r, err
	}
	if err := r.check(); err != nil {
		return r, err
	}
	if err := checkRoom(ctx, tx, r.TenantID); err != nil {
		return r, err
	}
	for i, s := range r.Shares {
		field := fmt.Sprintf("shares[%d].counterpartyId", i)
		payee, err := counterparties.Find(ctx, tx, r.TenantID, s.CounterpartyID)
		switch {
		case err != nil && !store.IsNone(err):
			return r, err
		case err != nil || payee.State != Active:
			return r, api.InvalidField(field, "is no active counterparty of this tenant")
		case payee.Currency != r.Currency:
			return r, api.InvalidField(field, "is paid in "+payee.Currency+", not in the rule's "+r.Currency)
		}
	}
	return r, rules.Create(ctx, tx, "settlement_rule.created", &r, by, nil)
}

// checkRoom is STATE_CONFLICT if the tenant has as many rules as it may.
func checkRoom(ctx context.Context, tx *store.Tx, tenantID string) error {
	n, err := store.Count(ctx, tx, "settlement rules", `SELECT COUNT(*) FROM settlement_rules WHERE tenant_id = $1`, tenantID)
	if err == nil && n >= maxRules {
		err = api.Conflict(fmt.Sprintf("a tenant has at most %d settlement rules", maxRules))
	}
	return err
}
