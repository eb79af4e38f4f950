package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

func TestStatementOfAService(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	storytest.Statement(t, s, systemtest.Times(2_000, 200_000))
}
