package systemtest

import ()

// StartNode is the command line of a gateway that has yet to join.
func StartNode(data, nodes string, more ...string) []string {
	return append([]string{"gateway", "--control", "127.0.0.1:1", "--nodes", nodes, "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, more...)
}
