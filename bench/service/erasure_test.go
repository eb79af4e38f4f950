package service

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/sealer"
)

// TestErasureOfAService: a person is named in deliveries, in a row that waits and in exports, with
// telemetry. Once erased, no byte of either is in the warehouse, the database and the bundles,
// whatever is loaded again, or restored; everything is proven and summed up as before.
func TestErasureOfAService(t *testing.T) {
	t.Parallel()
	s := &systemtest.Erasing{Service: systemtest.NewService(t)}
	s.Stores = s.InFolder()
	s.Begin()
	older := filepath.Join(t.TempDir(), "older")
	s.BackUp(older)
	done, packs := s.Erase()

	copied, made := s.Restored(older, "--tombstones", packs[len(packs)-1])
	require.Equal(t, 1, made.Tombstones)
	require.Contains(t, made.Reapplied, sealer.TypeErased+": "+done.ID+" of "+s.Tenant.TenantID)
	restored := &systemtest.Erasing{Service: copied, Metering: s.Metering}
	for _, text := range []string{systemtest.Person, systemtest.PersonsMark} {
		require.Empty(t, restored.InFolder()["warehouse"](text), "restored: %s", text)
	}
	restored.Start()
	waittest.Until(t, func() bool {
		return len(systemtest.Holding(t, copied.Data, systemtest.Person, "log"))+len(systemtest.Holding(t, copied.Data, systemtest.PersonsMark, "log")) == 0
	}, "the person is erased from the restored service")
	require.Equal(t, s.Metering, restored.Sums())
	restored.Stop()

	s.Stop()
	for _, text := range []string{systemtest.Person, systemtest.PersonsMark} {
		require.Empty(t, systemtest.Holding(t, s.Data, text, "log"), "stopped")
		require.NotEmpty(t, systemtest.Holding(t, filepath.Join(s.Data, "log"), text), "the log is not rewritten")
	}
	for _, file := range []string{"warehouse.db", "warehouse.db-wal", "warehouse.db-shm"} {
		require.NoError(t, os.RemoveAll(filepath.Join(s.Data, file)))
	}
	s.Start()
	waittest.Until(t, func() bool { return s.Metered() == s.Receipts }, "the log is loaded into a new warehouse")
	s.Nothing("loaded again")
	s.Again(done)
}
