package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
)

// An insert that is refused for the sake of another one's quorum is made again until that
// one is done, and for so long; whatever else fails it, fails it at once.
func TestInsertsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &servers{}
		refused := fmt.Errorf("cannot send: %w", &clickhouse.Exception{Code: errUnsatisfiedQuorum})
		inserts := 0
		require.NoError(t, w.retryRefused(t.Context(), func() error {
			if inserts++; inserts < 20 {
				return refused
			}
			return nil
		}))
		require.Equal(t, 20, inserts)

		begun := time.Now()
		require.ErrorIs(t, w.retryRefused(t.Context(), func() error { return refused }), refused)
		require.InDelta(t, retryTimeout, time.Since(begun), float64(2*maxPause))

		for _, other := range []error{errors.New("EOF"), &clickhouse.Exception{Code: 285}} {
			inserts = 0
			require.ErrorIs(t, w.retryRefused(t.Context(), func() error { inserts++; return other }), other)
			require.Equal(t, 1, inserts)
		}

		begun = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.retryRefused(ctx, func() error { return refused }), refused)
		require.Equal(t, time.Second, time.Since(begun))
	})
}
