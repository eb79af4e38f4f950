package stack

import (
	"testing"

	"muniment.example/bench/system/storytest"
)

// TestRequestsOnTheStack has the requests answered by two gateways, and the list by two control processes.
func TestRequestsOnTheStack(t *testing.T) {
	t.Parallel()
	s, _ := scaledOut(t)
	storytest.Requests(t, s)
}
