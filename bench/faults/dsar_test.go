package faults

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

func TestWorkersKilled(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	storytest.WorkersKilled(t, s, systemtest.Times(1, 50), func(string) {
		s.Server.Kill()
		s.StartAgain()
	})
}
