package service

import (
	"testing"

	"muniment/bench/system/storytest"
	"muniment/bench/system/systemtest"
)

func TestBundleOfAService(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	storytest.BundleOfAPerson(t, s, s.Log)
}
