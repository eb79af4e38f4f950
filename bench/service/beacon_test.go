package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

// TestBeaconOfAService: a player calls what the API has made. Each play is metered once, also
// over a start and a rotation of the key that signed the beacon, until the API key is revoked.
func TestBeaconOfAService(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	storytest.Beacons(t, s, func() {
		s.Stop()
		s.StartAgain()
	})
}
