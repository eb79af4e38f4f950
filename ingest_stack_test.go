package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIngestOnTheStack runs the scenarios of batches, held rows and beacons on two gateways, two
// control processes and a loader. One of the gateways is killed and started again.
func TestIngestOnTheStack(t *testing.T) {
	s, c := scaledOut(t)
	s.settle()
	kill := func() { c.Gateways[1].Kill() }
	start := func() { require.NoError(t, c.StartGateway(t.Context(), 1)) }
	t.Run("batches", func(t *testing.T) { batchesOverKills(t, s, c.APIs, kill, start) })
	t.Run("held rows", func(t *testing.T) { heldRows(t, s, false) })
	t.Run("beacons", func(t *testing.T) {
		s.settle()
		beacons(t, s, func() {
			kill()
			start()
		})
	})
}
