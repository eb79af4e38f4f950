package measure

import (
	"fmt"
	"os"
	"time"
)

// Meters are the counters that are read at both ends of a measurement.
type Meters struct {
	At             time.Time
	Server, Client time.Duration
	Beside         time.Duration
	Machine        MachineCPU
}

// ReadMeters reads those of a server, of this process, of others that take part, and of
// the machine; pid 0 is no server.
func ReadMeters(pid int, beside ...int) (m Meters, err error) {
	m.At = time.Now()
	if pid != 0 {
		if m.Server, err = ProcessCPU(pid); err != nil {
			return m, err
		}
	}
	for _, pid := range beside {
		cpu, err := ProcessCPU(pid)
		if err != nil {
			return m, err
		}
		m.Beside += cpu
	}
	if m.Client, err = ProcessCPU(os.Getpid()); err != nil {
		return m, err
	}
	m.Machine, err = readMachine()
	return m, err
}

// Loss is what a measurement had to do without.
type Loss struct {
	// Steal is the part of the machine's time that the hypervisor gave to others,
	// Others what processes used that were not measured.
	Steal, Others float64
}

// Measurements with more than this of the machine's time lost are left out.
const (
	MaxSteal  = 0.03
	MaxOthers = 0.06
)

// Disturbed says whether more was lost than a figure bears.
func (l Loss) Disturbed() bool { return l.Steal > MaxSteal || l.Others > MaxOthers }

// Disturbance says what was lost, "" if the measurement was not disturbed.
func (l Loss) Disturbance() string {
	if !l.Disturbed() {
		return ""
	}
	return fmt.Sprintf("  disturbed: %.0f %% stolen, %.0f %% others", 100*l.Steal, 100*l.Others)
}

// LossBetween is the loss of a measurement, given the meters at both ends.
func LossBetween(begin, end Meters) (l Loss) {
	if machine := end.Machine.sub(begin.Machine); machine.Total > 0 {
		measured := end.Server - begin.Server + end.Client - begin.Client + end.Beside - begin.Beside
		l.Steal = float64(machine.Stolen) / float64(machine.Total)
		l.Others = max(0, float64(machine.Worked-measured)/float64(machine.Total))
	}
	return l
}
