package store

import (
	"cmp"
	"context"
	"fmt"
)

// Table says what a room's table keeps of a tenant, and of a person. Columns and indexes
// are in the room's migration.
type Table struct {
	Name string
	// Drop is the statement that deletes what it keeps of the tenant $1. Default: the rows
	// whose tenant_id is that.
	Drop string
	// Outlives says why a tenant's end deletes nothing of it. It excludes Drop.
	Outlives string
	// Feed is the column that names the entries which its rows have in the feed, and which
	// end with the tenant; empty: they have none. Nodes may still hold those.
	Feed string
	// Person are the columns that may name a person: an e-mail address, the reference of a
	// data subject. Nothing else may.
	Person []string
	// Erase is the statement that puts $3 in the place of the person $2 of the tenant $1, in
	// all of these columns. Default: where the person is all that such a column holds.
	Erase string
}

// Tables are those of one room, or of all (control.Tables): what refers to others comes
// before them.
type Tables []Table

// DropTenant deletes what the tables keep of a tenant, and its entries in the feed. The
// files of its packs are the caller's to remove, once this is committed. A node may still
// hold the entries: nobody must be able to use them, so it is for tenants of which no key
// was ever given away. An unknown tenant is none.
func (all Tables) DropTenant(ctx context.Context, tx *Tx, tenantID string) error {
	for _, t := range all {
		var statements []string
		if t.Feed != "" {
			statements = append(statements, `DELETE FROM feed WHERE id IN (SELECT `+t.Feed+` FROM `+t.Name+` WHERE tenant_id = $1)`)
		}
		if t.Outlives == "" {
			statements = append(statements, cmp.Or(t.Drop, `DELETE FROM `+t.Name+` WHERE tenant_id = $1`))
		}
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement, tenantID); err != nil {
				return fmt.Errorf("cannot drop %s of the tenant %s: %w", t.Name, tenantID, err)
			}
		}
	}
	return nil
}

// ErasePerson puts a replacement, which names nobody, in the place of what names a person
// in the tables of a tenant.
func (all Tables) ErasePerson(ctx context.Context, tx *Tx, tenantID, person, replacement string) error {
	for _, t := range all {
		var statements []string
		for _, column := range t.Person {
			statements = append(statements, `UPDATE `+t.Name+` SET `+column+` = $3 WHERE tenant_id = $1 AND `+column+` = $2`)
		}
		if t.Erase != "" {
			statements = []string{t.Erase}
		}
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement, tenantID, person, replacement); err != nil {
				return fmt.Errorf("cannot erase a person from %s of the tenant %s: %w", t.Name, tenantID, err)
			}
		}
	}
	return nil
}

// OwnTables are those of this room.
var OwnTables = Tables{
	{Name: "idempotency"},
	{Name: "idempotency_usage"},
	{Name: "jobs"},
	{Name: "outbox", Outlives: "its events are on their way to the log"},
	{Name: "feed", Outlives: "an entry ends with the row that it is of"},
	{Name: "high_water", Outlives: noTenants},
	{Name: "counters", Outlives: noTenants},
	{Name: "incarnations", Outlives: noTenants},
	{Name: "probe", Outlives: noTenants},
}

// noTenants is why a table that keeps nothing of a tenant outlives it.
const noTenants = "it is no tenant's"
