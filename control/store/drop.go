package store

import (
	"context"
	"fmt"
)

// droppedWith are the tables of a tenant's records, what refers to others before them.
// What is not among them outlives the tenant: its events on their way to the log, and the
// head and the roots that were signed, as no log may ever sign others.
var droppedWith = []string{
	"idempotency", "idempotency_usage", "sandbox_tenants", "proof_packs", "offers", "challenges", "settlement_rules", "counterparties", "rights", "bases", "api_keys", "developers", "tenants",
}

// DropTenant deletes a tenant's records, and its rights and keys from the feed. The files
// of its packs are the caller's to remove, once this is committed. A node
// may still hold those: nobody must be able to use them, so it is for tenants of which
// no key was ever given away. An unknown tenant is none.
func (tx *Tx) DropTenant(ctx context.Context, tenantID string) error {
	statements := []string{
		`DELETE FROM feed WHERE kind = '` + kindRight + `' AND id IN (SELECT right_id FROM rights WHERE tenant_id = $1)`,
		`DELETE FROM feed WHERE kind = '` + kindKey + `' AND id IN (SELECT key_id FROM api_keys WHERE tenant_id = $1)`,
	}
	for _, table := range droppedWith {
		statements = append(statements, `DELETE FROM `+table+` WHERE tenant_id = $1`)
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement, tenantID); err != nil {
			return fmt.Errorf("cannot drop the tenant %s: %w", tenantID, err)
		}
	}
	return nil
}
