package stack

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestDriftOfStatementsOnTheStack: a statement whose rows somebody has changed in ClickHouse is found.
func TestDriftOfStatementsOnTheStack(t *testing.T) {
	t.Parallel()
	s, c := scaledOut(t)
	s.Settle()
	s.Receipts(30)
	stated := s.StatedForDrift()
	s.Agrees()
	require.NoError(t, systemtest.Query("ALTER TABLE "+path.Base(c.ClickHouse)+".events UPDATE quantity_ms = quantity_ms + 1000 WHERE quantity_ms > 0 SETTINGS mutations_sync = 2"))
	s.Differs(stated)
}
