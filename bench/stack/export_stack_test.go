package stack

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

func TestAnalystsExportOnTheStack(t *testing.T) {
	t.Parallel()
	s, _ := scaledOut(t)
	s.Settle()
	storytest.Export(t, s, systemtest.Times(12_000, 200_000))
}
