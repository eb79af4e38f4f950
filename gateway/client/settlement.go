package client

import (
	"context"
	"iter"
	"net/http"
)

// SettlementRules say what receipts are worth.
type SettlementRules struct{ c *Client }

// SettlementRules say what receipts are worth.
func (c *Client) SettlementRules() SettlementRules { return SettlementRules{c} }

// Create makes a rule.
func (s SettlementRules) Create(ctx context.Context, rule NewSettlementRule) (*SettlementRule, error) {
	return record[SettlementRule](ctx, s.c, http.MethodPost, "/v1/settlement/rules", "rule", rule)
}

// List iterates over the rules, newest first.
func (s SettlementRules) List(ctx context.Context, f RuleFilter) iter.Seq2[SettlementRule, error] {
	return list[SettlementRule](ctx, s.c, "/v1/settlement/rules", "rules", values(f))
}

// Get returns a rule.
func (s SettlementRules) Get(ctx context.Context, ruleID string) (*SettlementRule, error) {
	return record[SettlementRule](ctx, s.c, http.MethodGet, at("/v1/settlement/rules", ruleID), "rule", nil)
}

// Change replaces a rule. EffectiveFrom must be given.
func (s SettlementRules) Change(ctx context.Context, ruleID string, rule NewSettlementRule) (*SettlementRule, error) {
	return record[SettlementRule](ctx, s.c, http.MethodPut, at("/v1/settlement/rules", ruleID), "rule", rule)
}

// Retire ends a rule.
func (s SettlementRules) Retire(ctx context.Context, ruleID string) (*SettlementRule, error) {
	return record[SettlementRule](ctx, s.c, http.MethodDelete, at("/v1/settlement/rules", ruleID), "rule", nil)
}

// DryRun says what a rule would have changed in a period. Nothing is kept.
func (s SettlementRules) DryRun(ctx context.Context, try DryRun) (*DryRunResult, error) {
	return post[DryRunResult](ctx, s.c, "/v1/settlement/rules/dry-run", try)
}

// Counterparties are paid.
type Counterparties struct{ c *Client }

// Counterparties are paid.
func (c *Client) Counterparties() Counterparties { return Counterparties{c} }

// Create makes a counterparty.
func (s Counterparties) Create(ctx context.Context, counterparty NewCounterparty) (*Counterparty, error) {
	return record[Counterparty](ctx, s.c, http.MethodPost, "/v1/settlement/counterparties", "counterparty", counterparty)
}

// List iterates over the counterparties in a state, or over all if that is empty, newest first.
func (s Counterparties) List(ctx context.Context, state string) iter.Seq2[Counterparty, error] {
	return list[Counterparty](ctx, s.c, "/v1/settlement/counterparties", "counterparties", inState(state))
}

// Get returns a counterparty.
func (s Counterparties) Get(ctx context.Context, counterpartyID string) (*Counterparty, error) {
	return record[Counterparty](ctx, s.c, http.MethodGet, at("/v1/settlement/counterparties", counterpartyID), "counterparty", nil)
}

// Change replaces a counterparty.
func (s Counterparties) Change(ctx context.Context, counterpartyID string, counterparty NewCounterparty) (*Counterparty, error) {
	return record[Counterparty](ctx, s.c, http.MethodPut, at("/v1/settlement/counterparties", counterpartyID), "counterparty", counterparty)
}

// Deactivate ends a counterparty: new rules can't name it.
func (s Counterparties) Deactivate(ctx context.Context, counterpartyID string) (*Counterparty, error) {
	return record[Counterparty](ctx, s.c, http.MethodDelete, at("/v1/settlement/counterparties", counterpartyID), "counterparty", nil)
}
