package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

func TestBundleOfAService(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	storytest.BundleOfAPerson(t, s, s.Log)
}
