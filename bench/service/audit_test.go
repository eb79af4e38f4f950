package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

// TestEveryWriteLeavesItsEvents calls every operation of the document that writes, as a
// tenant or as a visitor of the sandbox: it leaves its events in the tenant's log, of
// the subject and the actor, in order and once, and a refused call of it leaves none.
func TestEveryWriteLeavesItsEvents(t *testing.T) {
	t.Parallel()
	storytest.AuditWrites(t, systemtest.Shared(t))
}
