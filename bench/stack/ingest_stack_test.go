package stack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/storytest"
)

// TestIngestOnTheStack runs the scenarios of batches, held rows and beacons on two gateways, two
// control processes and a loader. One of the gateways is killed and started again.
func TestIngestOnTheStack(t *testing.T) {
	t.Parallel()
	s, c := scaledOut(t)
	s.Settle()
	kill := func() { c.Gateways[1].Kill() }
	start := func() { require.NoError(t, c.StartGateway(t.Context(), 1)) }
	t.Run("batches", func(t *testing.T) { storytest.BatchesOverKills(t, s, c.APIs, kill, start) })
	t.Run("held rows", func(t *testing.T) { storytest.HeldRows(t, s, false) })
	t.Run("players", func(t *testing.T) { storytest.Players(t, s) })
	t.Run("the right's history", func(t *testing.T) { storytest.RightHistory(t, s) })
	t.Run("beacons", func(t *testing.T) {
		s.Settle()
		storytest.Beacons(t, s, func() {
			kill()
			start()
		})
	})
}
