// Package measure reads what processes and the machine used, and says what figures mean: the
// counters of Linux, medians, what neighbours took of the machine, verdicts about figures that
// must hold, and Markdown tables.
package measure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of the kernel's CPU counters in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// ProcessCPU is the CPU that a process has used so far, in all its threads.
func ProcessCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	// The name stands in parentheses and may hold anything, blanks too.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 11, 12 // fields 14 and 15, counted behind the name
	if len(fields) <= system {
		return 0, fmt.Errorf("cannot read /proc/%d/stat", pid)
	}
	return sumTicks(fields[user], fields[system])
}

// ProcessMemory is the memory that a process holds (RSS), in bytes.
func ProcessMemory(pid int) (int64, error) {
	statm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		return 0, fmt.Errorf("cannot read /proc/%d/statm: %w", pid, err)
	}
	return resident * int64(os.Getpagesize()), nil
}

// MachineCPU is what all CPUs together have done so far.
type MachineCPU struct {
	// Total is all time, stolen what the hypervisor gave to others, worked what
	// processes used. Work for interrupts belongs to no process and is not in it.
	Total, Stolen, Worked time.Duration
}

// sub is what was done since o.
func (m MachineCPU) sub(o MachineCPU) MachineCPU {
	return MachineCPU{m.Total - o.Total, m.Stolen - o.Stolen, m.Worked - o.Worked}
}

// readMachine reads /proc/stat.
func readMachine() (MachineCPU, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return MachineCPU{}, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	// cpu user nice system idle iowait irq softirq steal …; guests are in user.
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return MachineCPU{}, errors.New("cannot read /proc/stat")
	}
	var m MachineCPU
	var faults [3]error
	m.Total, faults[0] = sumTicks(f[1:9]...)
	m.Worked, faults[1] = sumTicks(f[1:4]...)
	m.Stolen, faults[2] = sumTicks(f[8])
	return m, errors.Join(faults[:]...)
}

func sumTicks(fields ...string) (sum time.Duration, err error) {
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// DescribeMachine names what figures depend on.
func DescribeMachine(dir string) string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := bytes.Cut(info, []byte("model name")); ok {
			line, _, _ := strings.Cut(string(rest), "\n")
			model = strings.Trim(line, "\t :")
		}
	}
	kernel := runtime.GOOS
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = "Linux " + strings.TrimSpace(string(release))
	}
	disk := "an unknown file system"
	if out, err := exec.Command("df", "--output=fstype", dir).Output(); err == nil {
		_, kind, _ := strings.Cut(string(out), "\n")
		disk = strings.TrimSpace(kind)
	}
	return fmt.Sprintf("%d × %s, %s, %s, %s", runtime.NumCPU(), model, kernel, disk, runtime.Version())
}

// PeakOf is the most memory that a process has held so far, in bytes.
func PeakOf(pid int) int64 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0 // it has ended
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes a number
			return kb << 10
		}
	}
	return 0
}

// RaiseFileLimit lets this process, and those that it starts, open that many files.
func RaiseFileLimit(need uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	need = max(need, limit.Cur) // set it all the same: what was not set is not passed on
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: need, Max: max(need, limit.Max)}); err != nil {
		return fmt.Errorf("%d open files are needed, %d are allowed: %w", need, limit.Max, err)
	}
	return nil
}
