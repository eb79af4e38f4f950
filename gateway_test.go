package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment/gateway/certs"
)

// TestControlInClear lets API keys go to control without TLS on this machine alone.
func TestControlInClear(t *testing.T) {
	for control, refused := range map[string]bool{
		"127.0.0.1:8081": false, "[::1]:8081": false, "localhost:8081": false,
		"control:8081": true, "10.0.0.1:8081": true, "127.0.0.1.example.com:8081": true, "": true,
	} {
		c := gatewayCmd{Control: control, Nodes: "https://control:8082"}
		_, err := c.openHops(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if refused {
			require.ErrorContains(t, err, "--control-ca", control)
		} else {
			require.NoError(t, err, control)
		}
		c.ControlTLS = certs.ClientFlags{TLS: true}
		_, err = c.openHops(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		require.NoError(t, err, control)
	}
}

// TestGatewayWaitsForControl: meanwhile its port refuses, so that a balancer goes to
// another node, and operators are told what it waits for.
func TestGatewayWaitsForControl(t *testing.T) {
	exe := muniment(t)
	gateway := func(listen string) *exec.Cmd {
		return exec.Command(exe, "gateway", "--kafka", "127.0.0.1:1", "--control", "127.0.0.1:1", "--nodes", "http://127.0.0.1:1",
			"--invitation", "x", "--data", t.TempDir(), "--listen", listen, "--admin", "127.0.0.1:0")
	}
	p := launch(t, gateway("127.0.0.1:0"))
	require.Eventually(t, func() bool {
		status, text := p.ready(t)
		require.Equal(t, http.StatusServiceUnavailable, status)
		return strings.Contains(text, "waiting for control")
	}, 30*time.Second, 10*time.Millisecond)
	_, err := net.Dial("tcp", hostPort(p.api))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	p.stop(t)

	out, err := gateway("127.0.0.1:-1").CombinedOutput()
	require.Error(t, err, "what can't be listened on ends it at once")
	require.Contains(t, string(out), "invalid port")
}

// TestFailureDuringTheStart ends the process with its error, and not as if it was told to
// stop, which it often is next: what watches it sees that it isn't ready.
func TestFailureDuringTheStart(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	failed := make(chan error, 8)
	told, stop := context.WithCancel(t.Context())
	ctx, done := untilFailed(told, failed)
	defer done()
	broken := errors.New("the spool is broken")
	failed <- broken
	<-ctx.Done()
	opening := fmt.Errorf("cannot open the identity: %w", ctx.Err())
	other := errors.New("cannot open")
	for _, then := range []func(){func() {}, stop} {
		then()
		require.Equal(t, broken, whyEnded(told, ctx))
		for _, started := range []bool{false, true} {
			require.Equal(t, broken, stopped(told, ctx, logger, started, opening))
			require.Equal(t, broken, stopped(told, ctx, logger, started, nil))
			require.Equal(t, broken, stopped(told, ctx, logger, started, broken))
			require.ErrorIs(t, stopped(told, ctx, logger, started, other), other)
			require.ErrorIs(t, stopped(told, ctx, logger, started, other), broken)
		}
	}
}

// TestStopDuringTheStart is no failure, also when one follows from it.
func TestStopDuringTheStart(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	failed := make(chan error, 8)
	told, stop := context.WithCancelCause(t.Context())
	ctx, done := untilFailed(told, failed)
	defer done()
	require.NoError(t, whyEnded(told, ctx))
	stop(errors.New("a signal was received"))
	<-ctx.Done()
	failed <- errors.New("the spool is closed")
	require.NoError(t, whyEnded(told, ctx))
	require.NoError(t, stopped(told, ctx, logger, false, fmt.Errorf("cannot open the identity: %w", ctx.Err())))
	require.NoError(t, stopped(told, ctx, logger, true, nil))
}
