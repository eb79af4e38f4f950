package issue

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/issue/issuetest"
	"muniment.example/gateway/snapshot"
)

// TestLogIsAskedUntilItRecords: after a record was refused the issuer can't record until the log is
// writable again, which it finds out without a delivery.
func TestLogIsAskedUntilItRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view, err := snapshot.New(snapshot.Config{Source: issuetest.NewControl(), NodeID: "nod_1", Capacity: 10})
		require.NoError(t, err)
		defer view.Close()
		log := &issuetest.Log{T: t}
		var logged bytes.Buffer
		i, err := New(Config{NodeID: "nod_1", Epoch: 1, Rights: view, Log: log, Signer: issuetest.Always(nil), Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- i.Run(ctx) }()
		require.NoError(t, i.CanRecord())

		full := errors.New("the disk is full")
		log.SetFail(full)
		i.logTrouble.Begins(i.cfg.Logger, appendToLog, full)
		for range 60 {
			time.Sleep(time.Second)
			synctest.Wait()
			require.ErrorIs(t, i.CanRecord(), full)
		}
		log.SetFail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, i.CanRecord())
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, 1, strings.Count(logged.String(), "cannot append deliveries to the log"), logged.String())
		require.Equal(t, 1, strings.Count(logged.String(), "can append deliveries to the log again"), logged.String())
	})
}
