package measure

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"muniment.example/gateway/api"
)

// Listeners are the processes of this machine that listen on the ports of addresses,
// with commas in between; none for what is elsewhere, or not ours to look at.
func Listeners(addresses string) (pids []int) {
	sockets := map[string]bool{}
	for _, address := range strings.Split(addresses, ",") {
		host, port, err := net.SplitHostPort(address)
		if err != nil || !api.Loopback(host) {
			continue
		}
		for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			addSockets(sockets, table, port)
		}
	}
	if len(sockets) == 0 {
		return nil
	}
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is sound
	for _, folder := range folders {
		if holds(folder, sockets) {
			pid, _ := strconv.Atoi(filepath.Base(folder)) // the pattern says so
			pids = append(pids, pid)
		}
	}
	return pids
}

// addSockets adds those of a table of the kernel's that listen on a port, as links name
// them.
func addSockets(sockets map[string]bool, table, port string) {
	text, err := os.ReadFile(table)
	number, atoiErr := strconv.Atoi(port)
	if err != nil || atoiErr != nil {
		return
	}
	const local, state, inode, listening = 1, 3, 9, "0A"
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > inode && f[state] == listening && strings.HasSuffix(f[local], fmt.Sprintf(":%04X", number)) {
			sockets["socket:["+f[inode]+"]"] = true
		}
	}
}

// holds says whether a process has one of the sockets open.
func holds(folder string, sockets map[string]bool) bool {
	open, _ := os.ReadDir(filepath.Join(folder, "fd")) // one that has gone or is another's holds none
	for _, d := range open {
		if target, err := os.Readlink(filepath.Join(folder, "fd", d.Name())); err == nil && sockets[target] {
			return true
		}
	}
	return false
}
