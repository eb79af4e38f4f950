package gateway

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHoldOfAZone that is a number, as addresses are told where interfaces have no names.
func TestHoldOfAZone(t *testing.T) {
	_, _, err := Hold(t.Context(), "[fe80::1%1]:0")
	require.Error(t, err, "the loopback interface has no such address")
	require.NotErrorIs(t, err, syscall.EINVAL, "the kernel was not told the zone")
}

// TestALookUpEndsWithItsContext though nobody answers it.
func TestALookUpEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := resolve(ctx, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}, "node.example:8080")
	require.ErrorIs(t, err, context.Canceled)
}
