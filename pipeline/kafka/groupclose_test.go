package kafka

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
)

// A member that stops while the brokers answer nothing doesn't wait for
// them, and leaves nothing behind.
func TestGroupEndsWithoutBrokers(t *testing.T) {
	before := goleak.IgnoreCurrent()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	cfg := freshTopic(t, cluster.ListenAddrs(), Topic{})
	log, err := Open(cfg)
	require.NoError(t, err)
	g, err := log.Group(quick(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done, loading := make(chan error, 1), make(chan struct{}, 4)
	go func() {
		done <- g.Run(ctx, func(ctx context.Context, _ int32) { loading <- struct{}{}; <-ctx.Done() })
	}()
	for range 4 {
		<-loading
	}
	cluster.Close()
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, log.Close())
	requireNothingLeft(t, before)
}

// requireNothingLeft waits until all goroutines have ended but those of before.
func requireNothingLeft(tb testing.TB, before goleak.Option) {
	tb.Helper()
	waittest.Until(tb, func() bool { return goleak.Find(before) == nil })
}

// silent is a connection on which nothing is taken or said until it is closed, whatever
// the deadline.
type silent struct{ net.Conn }

// Nor for brokers that take connections and say nothing.
func TestGroupEndsWithSilentBrokers(t *testing.T) {
	t.Parallel()
	cfg := freshTopic(t, fakeBrokers(t), Topic{})
	var away atomic.Bool
	cfg.Dial = func(ctx context.Context, kind, address string) (net.Conn, error) {
		if away.Load() {
			conn, other := net.Pipe()
			t.Cleanup(func() { other.Close() })
			return silent{conn}, nil
		}
		return new(net.Dialer).DialContext(ctx, kind, address)
	}
	var r roll
	_, stop := r.member(t, cfg, quick(t), "a")
	r.requireShares(t, map[string]int{"a": 4})
	away.Store(true)
	require.NoError(t, stop())
}

// Nor for those that are being dialled.
func TestDiallingEndsWithItsGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dial := until(ctx, func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	_, err := dial(t.Context(), "tcp", "broker:9092")
	require.ErrorIs(t, err, context.Canceled)
}

// A log that fails or is closed ends its group with the reason.
func TestGroupEndsWithItsLog(t *testing.T) {
	cfg := freshTopic(t, fakeBrokers(t), Topic{})
	log := mustOpen(t, cfg)
	g, err := log.Group(quick(t))
	require.NoError(t, err)
	done, loading := make(chan error, 1), make(chan struct{}, 4)
	go func() {
		done <- g.Run(t.Context(), func(ctx context.Context, _ int32) { loading <- struct{}{}; <-ctx.Done() })
	}()
	<-loading
	require.NoError(t, log.Close())
	require.ErrorIs(t, <-done, pipeline.ErrClosed)
}

func (silent) SetDeadline(time.Time) error { return nil }

func (silent) SetReadDeadline(time.Time) error { return nil }

func (silent) SetWriteDeadline(time.Time) error { return nil }
