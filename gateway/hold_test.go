package gateway

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHold: an address that is held refuses connections, and can be listened on; one that
// is listened on can't be held.
func TestHold(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", ":0"} {
		at, held, err := Hold(t.Context(), addr)
		require.NoError(t, err, addr)
		_, port, err := net.SplitHostPort(at.String())
		require.NoError(t, err)
		_, err = net.Dial("tcp", "127.0.0.1:"+port)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, addr)
		ln, err := Listen(t.Context(), at.String())
		require.NoError(t, err, addr)
		require.NoError(t, held.Close())
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		require.NoError(t, err, addr)
		require.NoError(t, c.Close())
		_, _, err = Hold(t.Context(), at.String())
		require.ErrorIs(t, err, syscall.EADDRINUSE, addr)
		require.NoError(t, ln.Close())
	}
	_, _, err := Hold(t.Context(), "127.0.0.1:-1")
	require.ErrorContains(t, err, "invalid port")
}
