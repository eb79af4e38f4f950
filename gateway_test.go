package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/certs"
)

// TestControlInClear lets API keys go to control without TLS on this machine alone.
func TestControlInClear(t *testing.T) {
	for control, refused := range map[string]bool{
		"127.0.0.1:8081": false, "[::1]:8081": false, "localhost:8081": false,
		"control:8081": true, "10.0.0.1:8081": true, "127.0.0.1.example.com:8081": true, "": true,
	} {
		c := gatewayCmd{Control: []string{"127.0.0.1:1", control}, Nodes: []string{"https://control:8082"}}
		if err := c.Validate(); refused {
			require.ErrorContains(t, err, "--control-ca", control)
		} else {
			require.NoError(t, err, control)
		}
		c.ControlTLS = certs.ClientFlags{TLS: true}
		require.NoError(t, c.Validate(), control)
	}
}
