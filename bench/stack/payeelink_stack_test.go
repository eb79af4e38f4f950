package stack

import (
	"testing"

	"muniment.example/bench/system/storytest"
)

// TestPayeeLinksOnTheStack walks payees' links on two gateways, two control processes, a loader, ClickHouse and
// PostgreSQL.
func TestPayeeLinksOnTheStack(t *testing.T) {
	t.Parallel()
	s, _ := scaledOut(t)
	storytest.PayeeLinks(t, s)
}
