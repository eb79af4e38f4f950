package gateway

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropSYN is a classic BPF program over the TCP header: a segment that opens a
// connection is dropped, all others pass. Connections whose handshake has begun
// still complete; they inherit the filter, which means nothing to them.
var dropSYN = [...]unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},                  // flags
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},               // SYN and ACK
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x02, Jt: 0, Jf: 1}, // SYN alone
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
}

// refuseNew lets the kernel ignore new connections while the queue is emptied; their
// clients try again and are refused once the socket is closed. Without it (no TCP, a
// kernel without filters) a connection that arrives in the last moment is reset.
func refuseNew(ln net.Listener) {
	program := dropSYN
	onSocket(ln, func(fd int) {
		_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
}

// queued says whether the kernel has a connection to accept.
func queued(ln net.Listener) (some bool) {
	onSocket(ln, func(fd int) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		some = err == nil && n > 0
	})
	return some
}

// onSocket does what is to be done with a listener's descriptor, if it has one.
func onSocket(ln net.Listener, do func(fd int)) {
	has, ok := ln.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := has.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { do(int(fd)) })
}
