//go:build !linux

package snapshot

import "time"

var started = time.Now()

// bootClock falls back on Go's monotonic clock, which may stand still while the
// machine is suspended: off Linux a node must not be suspended.
func bootClock() time.Duration { return time.Since(started) }
