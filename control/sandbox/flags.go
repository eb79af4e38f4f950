package sandbox

import (
	"errors"
	"fmt"
	"time"
)

// Flags are those of a command that serves the sandbox, in the form that kong reads.
type Flags struct {
	Tenants int   `default:"5000" help:"How many visitors have a tenant of the sandbox at a time, in all processes together. If all places are taken, the tenant idle longest (over an hour) is dropped; otherwise the answer is 503. 0 turns the sandbox off; the tenants that there are then stay, with their keys and rights, until it is on again and finds them idle." placeholder:"N"`
	Bytes   int64 `default:"1073741824" help:"About how many bytes visitors may take in log, warehouse and packs, all together. One tenant may take a 64th of it in warehouse and packs, and one address a 64th of it in the log, however many tenants it makes. If all is taken, the tenants idle longest (over an hour) are dropped if that frees space; otherwise the answer is 503." placeholder:"N"`
	Free    int64 `default:"268435456" help:"How many bytes must be free on the disk of the data folder: while there are less, visitors are answered 503." placeholder:"N"`
	Limits  `embed:""`
	Idle    time.Duration `default:"24h" help:"After how long without a request a tenant of the sandbox is dropped."`
}

// leastBytes leaves a tenant enough for the longest run of the demo.
const leastBytes = budgetParts << 20

// Validate refuses what a sandbox can't be run with.
func (f Flags) Validate() error {
	switch {
	case f.Tenants < 0:
		return errors.New("--sandbox-tenants must not be negative")
	case f.Bytes < leastBytes:
		return fmt.Errorf("--sandbox-bytes must be at least %d", int64(leastBytes))
	case f.Free < 0:
		return errors.New("--sandbox-free must not be negative")
	case f.Burst < 1 || f.Sustained < 1:
		return errors.New("the limits of the sandbox must be 1 or more")
	case f.Idle < touchEvery:
		return errors.New("--sandbox-idle must be at least 1m: use is noted to the minute")
	}
	return nil
}
