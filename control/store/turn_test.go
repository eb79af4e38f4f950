package store

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/control/store/storetest"
	"muniment/gateway/api"
)

// TestTurnIsBounded: who waits for somebody else says for whom, and not for ever.
func TestTurnIsBounded(t *testing.T) {
	t.Run("another process", func(t *testing.T) {
		onPostgres(t)
		testTurn(t, true)
	})
	t.Run("this process", func(t *testing.T) { testTurn(t, false) })
}

func testTurn(t *testing.T, apart bool) {
	dir := t.TempDir()
	path, url := storetest.Place(t, dir)
	var log bytes.Buffer
	second := mustOpenAt(t, Config{
		Path: path, URL: url, turnWait: 300 * time.Millisecond, turnTold: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	first, holder := second, "muniment control: revoking a key, in this process"
	if apart {
		first, holder = mustOpen(t, dir), "muniment control: revoking a key, from 127.0.0.1"
	}
	release, err := first.Turn(t.Context(), "revoking a key")
	require.NoError(t, err)

	_, err = second.Turn(t.Context(), "rotating a key")
	told := api.From(err)
	require.Equal(t, api.DatabaseBusy, told.Reason)
	require.Contains(t, told.Message, holder)
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("waiting for other work of control")))
	require.Contains(t, log.String(), `to="rotating a key" other="`+holder)

	second.cfg.turnWait = time.Hour
	second.cfg.turnTold = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = second.Turn(ctx, "rotating a key")
	require.Error(t, err)
	require.Error(t, ctx.Err(), "it waits as long as its caller")

	got := make(chan func(), 1)
	go func() {
		release, err := second.Turn(t.Context(), "rotating a key")
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
		release, err := db.Turn(t.Context(), "renewing")
		require.NoError(t, err, "turn %d", i)
		release()
	}
}
