package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

func TestRequestsOfAService(t *testing.T) {
	t.Parallel()
	storytest.Requests(t, systemtest.NewService(t))
}
