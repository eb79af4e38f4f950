package store

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store/storetest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// TestKeyLockTimesOut, and the error names the holder.
func TestKeyLockTimesOut(t *testing.T) {
	t.Run("another process", func(t *testing.T) {
		onPostgres(t)
		testLockKeys(t, true)
	})
	t.Run("this process", func(t *testing.T) { testLockKeys(t, false) })
}

func testLockKeys(t *testing.T, apart bool) {
	dir := t.TempDir()
	stacktest.Both(t)
	path, url := storetest.Place(t, dir)
	var log bytes.Buffer
	second := mustOpenAt(t, Config{
		Path: path, URL: url, lockWait: 300 * time.Millisecond, lockWarnAfter: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	first, holder := second, "muniment control: revoking a key, in this process"
	if apart {
		first, holder = mustOpen(t, dir), "muniment control: revoking a key, from 127.0.0.1"
	}
	release, err := first.LockKeys(t.Context(), "revoking a key")
	require.NoError(t, err)

	_, err = second.LockKeys(t.Context(), "rotating a key")
	refused := api.From(err)
	require.Equal(t, api.DatabaseBusy, refused.Reason)
	require.Contains(t, refused.Message, holder)
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("waiting for other work of control")))
	require.Contains(t, log.String(), `to="rotating a key" other="`+holder)

	second.cfg.lockWait = time.Hour
	second.cfg.lockWarnAfter = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = second.LockKeys(ctx, "rotating a key")
	require.Error(t, err)
	require.Error(t, ctx.Err(), "it waits as long as its caller")

	got := make(chan func(), 1)
	go func() {
		release, err := second.LockKeys(t.Context(), "rotating a key")
		if err != nil {
			t.Error(err)
		}
		got <- release
	}()
	release()
	(<-got)()
}

// TestTurnEndsWithItsRelease, not when the server has noticed that a connection is gone.
func TestTurnEndsWithItsRelease(t *testing.T) {
	onPostgres(t)
	_, url := storetest.Place(t, t.TempDir())
	db := mustOpenAt(t, Config{URL: url, releaseWait: time.Hour})
	for i := range 50 {
		release, err := db.LockKeys(t.Context(), "renewing")
		require.NoError(t, err, "round %d", i)
		release()
	}
}
