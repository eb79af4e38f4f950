package system

import (
	"fmt"
	"net"
	"strconv"
	"sync"
)

// ports gives the servers of this process ports that stay theirs while they are started again.
// They are below those that Linux gives to connections by itself (32768 and more). So that no two
// processes give the same one, each takes blocks of them, and listens on the first of a block for
// as long as it lives.
var ports struct {
	sync.Mutex
	blocks    []net.Listener // on their first ports; the garbage collector closes one without references
	next, end int            // of the block that was taken last
}

const (
	firstPort, endOfPorts = 20_000, 32_000
	portBlock             = 50
)

// withPort replaces port 0 of an address by one that no other server of ours is given.
func withPort(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port != "0" {
		return address, err
	}
	ports.Lock()
	defer ports.Unlock()
	for {
		if ports.next == ports.end {
			if err := takePorts(); err != nil {
				return "", err
			}
		}
		address = net.JoinHostPort(host, strconv.Itoa(ports.next))
		ports.next++
		if ln, err := net.Listen("tcp", address); err == nil { // or another program has it
			return address, ln.Close()
		}
	}
}

// FreePort is a port of this machine that no other server of ours is given.
func FreePort() (port string, err error) {
	address, err := withPort("127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err = net.SplitHostPort(address)
	return port, err
}

// takePorts takes a block of ports.
func takePorts() error {
	for block := firstPort; block < endOfPorts; block += portBlock {
		if ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(block))); err == nil {
			ports.blocks = append(ports.blocks, ln)
			ports.next, ports.end = block+1, block+portBlock
			return nil
		}
	}
	return fmt.Errorf("no ports are left between %d and %d", firstPort, endOfPorts)
}
