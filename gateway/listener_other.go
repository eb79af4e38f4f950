//go:build !linux

package gateway

import "net"

// refuseNew can't keep new connections out here: one that arrives in the last
// moment is reset.
func refuseNew(net.Listener) {}

// queued can't tell here whether somebody is in the queue: who accepts when it is too
// late to look resets them.
func queued(net.Listener) bool { return false }
