package main

import "testing"

// TestStatementsOnTheStack runs the scenario of a statement on two gateways, two control processes, a
// loader, ClickHouse and PostgreSQL.
func TestStatementsOnTheStack(t *testing.T) {
	s, _ := scaledOut(t)
	s.settle()
	statementOfAService(t, s, times(2_000, 200_000))
}
