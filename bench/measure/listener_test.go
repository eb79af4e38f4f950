package measure

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListeners(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	require.Contains(t, Listeners("elsewhere.example:9092,"+ln.Addr().String()), os.Getpid())
	require.NoError(t, ln.Close())
	require.NotContains(t, Listeners(ln.Addr().String()), os.Getpid())
	require.Empty(t, Listeners("elsewhere.example:9092"))
}
