package store

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// schema queries the schema for texts. Both engines have the same migrations; SQLite's schema is
// easier to query.
func schema(t *testing.T, query string) []string {
	t.Helper()
	db := mustOpenFile(t, filepath.Join(t.TempDir(), "control.db"))
	list, err := List(t.Context(), db.Read(), "the schema", Text, query)
	require.NoError(t, err)
	return list
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
