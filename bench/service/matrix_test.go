package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

// TestForeignResources requests everything that one tenant has with the key of
// another. Every answer has the status, headers and bytes of that for an unknown id.
func TestForeignResources(t *testing.T) { storytest.ForeignResources(t, systemtest.Shared(t)) }

// TestForeignResourcesOfTheSandbox requests with one visitor's cookie everything that
// another has, and that a tenant with a key has.
func TestForeignResourcesOfTheSandbox(t *testing.T) {
	t.Parallel()
	storytest.ForeignResourcesInSandbox(t, systemtest.Shared(t))
}

// TestEffects: a key of one scope causes no event that another scope guards.
func TestEffects(t *testing.T) {
	t.Parallel()
	storytest.Effects(t, systemtest.Shared(t))
}

// TestScopeMatrix calls every operation with keys of each scope alone, of all scopes but
// one, and of the wildcard. A key without any scope can't be made. What the document
// declares decides, and nothing else does.
func TestScopeMatrix(t *testing.T) {
	t.Parallel()
	storytest.ScopeMatrix(t, systemtest.Shared(t))
}
