package system

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUntilEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	requests := 0
	require.ErrorIs(t, Until(ctx, func() (bool, error) {
		if requests++; requests == 2 {
			cancel()
		}
		return false, nil
	}), context.Canceled)
	require.Equal(t, 2, requests)
}
