package settle

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
)

var counterparties = store.Records[Counterparty]{Noun: "counterparty", Table: "counterparties"}

// Counterparties lists those of the tenant, oldest first.
func Counterparties(ctx context.Context, q store.Querier, tenantID string) ([]Counterparty, error) {
	return store.List(ctx, q, "the tenant's counterparties", counterparties.Scan,
		counterparties.Select()+` WHERE tenant_id = $1 ORDER BY counterparty_id`, tenantID)
}

func insertRule(ctx context.Context, tx *store.Tx, r *Rule, text []byte) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO settlement_rules (rule_id, tenant_id, effective_from, effective_until, state, record, revision)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, r.ID, r.TenantID, r.EffectiveFrom, r.EffectiveUntil, string(r.State), string(text), r.Revision)
	if err != nil {
		return fmt.Errorf("cannot write the settlement rule %s: %w", r.ID, err)
	}
	return nil
}

// Rules lists the tenant's rules that apply to what is rendered at a moment, oldest
// first; all of them if the moment is the zero Instant.
func Rules(ctx context.Context, q store.Querier, tenantID string, at store.Instant) ([]Rule, error) {
	scan := func(row store.Row) (r Rule, err error) {
		text, err := store.Text(row)
		if err == nil {
			err = json.Unmarshal([]byte(text), &r)
		}
		r.TenantID = tenantID
		return r, err
	}
	if at.IsZero() {
		return store.List(ctx, q, "the tenant's settlement rules", scan,
			`SELECT record FROM settlement_rules WHERE tenant_id = $1 ORDER BY rule_id`, tenantID)
	}
	return store.List(ctx, q, "the tenant's settlement rules", scan, `SELECT record FROM settlement_rules
		WHERE tenant_id = $1 AND effective_from <= $2 AND (effective_until IS NULL OR effective_until > $2) ORDER BY rule_id`, tenantID, at)
}

func countRules(ctx context.Context, q store.Querier, tenantID string) (int64, error) {
	return store.Count(ctx, q, "settlement rules", `SELECT COUNT(*) FROM settlement_rules WHERE tenant_id = $1`, tenantID)
}
