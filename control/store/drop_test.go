package store

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// schema asks the schema for texts. Both engines have it from the same migrations; SQLite
// tells it more easily.
func schema(t *testing.T, query string) []string {
	t.Helper()
	db := mustOpenFile(t, filepath.Join(t.TempDir(), "control.db"))
	list, err := List(t.Context(), db.Read(), "the schema", Text, query)
	require.NoError(t, err)
	return list
}

// TestDropTenantKnowsEveryTable: a table that has to do with a tenant is dropped with it,
// or is named here as one that outlives it.
func TestDropTenantKnowsEveryTable(t *testing.T) {
	outlive := []string{"outbox", "proof_heads", "proof_roots"}
	found := schema(t, `SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND c.name = 'tenant_id' ORDER BY m.name`)
	known := append(slices.Clone(droppedWith), outlive...)
	require.ElementsMatch(t, known, found)

	for _, reference := range schema(t, `SELECT m.name || ' ' || f."table" FROM sqlite_master m, pragma_foreign_key_list(m.name) f
		WHERE m.type = 'table' AND f."table" <> m.name`) {
		from, to, _ := strings.Cut(reference, " ")
		if at := slices.Index(droppedWith, to); at >= 0 {
			require.Contains(t, droppedWith[:at], from, "what it refers to is dropped first: %s", to)
		}
	}
}

// TestReferencesAreIndexed: deleting a row looks through whatever refers to it, so what a
// drop costs would grow with the number of all tenants.
func TestReferencesAreIndexed(t *testing.T) {
	const references = `SELECT m.name || '.' || f."from" FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`
	require.NotEmpty(t, schema(t, references))
	require.Empty(t, schema(t, references+` EXCEPT
		SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
		WHERE m.type = 'table' AND c.seqno = 0 AND i.partial = 0`))
}
