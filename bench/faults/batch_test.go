package faults

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

// TestBatchesOverKills uploads batches, each with one poisoned row, from several clients while the
// service is killed, and sends all of them again: each row is metered once.
func TestBatchesOverKills(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	storytest.BatchesOverKills(t, s, func() []string { return []string{s.Client.API} }, func() { s.Server.Kill() }, func() { s.Start() })
}
