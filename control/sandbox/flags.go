package sandbox

import (
	"errors"
	"fmt"
	"time"
)

// Flags are the flags of a command that serves the sandbox, in the form that kong reads.
type Flags struct {
	Tenants int   `default:"5000" help:"How many visitors may have a tenant of the sandbox, in all processes together. For one more, the tenant that is idle longest (over an hour) is dropped; if there is none, the response is 503. 0 turns the sandbox off; existing tenants then keep their keys and rights, and are dropped as idle when it is on again." placeholder:"N"`
	Bytes   int64 `default:"1073741824" help:"About how many bytes all visitors together may use in log, warehouse and packs. One tenant may use a 64th of it in warehouse and packs, and one IP address a 64th of it in the log, however many tenants it creates. If all is used, the tenants that are idle longest (over an hour) are dropped if that frees space; otherwise the response is 503." placeholder:"N"`
	Free    int64 `default:"268435456" help:"How many bytes must be free on the disk of the data folder: while fewer are, the response to visitors is 503." placeholder:"N"`
	Limits  `embed:""`
	Idle    time.Duration `default:"24h" help:"After how long without a request a tenant of the sandbox is dropped."`
}

// leastBytes gives a tenant enough for the longest run of the demo.
const leastBytes = budgetParts << 20

// Validate names the first flag with an invalid value.
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
		return errors.New("--sandbox-idle must be at least 1m: the last use of a tenant is recorded to the minute")
	}
	return nil
}
