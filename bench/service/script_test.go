package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

// TestScripts plays the scripts, each as a tenant of its own. Every operation of the
// sandbox has one of its name, and so have the contract's transitions; every error code
// and every state is reached.
func TestScripts(t *testing.T) {
	t.Parallel()
	storytest.Scripts(t, systemtest.Shared(t))
}
