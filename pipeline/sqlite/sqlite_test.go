package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/pipeline/conform"
)

// mustOpen opens the warehouse in a file; the test closes it.
func mustOpen(tb testing.TB, path string) *Warehouse {
	tb.Helper()
	w, err := Open(tb.Context(), Config{Path: path})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, w.Close()) })
	return w
}

func TestConformance(t *testing.T) {
	conform.Warehouse(t, func(tb testing.TB) conform.WarehouseEngine {
		path := filepath.Join(tb.TempDir(), "warehouse.db")
		return conform.WarehouseEngine{
			Warehouse: mustOpen(tb, path),
			// The one before stays open: what it has not written to the file is not seen.
			Reopen: func() pipeline.Warehouse { return mustOpen(tb, path) },
		}
	})
}
