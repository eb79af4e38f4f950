package bench

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
	"time"
)

// tick is the unit of the kernel's CPU counters in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// processCPU is the CPU that a process has used so far, in all its threads.
func processCPU(pid int) (time.Duration, error) {
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

// processMemory is the memory that a process holds (RSS), in bytes.
func processMemory(pid int) (int64, error) {
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

// machineCPU is what all CPUs together have done so far.
type machineCPU struct {
	// total is all time, stolen what the hypervisor gave to others, worked what
	// processes used. Work for interrupts belongs to nobody and is not in it.
	total, stolen, worked time.Duration
}

func (m machineCPU) sub(o machineCPU) machineCPU {
	return machineCPU{m.total - o.total, m.stolen - o.stolen, m.worked - o.worked}
}

func readMachine() (machineCPU, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return machineCPU{}, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	// cpu user nice system idle iowait irq softirq steal …; guests are in user.
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return machineCPU{}, errors.New("cannot read /proc/stat")
	}
	var m machineCPU
	var faults [3]error
	m.total, faults[0] = sumTicks(f[1:9]...)
	m.worked, faults[1] = sumTicks(f[1:4]...)
	m.stolen, faults[2] = sumTicks(f[8])
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

// describeMachine names what figures depend on.
func describeMachine(dir string) string {
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
