package settle

import (
	"context"

	"muniment/control/store"
)

var counterparties = store.Records[Counterparty]{Noun: "counterparty", Table: "counterparties"}

// Counterparties lists those of the tenant, oldest first.
func Counterparties(ctx context.Context, q store.Querier, tenantID string) ([]Counterparty, error) {
	return store.List(ctx, q, "the tenant's counterparties", counterparties.Scan,
		counterparties.Select()+` WHERE tenant_id = $1 ORDER BY counterparty_id`, tenantID)
}

var rules = store.Records[Rule]{Noun: "settlement_rule", Table: "settlement_rules"}

// Rules lists the tenant's rules that apply to what is rendered at a moment, oldest
// first; all of them if the moment is the zero Instant.
func Rules(ctx context.Context, q store.Querier, tenantID string, at store.Instant) ([]Rule, error) {
	query, args := rules.Select()+` WHERE tenant_id = $1`, []any{tenantID}
	if !at.IsZero() {
		query, args = query+` AND effective_from <= $2 AND (effective_until IS NULL OR effective_until > $2)`, append(args, at)
	}
	return store.List(ctx, q, "the tenant's settlement rules", rules.Scan, query+` ORDER BY rule_id`, args...)
}
