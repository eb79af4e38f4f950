package gateway

import (
	"os"
	"runtime"
)

// DoubleProcs gives Go twice as many Ps as there are processors, unless the environment
// says how many; it returns the number of processors. A blocked fdatasync holds a P until
// the runtime takes it back: with one P a processor, a gateway would stall.
func DoubleProcs() (processors int) {
	processors = runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * processors)
	}
	return processors
}
