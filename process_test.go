package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// startingProcess is a process until its signal is received.
func startingProcess(t *testing.T) (p *process, signal context.CancelFunc) {
	p = &process{logger: slog.New(slog.DiscardHandler)}
	p.signalled, signal = context.WithCancel(t.Context())
	p.ctx, p.fail = context.WithCancelCause(p.signalled)
	t.Cleanup(func() { p.fail(nil) })
	return p, signal
}

// TestFailureDuringTheStart ends the process with its error, and not as if it was signalled,
// which it often is next: what watches it sees that it isn't ready.
func TestFailureDuringTheStart(t *testing.T) {
	p, signal := startingProcess(t)
	broken := errors.New("the spool is broken")
	p.fail(broken)
	<-p.ctx.Done()
	opening := fmt.Errorf("cannot open the identity: %w", p.ctx.Err())
	other := errors.New("cannot open")
	for _, then := range []func(){func() {}, signal} {
		then()
		require.Equal(t, broken, p.failure())
		for _, p.started = range []bool{false, true} {
			require.Equal(t, broken, p.outcome(opening))
			require.Equal(t, broken, p.outcome(nil))
			require.Equal(t, broken, p.outcome(broken))
			require.ErrorIs(t, p.outcome(other), other)
			require.ErrorIs(t, p.outcome(other), broken)
		}
	}
}

// TestStopDuringTheStart is no failure, also when one follows from it.
func TestStopDuringTheStart(t *testing.T) {
	p, signal := startingProcess(t)
	require.NoError(t, p.failure())
	signal()
	<-p.ctx.Done()
	p.fail(errors.New("the spool is closed"))
	require.NoError(t, p.failure())
	require.NoError(t, p.outcome(fmt.Errorf("cannot open the identity: %w", p.ctx.Err())))
	p.started = true
	require.NoError(t, p.outcome(nil))
}

// TestProcessClosesInReverse: parts stop before what was opened sooner, and the first error
// counts.
func TestProcessClosesInReverse(t *testing.T) {
	var order []string
	closer := func(name string) func() error {
		return func() error {
			order = append(order, name)
			return errors.New(name)
		}
	}
	err := new(logFlags).run("test", func(p *process) error {
		p.atEnd(closer("database"))
		p.parts().run("the loader", func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, "loader")
			return nil
		})
		p.atEnd(closer("node"))
		return nil
	})
	require.EqualError(t, err, "node")
	require.Equal(t, []string{"node", "loader", "database"}, order)
}
