package stack

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strconv"

	"muniment.example/bench/system/systemtest"
)

// renameBroker is for a relay in front of a broker of 127.0.0.1 that is to be known by
// another port: what the broker says of itself is changed on its way.
func renameBroker(broker, to string) func(client, server net.Conn) {
	endpoint := func(address string) []byte {
		host, port, _ := net.SplitHostPort(address)
		n, _ := strconv.ParseUint(port, 10, 16)
		return binary.BigEndian.AppendUint32([]byte(host), uint32(n))
	}
	from, by := endpoint(broker), endpoint(to)
	return func(client, server net.Conn) {
		systemtest.BothWays(client, server, func() { _, _ = io.Copy(server, client) }, func() {
			systemtest.Frames(server, client, func(response []byte) bool {
				copy(response, bytes.ReplaceAll(response, from, by))
				return true
			})
		})
	}
}
