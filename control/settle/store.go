package settle

import (
	"context"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

var counterparties = store.Records[Counterparty]{Noun: "counterparty", Table: "counterparties"}

// Counterparties lists the tenant's counterparties, oldest first.
func Counterparties(ctx context.Context, q store.Querier, tenantID string) ([]Counterparty, error) {
	return store.List(ctx, q, "the tenant's counterparties", counterparties.Scan,
		counterparties.Select()+` WHERE tenant_id = $1 ORDER BY counterparty_id`, tenantID)
}

// listCounterparties lists the tenant's counterparties, newest first. An empty state selects all.
func listCounterparties(ctx context.Context, q store.Querier, tenantID, state string, s store.Slice) (page []Counterparty, next string, err error) {
	var w store.Where
	w.Is("state", state)
	return counterparties.Page(ctx, q, tenantID, w, s)
}

var rules = store.Machine[Rule, Action, State]{
	Records: store.Records[Rule]{Noun: "settlement_rule", Table: "settlement_rules"},
	Steps:   transitions,
}

// Rules lists the tenant's rules that apply to receipts rendered at a moment, oldest first. The
// zero Instant selects all rules.
func Rules(ctx context.Context, q store.Querier, tenantID string, at store.Instant) ([]Rule, error) {
	query, args := rules.Select()+` WHERE tenant_id = $1`, []any{tenantID}
	if !at.IsZero() {
		query, args = query+` AND effective_from <= $2 AND (effective_until IS NULL OR effective_until > $2)`, append(args, at)
	}
	return store.List(ctx, q, "the tenant's settlement rules", rules.Scan, query+` ORDER BY rule_id`, args...)
}

// filter selects the rules that have each given value.
type filter struct{ state, rightID, counterpartyID string }

// listRules lists the tenant's rules, newest first. It scans them all, since values inside JSON
// columns have no index; maxRules bounds the work.
func listRules(ctx context.Context, q store.Querier, tenantID string, f filter, s store.Slice) (page []Rule, next string, err error) {
	var w store.Where
	w.Is("state", f.state)
	if f.rightID != "" {
		w.And(contains("matches"), member("rightId", f.rightID))
	}
	if f.counterpartyID != "" {
		w.And(contains("shares"), member("counterpartyId", f.counterpartyID))
	}
	return rules.Page(ctx, q, tenantID, w, s)
}

// contains is the SQL condition that a column contains a text. LIKE differs between the engines.
func contains(column string) string { return `replace(` + column + `, $, '') <> ` + column }

// member returns a member of canonical JSON with an id as its value.
func member(name, id string) string { return fmt.Sprintf("%q:%q", name, id) }

// listNaming lists the ids of active rules that give a counterparty a share, newest first.
func listNaming(ctx context.Context, q store.Querier, tenantID, counterpartyID string, most int) (ids []string, err error) {
	page, _, err := listRules(ctx, q, tenantID, filter{state: string(Active), counterpartyID: counterpartyID}, store.Slice{Limit: most})
	for _, r := range page {
		ids = append(ids, r.ID)
	}
	return ids, err
}

// Sections are this package's data in an export of the tenant.
var Sections = []store.Section{counterparties.Section("counterparties", api.SettlementRead), rules.Section("settlementRules", api.SettlementRead)}
