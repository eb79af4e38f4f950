package stack

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

// TestStatementsOnTheStack runs the scenario of a statement on two gateways, two control processes, a
// loader, ClickHouse and PostgreSQL.
func TestStatementsOnTheStack(t *testing.T) {
	t.Parallel()
	s, _ := scaledOut(t)
	s.Settle()
	storytest.Statement(t, s, systemtest.Times(2_000, 200_000))
}
