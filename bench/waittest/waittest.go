// Package waittest is how tests wait: for a condition, for as long as it takes. No test fails because
// a machine is busy. A condition that never holds is caught by the limit of the whole run (go test
// -timeout), whose goroutine dump names the test and the line that waits.
package waittest

import (
	"testing"
	"time"
)

// The first and the longest pause between two looks: what is waited for must not be slowed down by
// being looked at.
const first, longest = time.Millisecond, 100 * time.Millisecond

// Until returns once a condition holds. It calls holds on its own goroutine, so that holds may require
// what a test requires. What follows says to readers what is waited for.
func Until(t testing.TB, holds func() bool, _ ...any) {
	t.Helper()
	for pause := first; !holds(); pause = min(pause*3/2, longest) {
		time.Sleep(pause)
	}
}
