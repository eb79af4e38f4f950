package rollback

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

func TestHighWaterOnlyRises(t *testing.T) {
	db := mustOpen(t, t.TempDir())
	_, ok, err := HighWater(t.Context(), db.DB, 0)
	require.NoError(t, err)
	require.False(t, ok)
	for _, c := range []struct{ set, want sealer.Position }{
		{sealer.Position{Offset: 7}, sealer.Position{Offset: 7}},
		{sealer.Position{Offset: 6}, sealer.Position{Offset: 7}},
		{sealer.Position{Generation: 1, Offset: 2}, sealer.Position{Generation: 1, Offset: 2}},
		{sealer.Position{Offset: 9}, sealer.Position{Generation: 1, Offset: 2}},
	} {
		require.NoError(t, SetHighWater(t.Context(), db.DB, c.set))
		got, ok, err := HighWater(t.Context(), db.DB, 0)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, c.want, got)
	}
}

// TestFollow follows a log that grows, over an outage that is logged once.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		db := mustOpenFile(t, t.TempDir(), slog.New(slog.NewTextHandler(&said, nil)))
		defer db.Close()
		log := newMemoryLog()
		mark := func() int64 {
			p, _, err := HighWater(t.Context(), db.DB, 0)
			require.NoError(t, err)
			return p.Offset
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- Follow(ctx, db.DB, log) }()
		// The log is changed between two ticks.
		time.Sleep(followEvery / 2)
		log.deliver(t, 5)
		time.Sleep(followEvery)
		require.Equal(t, int64(5), mark())
		log.fail(errLog)
		log.deliver(t, 5)
		time.Sleep(5 * followEvery)
		require.Equal(t, int64(5), mark())
		log.fail(nil)
		time.Sleep(followEvery)
		require.Equal(t, int64(10), mark())
		log.deliver(t, 1)
		stop()
		require.NoError(t, <-done)
		require.Equal(t, int64(11), mark(), "what a clean end leaves is known in full")
		require.Equal(t, 1, bytes.Count(said.Bytes(), []byte("cannot record how far")))
	})
}
