package systemtest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Linux's prctl PR_SET_MDWE with PR_MDWE_REFUSE_EXEC_GAIN: memory that can be written can't become
// executable, in this program and in what it executes.
const (
	prSetMDWE      = 65
	refuseExecGain = 1
)

// confined is the command muniment-confined: muniment with that set. Without arguments it only
// reports by its status whether the kernel can set it.
func confined() {
	runtime.LockOSThread()
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, prSetMDWE, refuseExecGain, 0, 0, 0, 0); errno != 0 {
		fmt.Fprintln(os.Stderr, "cannot confine this program:", errno)
		os.Exit(ExitNotConfined)
	}
	if len(os.Args) == 1 {
		return
	}
	program, err := exec.LookPath("muniment")
	if err == nil {
		err = syscall.Exec(program, append([]string{"muniment"}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, "cannot execute muniment:", err)
	os.Exit(2)
}
