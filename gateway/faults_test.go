package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFaultsAreLoggedOnceASecond, with how many were not.
func TestFaultsAreLoggedOnceASecond(t *testing.T) {
	var f faults
	now := time.Now()
	for _, c := range []struct {
		after      time.Duration
		due        bool
		suppressed int64
	}{{0, true, 0}, {0, false, 0}, {999 * time.Millisecond, false, 0}, {time.Millisecond, true, 2}, {time.Second, true, 0}} {
		now = now.Add(c.after)
		suppressed, due := f.due(now)
		require.Equal(t, c.due, due)
		require.Equal(t, c.suppressed, suppressed)
	}
}
